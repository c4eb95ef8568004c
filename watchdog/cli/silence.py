"""`silence`: keep quiet about something for a while, with a reason and an end."""

from __future__ import annotations

import difflib
import getpass
import json
import time
from typing import TYPE_CHECKING

import click

from watchdog.cli import EXIT_OK
from watchdog.cli.moments import moment
from watchdog.cli.places import kept_state_dir, state_dir_option
from watchdog.cli.strangers import doubts
from watchdog.overview.status import matcher_words, silence_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from watchdog.model import Silence

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
def command(state_dir: str | None, lasts: str, reason: str, as_json: bool, labels: tuple[str, ...]) -> int:
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
    click.echo(json.dumps(silence_json(silence)) if as_json else _words(silence))
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
    from watchdog.loading.scalars import ScalarError, duration

    try:
        lasts_s = duration(text)
    except ScalarError as fault:
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
        f"Silence {silence.id} on {matcher_words(silence.matcher)} until {moment(silence.ends_at)}.\n"
        f"Probing goes on, and ends are still told. End it sooner with `inference-watchdog unsilence {silence.id}`."
    )
