"""`silence`: keep quiet about something for a while, with a reason and an end."""

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
from watchdog.codec import to_json
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

    What is wrong at that moment and was not told yet is told after the next look at it.
    """
    from watchdog.store import Requests

    with Requests.open(kept_state_dir(state_dir)) as requests:
        for silence_id in silence_ids:
            requests.end_silence(silence_id, time.time())  # noqa: TID251 - a command is an entry point
            click.echo(f"Silence {silence_id} has ended.")
    return EXIT_OK


# What a silence names is known here: a value that can never match would silence nothing, without a word.

NAMED_BY = {label: tuple(f"{kind.name}/" for kind in BUILT if kind.label == label) for label in ("server", "host")}
"""Label → how the keys begin that its values are known from."""
CHECKS = tuple(sorted({*(kind.name for kind in BUILT), SELF}))
NEAR = 0.8
"""How much like a known value a value must be to be taken for a typo, where others may still turn up."""


@dataclass(frozen=True, slots=True)
class Known:
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

    def doubt(self, wanted: str) -> str | None:
        """What to tell about a value that nothing has had so far; None for a known one.

        Raises click.UsageError for one that can never match, or is a typo.
        """
        if self.fits(wanted):
            return None
        open_to = not self.closed or any(wanted.startswith(root) for root in self.roots)
        near = difflib.get_close_matches(wanted.removesuffix("*"), self.values, n=1, cutoff=NEAR if open_to else 0.5)
        if near:
            raise click.UsageError(f"no {self.label} called {wanted} is known; did you mean {near[0]}?")
        if not open_to:
            there = ", ".join(self.values) or "none"
            raise click.UsageError(f"no {self.label} called {wanted} is watched; there are: {there}")
        return f"nothing with {self.label}={wanted} was seen so far: see that it is no typo"


def doubts(reader: Reader, matcher: Mapping[str, str]) -> tuple[str, ...]:
    """What to tell about values in `matcher` that nothing has had so far; raises click.UsageError for typos."""
    found = (known.doubt(matcher[known.label]) for known in _known(reader, matcher) if known.label in matcher)
    return tuple(doubt for doubt in found if doubt is not None)


def _known(reader: Reader, asked: Iterable[str]) -> Iterable[Known]:
    from watchdog.model import Severity
    from watchdog.store import PLAN

    yield Known("severity", tuple(severity.value for severity in reversed(Severity)), closed=True)
    yield Known("check", CHECKS, closed=True)
    checks = tuple(reader.memory(PLAN) or {})
    if checks:
        for label, beginnings in NAMED_BY.items():
            names = {key.partition("/")[2] for key in checks if key.startswith(beginnings)}
            yield Known(label, tuple(sorted(names)), closed=True)
    if not {"kind", "device", "receiver", "key"}.isdisjoint(asked):
        yield from _seen(reader, checks)


def _seen(reader: Reader, checks: tuple[str, ...]) -> Iterable[Known]:
    """What is known from the past: slower, and only for who asks."""
    from watchdog.kernlog.grouping import HISTORY, MISSED, SUPPRESSED
    from watchdog.rulebook import packaged_rules

    incidents = reader.incidents(0.0, float("inf"))
    tracked = {*reader.keys(), *(incident.key for incident in incidents)}
    labels: dict[str, set[str]] = {"kind": set(), "device": set(), "receiver": set()}
    for incident in incidents:
        for label, values in labels.items():
            values.update({incident.labels[label]} if label in incident.labels else ())
    kinds = {rule.kind for rule in packaged_rules()} | {"log.incomplete", "host.rebooted", HISTORY, MISSED, SUPPRESSED}
    yield Known("kind", tuple(sorted(labels["kind"] | kinds)), closed=False)
    yield Known("device", tuple(sorted(labels["device"])), closed=False)
    names = labels["receiver"] | set(reader.receivers())
    names |= {DELIVERY.subject_of(key) for key in tracked if DELIVERY.has(key)}
    yield Known("receiver", tuple(sorted(names)), closed=False)
    keys = tuple(sorted(tracked.union(checks)))
    yield Known("key", keys, closed=bool(checks), roots=(*(f"{key}/" for key in checks), f"{SELF}/"))


LONGEST_S = 30 * 86400.0
"""A silence that nobody remembers must not last: after this it has to be renewed."""
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
    """Say nothing new about what matches, for a while.

    Every LABEL=VALUE must fit. Labels: server, host (also covers what runs on it), kind, device, receiver, check
    (generation, kernel_log, vitals, self), key, severity (page, warn, info). A VALUE that ends in * fits a beginning:
    quote it for your shell. A VALUE that is no known name is refused, or named as a doubt where it may still turn up.

    Probing goes on. What was told before is still told to be over, reminders stop, and when the silence ends you hear
    only about what is wrong then and was not told yet.

    Example: inference-watchdog silence --for 2h --reason "swap to Qwen" server=deepseek
    """
    from watchdog.store import Reader, Requests

    matcher = matcher_of(labels)
    lasts_s = duration_of(lasts)
    directory = kept_state_dir(state_dir)
    with Reader.open(directory) as reader:
        unsure = doubts(reader, matcher)
    for doubt in unsure:
        click.echo(f"note: {doubt}", err=True)
    with Requests.open(directory) as requests:
        silence = requests.add_silence(_made(matcher, lasts_s, reason))
    click.echo(json.dumps(to_json(silence)) if as_json else _words(silence))
    return EXIT_OK


def matcher_of(labels: Sequence[str]) -> dict[str, str]:
    """What `LABEL=VALUE` words ask for; raises click.UsageError with what was probably meant."""
    from watchdog.policy import LABELS

    matcher: dict[str, str] = {}
    for word in labels:
        label, equals, value = word.partition("=")
        if not equals or not value:
            raise click.UsageError(f"{word!r} is no LABEL=VALUE; write it like server=deepseek")
        if label not in LABELS:
            near = difflib.get_close_matches(label, LABELS, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"there is no label {label!r}{meant} Labels are: {', '.join(LABELS)}")
        if label in matcher:
            raise click.UsageError(
                f"{label} is given twice; silence them one after the other, or use a common prefix and *"
            )
        matcher[label] = value
    return matcher


def duration_of(text: str) -> float:
    """Seconds of a written duration; raises click.UsageError if it is none or out of bounds."""
    from watchdog.loading.records import SettingError
    from watchdog.loading.scalars import duration

    try:
        lasts_s = duration(text)
    except SettingError as fault:
        hint = f" ({fault.hint})" if fault.hint else ""
        raise click.UsageError(f"--for: {fault.problem}{hint}") from None
    if not SHORTEST_S <= lasts_s <= LONGEST_S:
        raise click.UsageError(f"--for: {text} is out of range; a silence lasts from 1s to 30d, and can be renewed")
    return lasts_s


def _made(matcher: Mapping[str, str], lasts_s: float, reason: str) -> Silence:
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
    """Who asks, as the system knows them; "" where it does not."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _words(silence: Silence) -> str:
    return (
        f"Silence {silence.id} on {matcher_words(silence.matcher)} until {full_timestamp(silence.ends_at)}.\n"
        f"Probing goes on, and ends are still told. End it sooner with `inference-watchdog unsilence {silence.id}`."
    )


# `ack`: say that somebody looks at an incident, so that it stops reminding.


@click.command()
@state_dir_option
@click.option("--reason", required=True, help="Who does what about it; shown in `status`.")
@click.argument("incident_ids", metavar="INCIDENT...", nargs=-1, required=True)
def ack(state_dir: str | None, reason: str, incident_ids: tuple[str, ...]) -> int:
    """Acknowledge open incidents: no more reminders about them until they end.

    INCIDENT is the id in the last line of the alert. That it is over, or that it grows worse, is still told, and the
    next incident of the same check alerts as ever.
    """
    from watchdog.store import Requests

    with Requests.open(kept_state_dir(state_dir)) as requests:
        for incident_id in incident_ids:
            requests.acknowledge(incident_id, time.time(), reason, author())  # noqa: TID251 - a command is an entry point
            click.echo(f"Incident {incident_id} is acknowledged: no reminders until it ends.")
    return EXIT_OK
