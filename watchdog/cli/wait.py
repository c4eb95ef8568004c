"""`wait`: for scripts that start, stop or swap a server: until it gives real text, or until nothing runs there."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_UNKNOWN
from watchdog.cli.probe import key_from, server_name

if TYPE_CHECKING:
    from watchdog.checks.engine_probe import Scrape
    from watchdog.config import ServerSettings

PROBE_TIMEOUT_S = 60.0
PAUSE_S = 2.0
LOOK_TIMEOUT_S = 5.0
IDLE_LIMIT = "1h"


@dataclass(frozen=True, slots=True)
class Waited:
    """How it ended: `good` is None where nobody can tell."""

    good: bool | None
    reason: str
    summary: str
    waited_s: float


@click.command(
    epilog="Example: inference-watchdog wait http://192.0.2.10:8000/v1 --idle 60s && swap-model && "
    "inference-watchdog wait http://192.0.2.10:8000/v1 --up 30m. "
    "Exit codes: 0 it is so, 2 not in time, 3 nobody can tell, 64 wrong usage."
)
@click.argument("base_url")
@click.option("--up", metavar="LIMIT", help="Until a real sentence comes, for at most this long, like 30m.")
@click.option("--idle", metavar="FOR", help="Until no request has run or waited there for this long, like 60s.")
@click.option("--limit", metavar="LIMIT", default=IDLE_LIMIT, show_default=True, help="For --idle: at most this long.")
@click.option("--model", help="Model to ask for. Without it: the single model that /v1/models lists.")
@click.option("--api-key-env", metavar="V", help="Name of the environment variable that holds the API key.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end; progress goes to stderr.")
def command(
    base_url: str,
    up: str | None,
    idle: str | None,
    limit: str,
    model: str | None,
    api_key_env: str | None,
    as_json: bool,
) -> int:
    """Wait until the server at BASE_URL is up, or until it is idle. Nothing is ever changed there.

    --up sends real chat completions: an open port or a list of models is not enough. --idle reads the engine's metrics
    and sends nothing; an engine that has none cannot be told idle from busy.
    """
    from watchdog.config import ServerSettings

    if (up is None) == (idle is None):
        raise click.UsageError("say what to wait for: --up 30m or --idle 60s")
    server = ServerSettings(
        name=server_name(base_url), base_url=base_url.rstrip("/"), model=model, api_key=key_from(api_key_env)
    )
    progress = _Progress(as_json)
    if up is not None:
        ended = asyncio.run(_until_up(server, _seconds("--up", up), progress))
    else:
        ended = asyncio.run(_until_idle(server, _seconds("--idle", idle or ""), _seconds("--limit", limit), progress))
    fields = {"good": ended.good, "reason": ended.reason, "summary": ended.summary}
    if as_json:
        click.echo(json.dumps(fields | {"waited_s": round(ended.waited_s, 1)}))
    else:
        click.echo(f"{progress.clock(ended.waited_s)} {ended.summary}")
    return EXIT_UNKNOWN if ended.good is None else EXIT_OK if ended.good else EXIT_CRITICAL


class _Progress:
    """One line for each change of what is seen."""

    def __init__(self, to_stderr: bool) -> None:
        self._to_stderr = to_stderr
        self._last = ""

    def clock(self, waited_s: float) -> str:
        return f"{int(waited_s) // 60}:{int(waited_s) % 60:02}"

    def say(self, waited_s: float, what: str) -> None:
        if what != self._last:
            self._last = what
            click.echo(f"{self.clock(waited_s)} {what}", err=self._to_stderr)


async def _until_up(server: ServerSettings, limit_s: float, progress: _Progress) -> Waited:
    from dataclasses import replace

    from watchdog.chat import ChatClient
    from watchdog.checks.generation import GenerationCheck
    from watchdog.clock import SystemClock
    from watchdog.model import Verdict

    clock = SystemClock()
    began = clock.monotonic()
    memory: Any = None
    async with ChatClient() as client:
        while True:
            left_s = limit_s - (clock.monotonic() - began)
            probe = replace(server.probe, timeout_s=max(0.1, min(PROBE_TIMEOUT_S, left_s)))
            outcome = await GenerationCheck(replace(server, probe=probe), client).probe(memory, clock.wall())
            memory, waited_s = outcome.memory, clock.monotonic() - began
            if outcome.verdict is Verdict.PASS:
                return Waited(True, outcome.reason.value, f"up: {outcome.summary()}", waited_s)
            if waited_s + PAUSE_S >= limit_s:
                return Waited(False, outcome.reason.value, f"not up in time: {outcome.summary()}", waited_s)
            progress.say(waited_s, f"{outcome.reason.value}: {outcome.summary()}")
            await clock.sleep(PAUSE_S)


async def _until_idle(server: ServerSettings, quiet_s: float, limit_s: float, progress: _Progress) -> Waited:
    from watchdog.chat import ChatClient
    from watchdog.chat.endpoint import endpoint_of
    from watchdog.checks.engine_probe import MetricsReader
    from watchdog.clock import SystemClock

    clock = SystemClock()
    began = clock.monotonic()
    idle_since: float | None = None
    path: str | None = None
    async with ChatClient() as client:
        reader = MetricsReader(client, endpoint_of(server), server.metrics_url)
        while True:
            scrape = await reader.scrape(path, LOOK_TIMEOUT_S)
            now = clock.monotonic()
            at_work, path = _at_work(scrape), scrape.path or path
            if at_work is None:
                why = scrape.trouble or "its metrics do not count requests"
                return Waited(None, "unknown", f"cannot tell whether it is idle: {why}", now - began)
            idle_since = None if at_work else now if idle_since is None else idle_since
            if idle_since is not None and now - idle_since >= quiet_s:
                return Waited(True, "idle", f"idle: nothing has run or waited for {quiet_s:g} s", now - began)
            if now - began >= limit_s:
                return Waited(False, "busy", f"not idle in time: {at_work:g} running or waiting", now - began)
            progress.say(now - began, f"{at_work:g} running or waiting" if at_work else "nothing runs or waits")
            await clock.sleep(min(PAUSE_S, max(0.2, quiet_s / 4)))


def _at_work(scrape: Scrape) -> float | None:
    """How many requests run or wait; None if the metrics do not say."""
    sample = scrape.sample
    if sample is None or sample.running is None:
        return None
    return sample.running + (sample.waiting or 0.0)


def _seconds(option: str, text: str) -> float:
    from watchdog.loading.problems import SettingError
    from watchdog.loading.scalars import duration

    try:
        return duration(text)
    except SettingError as error:
        raise click.UsageError(f"{option}: {error.problem}" + (f" ({error.hint})" if error.hint else "")) from None
