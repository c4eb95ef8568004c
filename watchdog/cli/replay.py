"""`replay`: recorded observations through the real tracker, policy and messages: who would have been alerted when?"""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

import click

from watchdog.cli import EXIT_OK
from watchdog.cli.options import config_option
from watchdog.text import quantity

if TYPE_CHECKING:
    from watchdog.ingest.replay import Played, Recording, Replay
    from watchdog.model import Observation
    from watchdog.policy import AlertPlan


@click.command()
@config_option
@click.option("--failures", type=click.IntRange(1, 100), help="Alert after this many failures instead.")
@click.option("--successes", type=click.IntRange(1, 100), help="Resolve after this many passes instead.")
@click.option("--then", "then_", default="0s", metavar="DURATION", help="Let this much time pass after the last line.")
@click.option("--explain", is_flag=True, help="Show when a failing server would be probed again, and why.")
@click.option("--full", is_flag=True, help="Show whole messages, not just their titles.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object per message: at, receiver, kind, incident, title, body."
)
@click.argument("file", type=click.File("r", encoding="utf-8", errors="replace"), metavar="FILE")
def command(
    config_file: str | None,
    failures: int | None,
    successes: int | None,
    then_: str,
    explain: bool,
    full: bool,
    as_json: bool,
    file: IO[str],
) -> int:
    """Play recorded or hand-written observations, and see when you would have been paged.

    FILE (- for standard input) has one JSON object per line, as `history --observations --json` and `check --json`
    write them, each with its time: `at` is Unix seconds, 2026-11-29T03:14:08+01:00, or just 03:14:08. `at`, `check` and
    `verdict` are required; `reason`, `severity`, `summary`, `evidence` and `labels` are used if present.

    With --config, thresholds, receivers and maintenance are those of the file; otherwise the defaults apply, with one
    receiver called "you". Nothing is sent and nothing is stored.

    \b
    Example:
      inference-watchdog history --days 2 --observations --limit 9999 --json deepseek > night.jsonl
      inference-watchdog replay --failures 2 night.jsonl
    """
    from watchdog.ingest.replay import Replay, read_recording
    from watchdog.loading.problems import SettingError
    from watchdog.loading.scalars import duration

    try:
        then_s = duration(then_)
    except SettingError as fault:
        raise click.UsageError(f"--then: {fault.problem}") from None
    recording = read_recording(file)
    replay = Replay(_plan(recording, config_file, failures, successes), has_dates=recording.has_dates)
    for observation in recording.observations:
        _print_messages(replay.play(observation), full=full, as_json=as_json)
        if explain and not as_json and (words := _patience(replay, observation)):
            click.echo(words)
    _print_messages(replay.pass_time(then_s), full=full, as_json=as_json)
    if not as_json:
        click.echo(_closing_words(replay, len(recording.observations)))
    return EXIT_OK


def _plan(recording: Recording, config_file: str | None, failures: int | None, successes: int | None) -> AlertPlan:
    from watchdog.ingest.replay import default_plan, with_thresholds
    from watchdog.policy import AlertPlan

    if config_file is None:
        return with_thresholds(default_plan(recording), failures, successes)
    from watchdog.loading import load

    return with_thresholds(AlertPlan.from_config(load(config_file).config), failures, successes)


def _patience(replay: Replay, seen: Observation) -> str:
    """`03:14:08  deepseek: refused; next probe after 15 s: confirming`; "" for what waits for no other probe."""
    from watchdog.loading.scalars import written_duration
    from watchdog.policy import PATIENCE

    coming = replay.next_probe(seen)
    if coming is None:
        return ""
    wait = "at its regular time" if coming.wait_s is None else f"after {written_duration(max(0.0, coming.wait_s))}"
    limit = "" if coming.timeout_s is None else f", at most {written_duration(coming.timeout_s)}"
    server = seen.key.partition("/")[2]
    return f"{replay.when(seen.at)}  {server}: {seen.reason}; next probe {wait}{limit}: {PATIENCE[coming.why].words}"


def _print_messages(messages: tuple[Played, ...], *, full: bool, as_json: bool) -> None:
    for one in messages:
        if as_json:
            click.echo(json.dumps(_message_json(one)))
            continue
        click.echo(f"{one.when}  {one.receiver}: {one.title}")
        if full:
            click.echo("\n".join(f"            {line}" for line in one.body.splitlines()))


def _message_json(one: Played) -> dict[str, Any]:
    return {
        "at": one.at,
        "receiver": one.receiver,
        "kind": one.kind.value,
        "severity": one.severity.value,
        "incident": one.incident_id,
        "check": one.key,
        "title": one.title,
        "body": one.body,
    }


def _closing_words(replay: Replay, count: int) -> str:

    lines = [f"{quantity(count, 'observation')}, {quantity(replay.message_count, 'message')}."]
    lines += [f"Still open at the end: {one.key}, since {replay.when(one.since)}." for one in replay.still_open]
    if not replay.message_count:
        lines.append("You would not have been alerted.")
    for key, fails, needed in replay.pending:
        lines.append(f"Pending at the end: {key}, {fails} of {needed} failures.")
    return "\n".join(lines)
