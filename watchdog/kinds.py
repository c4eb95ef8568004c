"""Every kind of check, one row each: what it looks at, whose settings it has, which reasons it gives.

The first part of an observation's key names its kind: `generation/deepseek`, `kernel_log/worker/pcie.aer/0000:01:00.0`.
To add a kind: a module in `watchdog/checks` with `build`, and a row here. The plan, the daemon, `status`, silences, the
diagnosis and the messages read the row. What the watchdog says of itself (`self/…`) has rows of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from watchdog.config import Config, HostSettings, KernelLogSettings, ProbeSettings, ServerSettings, VitalsSettings
from watchdog.reasons import (
    HostReason,
    OwnReason,
    ProgressReason,
    QualityReason,
    Row,
    SeatReason,
    ServerReason,
    SlowReason,
)

SELF = "self"
"""First part of the keys of what the watchdog says of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckKind:
    """One kind of check.

    `label` names what it is about, and with it the section of the configuration. `settings` is the field of the target
    with its interval and thresholds. `module` is the one in `watchdog.checks` that builds its checks; empty where the
    run of another kind gives its observations. `look_at` is where an alert sends its reader (`{host}` is filled in).
    """

    name: str
    label: Literal["server", "host"]
    settings: str
    reasons: type[ServerReason | ProgressReason | QualityReason | SlowReason | SeatReason | HostReason]
    module: str = ""
    look_at: str = ""
    runbook: str = ""
    asks_for_text: bool = False
    """A failure means that no text came: titles and sentences say so."""
    has_occurrences: bool = False
    """Keys below its target's are things that happened, not conditions."""
    says_blindness: bool = True
    """Whether three unknowns in a row are an incident. Not of mere evidence: another kind alerts for it."""
    is_diagnosed: bool = False
    """Whether its incidents get a diagnosis."""

    def key(self, *parts: str) -> str:
        """The key of a target, or of something below it: `key("worker", "log.incomplete", "-")`."""
        return "/".join((self.name, *parts))

    def has(self, key: str) -> bool:
        return key.partition("/")[0] == self.name

    def target_of(self, key: str) -> str:
        """The name of the server or host that `key` is about; "" if `key` is of another kind."""
        kind, _, rest = key.partition("/")
        return rest.partition("/")[0] if kind == self.name else ""

    def targets(self, config: Config) -> tuple[ServerSettings, ...] | tuple[HostSettings, ...]:
        """The servers or hosts of `config` that it looks at."""
        return config.servers if self.label == "server" else config.hosts

    def settings_of(self, target: ServerSettings | HostSettings) -> ProbeSettings | KernelLogSettings | VitalsSettings:
        """Interval, deadline and thresholds for `target`."""
        found: ProbeSettings | KernelLogSettings | VitalsSettings = getattr(target, self.settings)
        return found


GENERATION = CheckKind(
    name="generation",
    label="server",
    module="generation",
    settings="probe",
    reasons=ServerReason,
    look_at="the log of the server process, and GPU use and power on its hosts",
    asks_for_text=True,
    is_diagnosed=True,
)
PROGRESS = CheckKind(
    name="progress",
    label="server",
    settings="probe",
    reasons=ProgressReason,
    look_at="the server's running requests, and GPU use and power on its hosts",
    is_diagnosed=True,
)
QUALITY = CheckKind(
    name="quality",
    label="server",
    settings="probe",
    reasons=QualityReason,
    look_at="the text that the server gives, and NaN in its log",
)
SLOW = CheckKind(
    name="slow",
    label="server",
    settings="probe",
    reasons=SlowReason,
    look_at="GPU clocks and power on its hosts, and the link between them",
    is_diagnosed=True,
)
SEAT = CheckKind(
    name="seat",
    label="server",
    settings="probe",
    reasons=SeatReason,
    look_at="which server of the seat is wanted",
    has_occurrences=True,
)
KERNEL_LOG = CheckKind(
    name="kernel_log",
    label="host",
    module="kernel_log",
    settings="kernel_log",
    reasons=HostReason,
    look_at="the kernel log of {host} (journalctl -k, dmesg), also of the boot before",
    has_occurrences=True,
    is_diagnosed=True,
)
FOLLOW = CheckKind(
    name="follow",
    label="host",
    settings="kernel_log",
    reasons=HostReason,
    runbook="The live stream of a host's kernel log is down; scans still read every line.",
)
VITALS = CheckKind(
    name="vitals",
    label="host",
    module="vitals",
    settings="vitals",
    reasons=HostReason,
    look_at="memory, GPU and uptime of {host}",
    says_blindness=False,
)

KINDS = (GENERATION, PROGRESS, QUALITY, SLOW, SEAT, KERNEL_LOG, FOLLOW, VITALS)
"""In the order in which their checks first start."""
OF_SERVERS = tuple(kind for kind in KINDS if kind.label == "server")
OF_HOSTS = tuple(kind for kind in KINDS if kind.label == "host")
BUILT = tuple(kind for kind in KINDS if kind.module)
"""Kinds with checks of their own."""
_BY_NAME = {kind.name: kind for kind in KINDS}
_ROWS: dict[type[StrEnum], dict[str, Row]] = {
    reasons: {reason.value: reason.row for reason in reasons}
    for reasons in (ServerReason, ProgressReason, QualityReason, SlowReason, SeatReason, HostReason, OwnReason)
}
SELF_LOOK_AT = "`inference-watchdog status` and the log of inference-watchdog itself"


def kind_of(key: str) -> CheckKind | None:
    """The kind of check that `key` belongs to; None for what the watchdog says of itself."""
    return _BY_NAME.get(key.partition("/")[0])


def row_of(key: str, reason: str) -> Row | None:
    """What `reason` of an observation under `key` means; None for kernel lines and anything unknown."""
    kind = kind_of(key)
    own = _ROWS[OwnReason].get(reason)
    return own if kind is None else _ROWS[kind.reasons].get(reason, own)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOccurrence:
    """Something that happened to a host beside its kernel's lines: `kernel_log/<host>/<name>/…`."""

    name: str
    runbook: str
    look_at: str


REBOOTED = HostOccurrence(
    name="host.rebooted",
    runbook="The machine restarted. The text says whether it was shut down or stopped in the middle of a line.",
    look_at="The last kernel lines of the boot before, in the evidence.",
)
LOG_INCOMPLETE = HostOccurrence(
    name="log.incomplete",
    runbook="Kernel lines were lost that nobody will ever read.",
    look_at="What floods the log there.",
)
ORDERED = HostOccurrence(
    name="host.shutdown",
    runbook="Somebody, or a program, told the machine to shut down or to restart: no fault. Its outage is a warning "
    "then; after a restart that takes longer than 15 min, a page.",
    look_at="Nothing, if it was meant.",
)
HOST_OCCURRENCES = (REBOOTED, LOG_INCOMPLETE, ORDERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTopic:
    """One thing that the watchdog says of itself. With `per_subject` its keys go on: `self/blind/<key>`."""

    name: str
    runbook: str
    look_at: str
    per_subject: bool = False

    def key(self, subject: str = "") -> str:
        """`self/<name>`, or `self/<name>/<subject>`."""
        return f"{SELF}/{self.name}/{subject}" if self.per_subject else f"{SELF}/{self.name}"

    def has(self, key: str) -> bool:
        return key.startswith(self.key()) if self.per_subject else key == self.key()

    def subject_of(self, key: str) -> str:
        """What follows the topic's own name in `key`; `key` itself if it is not of this topic."""
        return key.removeprefix(self.key()) if self.per_subject else key


BLIND = OwnTopic(
    name="blind",
    per_subject=True,
    runbook="Three times in a row we could not tell how something is. It may be healthy or not.",
    look_at="Our own network and sleep first; then the reason in the text.",
)
CHECK = OwnTopic(
    name="check",
    per_subject=True,
    runbook="A check of ours ran into a bug (`bug`). Its target is not watched.",
    look_at="The log; please report it.",
)
DELIVERY = OwnTopic(
    name="delivery",
    per_subject=True,
    runbook="A receiver takes nothing (`undeliverable`). This news goes to the others.",
    look_at="`inference-watchdog test-alert RECEIVER`; token, topic, address.",
)
HEARTBEAT = OwnTopic(
    name="heartbeat",
    runbook="The outside service cannot be told that we live.",
    look_at="`heartbeat.url`, the way to the internet.",
)
LATE = OwnTopic(
    name="late",
    per_subject=True,
    runbook="A check did not complete in its time.",
    look_at="This machine's load and memory, our log.",
)
LOOP = OwnTopic(
    name="loop",
    runbook="Our own program stood still for a while.",
    look_at="Load and memory here; a paused virtual machine.",
)
ROAD = OwnTopic(
    name="road",
    runbook="Our own network is down: nothing can be said about targets behind it.",
    look_at="Cable, Wi-Fi, router here.",
)
SERVICE = OwnTopic(
    name="service",
    runbook="The daemon could not start, or ended again and again (`failed`).",
    look_at="`systemctl status inference-watchdog`.",
)
STANDBY = OwnTopic(
    name="standby",
    runbook="The first watchdog does not answer (`took_over`), so this one alerts. Ids of its incidents end in `-s`.",
    look_at="The machine of the first watchdog: on, awake, on the network?",
)
STORAGE = OwnTopic(
    name="storage",
    runbook="The state cannot be written; alerts go on from memory.",
    look_at="The disk here: full, read-only, failing.",
)
TEST = OwnTopic(name="test", runbook="You, or someone, ran `test-alert`.", look_at="Nothing.")

OWN_TOPICS = (BLIND, CHECK, DELIVERY, HEARTBEAT, LATE, LOOP, ROAD, SERVICE, STANDBY, STORAGE, TEST)


def is_own(key: str) -> bool:
    """Whether `key` is something that the watchdog says of itself."""
    return key.partition("/")[0] == SELF
