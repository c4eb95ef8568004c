"""Frozen settings with their defaults: the one place where a threshold lives. `loading` fills them from YAML."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo

from watchdog.model import Json, Severity, Weekday


class Secret:
    """A text that is never shown by `repr`, `str` or `format`, nor in a traceback's locals."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself. Call this only where it is sent to its destination."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class Size(int):
    """A number of bytes; written with its unit, like `4GiB`."""


# What an annotation says beside the type: `loading.schema` reads it, and so does the reference of all keys.


@dataclass(frozen=True, slots=True)
class Limits:
    """The range of a number, in the unit of its field; both ends are allowed."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """A list that may be left out but not be empty, as that would not mean what it says. `hint`: what to do instead."""

    hint: str


class Text(StrEnum):
    """What a text may be besides one plain line. The values are the words of the reference."""

    PATH = "a file path, made absolute; a relative one starts at the folder of the configuration"
    LINES = "more than one line"


class SetByLoading:
    """Marks a field that is not a key of the file."""


DAY_S = 86400.0
FilePath = Annotated[str, Text.PATH]
Count = Annotated[int, Limits(1, 100)]
Interval = Annotated[float, Limits(1.0, 7 * DAY_S)]
Timeout = Annotated[float, Limits(0.1, 3600.0)]
Pause = Annotated[float, Limits(1.0, 30 * DAY_S)]
Patience = Annotated[float, Limits(0.0, DAY_S)]
SOONER_FROM_S = 60.0
Receivers = Annotated[tuple[str, ...], NotEmpty("leave the key out to tell every receiver")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """How one server is probed (design §1, §5.1)."""

    interval_s: Interval = 120.0
    timeout_s: Timeout = 60.0
    max_tokens: Annotated[int, Limits(1, 4096)] = 5
    failures: Count = 3
    successes: Count = 2
    stream: bool = True
    metrics_timeout_s: Annotated[float, Limits(0.1, 60.0)] = 5.0
    confirm_s: Patience = 15.0
    watch_s: Patience = 10.0
    down_for_s: Patience = 100.0
    loading_for_s: Patience = 900.0

    @property
    def is_sooner(self) -> bool:
        """Whether a failure is confirmed before the next regular probe. Rhythms below a minute are quick enough."""
        return self.confirm_s > 0 and self.interval_s >= SOONER_FROM_S

    @property
    def is_watched(self) -> bool:
        """Whether the server is looked at between probes."""
        return self.watch_s > 0 and self.interval_s >= SOONER_FROM_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """One OpenAI-compatible server. `base_url` ends where `/chat/completions` is appended (usually in `/v1`).

    `receivers` names who is alerted; empty means every receiver.
    """

    name: str
    base_url: str
    model: str | None = None
    api_key: Secret | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict)
    extra_body: Mapping[str, Json] = field(default_factory=dict)
    metrics_url: str | None = None
    on_demand: bool = False
    verify_tls: bool = True
    ca_file: FilePath | None = None
    proxy_from_environment: bool = False
    hosts: tuple[str, ...] = ()
    receivers: Receivers = ()
    probe: ProbeSettings = ProbeSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLogSettings:
    """How one host's kernel log is read (design §5.2)."""

    interval_s: Interval = 600.0
    timeout_s: Timeout = 60.0
    failures: Count = 3
    successes: Count = 2
    follow: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalsSettings:
    """How one host's memory and GPUs are read (design §5.3). `failures` and `successes` count for low memory."""

    interval_s: Interval = 600.0
    timeout_s: Timeout = 30.0
    failures: Count = 3
    successes: Count = 2
    memory_available_min: Annotated[Size | None, Limits(2**20, 2**44)] = None
    stream: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """One machine whose kernel log is read over SSH. Host keys are always checked."""

    name: str
    address: str
    user: str
    port: Annotated[int, Limits(1, 65535)] = 22
    identity_file: FilePath | None = None
    identity: Annotated[Secret | None, Text.LINES] = None
    passphrase: Secret | None = None
    agent: bool = False
    known_hosts: FilePath
    ssh_config: bool = False
    jump: str | None = None
    forced_command: bool = False
    receivers: Receivers = ()
    kernel_log: KernelLogSettings = KernelLogSettings()
    vitals: VitalsSettings = VitalsSettings()


def split_jump(text: str) -> tuple[str, str, int]:
    """User ("" for none), address and port of a jump host written as `[user@]address[:port]`."""
    user, _, rest = text.rpartition("@")
    address, _, port = rest.rpartition(":")
    if not port.isdigit() or not address or (":" in address and not address.startswith("[")):
        address, port = rest, "22"
    return user, address.strip("[]"), int(port)


ACKNOWLEDGE_ON = ("pover", "tgram", "ntfy", "ntfys")
"""apprise's schemes of the services on which a page can be acknowledged from the phone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalateSettings:
    """How a page is repeated until somebody acknowledges it, and who is told as well from the first repetition on."""

    after_s: Pause = 300.0
    every_s: Pause = 300.0
    to: Annotated[tuple[str, ...], NotEmpty("leave the key out to repeat to this receiver alone")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    """Where alerts go: any apprise URL, or Alertmanager addresses. Exactly one of `url` and `alertmanager`."""

    name: str
    url: Secret | None = None
    alertmanager: Annotated[tuple[Secret, ...], NotEmpty("give one address or more")] = ()
    min_severity: Severity = Severity.WARN
    timeout_s: Annotated[float, Limits(0.1, 600.0)] = 20.0
    fallback: str | None = None
    fallback_after: Annotated[int, Limits(1, 1000)] = 3
    acknowledge: bool = False
    escalate: EscalateSettings | None = None

    @property
    def address_hash(self) -> str:
        """By what its address is known where the address itself must not stand."""
        parts = [secret.reveal() for secret in (self.url, *self.alertmanager) if secret is not None]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesSettings:
    """The user's own kernel rule files, and changes to the packaged rules by rule id."""

    files: tuple[FilePath, ...] = ()
    disable: tuple[str, ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertingSettings:
    """When an open incident sends reminders, and what counts as flapping (design §6)."""

    reminder_first_s: Pause = 3600.0
    reminder_every_s: Pause = 14400.0
    occurrence_quiet_s: Pause = 3600.0
    flap_window: Annotated[int, Limits(2, 100)] = 10
    flap_failures: Annotated[int, Limits(2, 100)] = 5
    expire_delivery_s: Annotated[float, Limits(60.0, 365 * DAY_S)] = 7 * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceSettings:
    """When no new alerts are sent about what matches: weekly (`days` to `time_zone`), or once (`begins`, `ends`)."""

    name: str
    match: Mapping[str, str]
    days: Annotated[tuple[Weekday, ...], NotEmpty("name one day or more, like [sat, sun]")] = ()
    start: time | None = None
    duration_s: Interval = 3600.0
    time_zone: ZoneInfo | None = None
    begins: datetime | None = None
    ends: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatSettings:
    """Servers that take turns in one place: exactly one of them should live (docs/seats.md).

    While one of them starts, a swap may take `swap_for` from the first miss on before the empty seat alerts.
    """

    name: str
    servers: Annotated[tuple[str, ...], NotEmpty("name the servers that take turns, like [deepseek, hikari]")]
    swap_for_s: Annotated[float, Limits(1.0, DAY_S)] = 1800.0


class HttpMethod(StrEnum):
    GET = "GET"
    POST = "POST"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSettings:
    """Pings to an outside service that alerts when they stop (design §2, invariant 11)."""

    url: Secret
    interval_s: Annotated[float, Limits(1.0, DAY_S)] = 300.0
    method: HttpMethod = HttpMethod.GET
    timeout_s: Annotated[float, Limits(0.1, 60.0)] = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """The status page, /metrics and /healthz, and who may read them (docs/api.md).

    `names` are host names under which it is requested; IP addresses and localhost always work. With `probe_on_scrape`
    servers are not probed on a schedule but whenever /probe is requested (docs/fleets.md).
    """

    listen: str = "127.0.0.1:9877"
    token: Secret | None = None
    names: tuple[str, ...] = ()
    probe_on_scrape: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything the daemon needs to know. Holds no runtime state.

    `file` and `secret_parts` are set by `loading`: where it was read from, and what was filled into longer secrets
    (the password inside a receiver's URL), so that a log line that holds only that part is cleaned too.
    """

    servers: tuple[ServerSettings, ...] = ()
    seats: tuple[SeatSettings, ...] = ()
    hosts: tuple[HostSettings, ...] = ()
    receivers: tuple[ReceiverSettings, ...] = ()
    rules: RulesSettings = RulesSettings()
    alerting: AlertingSettings = AlertingSettings()
    maintenance: tuple[MaintenanceSettings, ...] = ()
    heartbeat: HeartbeatSettings | None = None
    web: WebSettings | None = None
    standby_of: str | None = None
    state_dir: FilePath | None = None
    file: Annotated[str, SetByLoading] = ""
    secret_parts: Annotated[tuple[Secret, ...], SetByLoading] = ()

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every secret of this configuration, for redaction."""
        found: list[Secret | None] = []
        for server in self.servers:
            found += [server.api_key, *server.headers.values()]
        for host in self.hosts:
            found += [host.identity, host.passphrase]
        for receiver in self.receivers:
            found += [receiver.url, *receiver.alertmanager]
        found.append(self.heartbeat.url if self.heartbeat else None)
        found.append(self.web.token if self.web else None)
        return (*(secret for secret in found if secret is not None), *self.secret_parts)
