"""`silence`, `unsilence` and `ack`: fewer messages about what is known, with a reason and an end."""

from __future__ import annotations

import difflib
import getpass
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from watchdog.cli import EXIT_OK
from watchdog.cli.options import kept_state_dir, state_dir_option
from watchdog.json_values import to_json
from watchdog.kinds import BUILT, DELIVERY, SELF
from watchdog.overview.status import matcher_words
from watchdog.text import full_timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from watchdog.model import Silence
    from watchdog.store import Reader

# `unsilence`: end a silence now.


@click.command()
@state_dir_option
@click.argument("silence_ids", metavar="ID...", nargs=-1, required=True)
def unsilence(state_dir: str | None, silence_ids: tuple[str, ...]) -> int:
    """End silences now. `inference-watchdog status` lists them with their ids.

    Anything that is failing then and was not reported yet is reported after its next check.
    """
    from watchdog.store import Requests

    with Requests.open(kept_state_dir(state_dir)) as requests:
        for silence_id in silence_ids:
            requests.end_silence(silence_id, time.time())  # noqa: TID251 - a command is an entry point
            click.echo(f"Silence {silence_id} has ended.")
    return EXIT_OK


# The values a silence can match: one that can never match would silence nothing, unnoticed.

NAMED_BY = {label: tuple(f"{kind.name}/" for kind in BUILT if kind.label == label) for label in ("server", "host")}
"""Label → how the keys begin that its values are known from."""
CHECKS = tuple(sorted({*(kind.name for kind in BUILT), SELF}))
NEAR = 0.8
"""How similar to a known value a value must be to be taken for a typo, where others may still turn up."""


@dataclass(frozen=True, slots=True)
class KnownValues:
    """The values of one label. `closed`: there are no others; else others may still turn up.

    `roots` are beginnings under which any value may turn up.
    """

    label: str
    values: tuple[str, ...]
    closed: bool
    roots: tuple[str, ...] = ()

    def fits(self, wanted: str) -> bool:
        """Whether `wanted` (a value, or a beginning and `*`) is one of the values."""
        from watchdog.model import matches_value

        return any(matches_value(wanted, value) for value in self.values)

    def warning_about(self, wanted: str) -> str | None:
        """A warning about a value that nothing has had so far; None for a known one.

        Raises click.UsageError for one that can never match, or is a typo.
        """
        if self.fits(wanted):
            return None
        open_to = not self.closed or any(wanted.startswith(root) for root in self.roots)
        near = difflib.get_close_matches(wanted.removesuffix("*"), self.values, n=1, cutoff=NEAR if open_to else 0.5)
        if near:
            raise click.UsageError(f"no {self.label} called {wanted} is known; did you mean {near[0]}?")
        if not open_to:
            known = ", ".join(self.values) or "none"
            raise click.UsageError(f"no {self.label} called {wanted} is watched; known: {known}")
        return f"nothing with {self.label}={wanted} has been seen so far: check for a typo"


def warnings_about(reader: Reader, matcher: Mapping[str, str]) -> tuple[str, ...]:
    """Warnings about values in `matcher` that nothing has had so far; raises click.UsageError for typos."""
    found = (known.warning_about(matcher[known.label]) for known in _known(reader, matcher) if known.label in matcher)
    return tuple(warning for warning in found if warning is not None)


def _known(reader: Reader, asked: Iterable[str]) -> Iterable[KnownValues]:
    from watchdog.model import Severity
    from watchdog.store import PLAN

    yield KnownValues("severity", tuple(severity.value for severity in reversed(Severity)), closed=True)
    yield KnownValues("check", CHECKS, closed=True)
    checks = tuple(reader.memory(PLAN) or {})
    if checks:
        for label, beginnings in NAMED_BY.items():
            names = {key.partition("/")[2] for key in checks if key.startswith(beginnings)}
            yield KnownValues(label, tuple(sorted(names)), closed=True)
    if not {"kind", "device", "receiver", "key"}.isdisjoint(asked):
        yield from _from_history(reader, checks)


def _from_history(reader: Reader, checks: tuple[str, ...]) -> Iterable[KnownValues]:
    """What is known from the past: slower, so only when it is needed."""
    from watchdog.kernlog.grouping import HISTORY, MISSED, SUPPRESSED
    from watchdog.rulebook import packaged_rules

    incidents = reader.incidents(0.0, float("inf"))
    tracked = {*reader.keys(), *(incident.key for incident in incidents)}
    labels: dict[str, set[str]] = {"kind": set(), "device": set(), "receiver": set()}
    for incident in incidents:
        for label, values in labels.items():
            values.update({incident.labels[label]} if label in incident.labels else ())
    kinds = {rule.kind for rule in packaged_rules()} | {"log.incomplete", "host.rebooted", HISTORY, MISSED, SUPPRESSED}
    yield KnownValues("kind", tuple(sorted(labels["kind"] | kinds)), closed=False)
    yield KnownValues("device", tuple(sorted(labels["device"])), closed=False)
    names = labels["receiver"] | set(reader.receivers())
    names |= {DELIVERY.subject_of(key) for key in tracked if DELIVERY.has(key)}
    yield KnownValues("receiver", tuple(sorted(names)), closed=False)
    keys = tuple(sorted(tracked.union(checks)))
    yield KnownValues("key", keys, closed=bool(checks), roots=(*(f"{key}/" for key in checks), f"{SELF}/"))


LONGEST_S = 30 * 86400.0
"""A forgotten silence must not last: after this it has to be renewed."""
SHORTEST_S = 1.0


@click.command()
@state_dir_option
@click.option(
    "--for", "lasts", metavar="DURATION", required=True, help="How long, for example 30m, 2h, 3d (at most 30d)."
)
@click.option("--reason", required=True, help="Why; shown in `status`.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object: id, matcher, starts_at, ends_at, reason, author."
)
@click.argument("labels", metavar="LABEL=VALUE...", nargs=-1, required=True)
def silence(state_dir: str | None, lasts: str, reason: str, as_json: bool, labels: tuple[str, ...]) -> int:
    """Send no new alerts about what matches, for a while.

    Every LABEL=VALUE must match. Labels: server, host (also covers what runs on it), kind, device, receiver, check
    (generation, kernel_log, vitals, self), key, severity (page, warn, info). A VALUE that ends in * matches a
    prefix: quote it for your shell. A VALUE that is not a known name is refused, or warned about where it may still
    turn up.

    Probing continues. What was reported before is still resolved, reminders stop, and when the silence ends you hear
    only about what is failing then and was not reported yet.

    Example: inference-watchdog silence --for 2h --reason "swap to Qwen" server=deepseek
    """
    from watchdog.store import Reader, Requests

    matcher = matcher_of(labels)
    lasts_s = duration_of(lasts)
    directory = kept_state_dir(state_dir)
    with Reader.open(directory) as reader:
        unsure = warnings_about(reader, matcher)
    for warning in unsure:
        click.echo(f"note: {warning}", err=True)
    with Requests.open(directory) as requests:
        silence = requests.add_silence(_new_silence(matcher, lasts_s, reason))
    click.echo(json.dumps(to_json(silence)) if as_json else _words(silence))
    return EXIT_OK


def matcher_of(labels: Sequence[str]) -> dict[str, str]:
    """The matcher of `LABEL=VALUE` words; raises click.UsageError with what was probably meant."""
    from watchdog.policy import LABELS

    matcher: dict[str, str] = {}
    for word in labels:
        label, equals, value = word.partition("=")
        if not equals or not value:
            raise click.UsageError(f"{word!r} is not LABEL=VALUE; write it like server=deepseek")
        if label not in LABELS:
            near = difflib.get_close_matches(label, LABELS, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"there is no label {label!r}{meant} Labels are: {', '.join(LABELS)}")
        if label in matcher:
            raise click.UsageError(f"{label} is given twice; add one silence for each, or use a common prefix and *")
        matcher[label] = value
    return matcher


def duration_of(text: str) -> float:
    """Seconds of a written duration; raises click.UsageError if it is not one or out of bounds."""
    from watchdog.loading.problems import SettingError
    from watchdog.loading.scalars import duration

    try:
        lasts_s = duration(text)
    except SettingError as fault:
        hint = f" ({fault.hint})" if fault.hint else ""
        raise click.UsageError(f"--for: {fault.problem}{hint}") from None
    if not SHORTEST_S <= lasts_s <= LONGEST_S:
        raise click.UsageError(f"--for: {text} is out of range; a silence lasts from 1s to 30d and can be renewed")
    return lasts_s


def _new_silence(matcher: Mapping[str, str], lasts_s: float, reason: str) -> Silence:
    from watchdog.model import Silence
    from watchdog.policy import incident_id

    now = time.time()  # noqa: TID251 - a command is an entry point
    return Silence(
        id=f"s{incident_id(now, '', round(now * 1000) % 1024)}",
        matcher=matcher,
        starts_at=now,
        ends_at=now + lasts_s,
        reason=reason,
        author=author(),
    )


def author() -> str:
    """The user's name; "" if the system knows none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _words(silence: Silence) -> str:
    return (
        f"Silence {silence.id} on {matcher_words(silence.matcher)} until {full_timestamp(silence.ends_at)}.\n"
        f"Probing continues; resolves are still sent. End it early with `inference-watchdog unsilence {silence.id}`."
    )


# `ack`: somebody is looking at an incident, so it sends no more reminders.


@click.command()
@state_dir_option
@click.option("--reason", default="seen", show_default=True, help="Who does what about it; shown in `status`.")
@click.argument("incident_ids", metavar="[INCIDENT]...", nargs=-1)
def ack(state_dir: str | None, reason: str, incident_ids: tuple[str, ...]) -> int:
    """Acknowledge open incidents: no more reminders and repetitions until they end. Without INCIDENT: list them.

    INCIDENT is the id in the last line of the alert. You are still notified when it resolves or gets worse, and the
    next incident of the same check alerts as usual.
    """
    from watchdog.store import Requests

    if not incident_ids:
        _list_open(state_dir)
        return EXIT_OK
    with Requests.open(kept_state_dir(state_dir)) as requests:
        for incident_id in incident_ids:
            requests.acknowledge(incident_id, time.time(), reason, author())  # noqa: TID251 - a command is an entry point
            click.echo(f"Incident {incident_id} is acknowledged: no reminders until it ends.")
    return EXIT_OK


def _list_open(state_dir: str | None) -> None:
    """One line per open incident: its id, whether somebody has acknowledged it, and what it is about."""
    from watchdog.store import Reader

    with Reader.open(kept_state_dir(state_dir)) as reader:
        incidents, acknowledged = reader.open_incidents(), reader.acknowledged()
    for incident in incidents:
        found = acknowledged.get(incident.id)
        said = f"acknowledged by {found.author or 'somebody'}: {found.reason}" if found else "not acknowledged"
        click.echo(f"{incident.id}  {incident.severity.value:4}  {incident.statement}  ({said})")
    click.echo("Acknowledge with `inference-watchdog ack INCIDENT`." if incidents else "No incident is open.")
