"""`probe`: ask one server for text, without any configuration."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

import click

from watchdog.cli.options import FiniteRange

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from watchdog.checks.generation_report import ProbeOutcome
    from watchdog.config import ServerSettings


@click.command(
    epilog=(
        "Example: inference-watchdog probe http://192.0.2.10:8000/v1 --model my-model. "
        "Exit codes: 0 ok, 1 warning (busy, loading, nonsense), 2 critical, 3 unknown, 64 wrong usage."
    )
)
@click.argument("base_url")
@click.option("--model", help="Model to ask for. Without it: the single model that /v1/models lists.")
@click.option("--api-key-env", metavar="V", help="Name of the environment variable that holds the API key.")
@click.option(
    "--timeout", "timeout_s", default=60.0, show_default=True, type=FiniteRange(min=0.1, max=86400), metavar="S",
    help="Seconds until text must have arrived, over the whole exchange.",
)  # fmt: skip
@click.option("--max-tokens", default=5, show_default=True, type=click.IntRange(min=1), help="How much to ask for.")
@click.option("--no-stream", is_flag=True, help="Ask for one plain reply: no time to first token then.")
@click.option("--metrics-url", metavar="U", help="Where the engine's metrics are, if not in a usual place.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    base_url: str,
    model: str | None,
    api_key_env: str | None,
    timeout_s: float,
    max_tokens: int,
    no_stream: bool,
    metrics_url: str | None,
    as_json: bool,
) -> int:
    """Send one real chat completion to BASE_URL and say what came back.

    BASE_URL ends where /chat/completions follows, usually in /v1. Only generated text counts as alive: an open port,
    a list of models or HTTP 200 prove nothing. If no text comes, the engine's own counters, where it has any, tell a
    busy server from a hung one.
    """
    from watchdog.config import ProbeSettings, ServerSettings

    server = ServerSettings(
        name=server_name(base_url),
        base_url=base_url.rstrip("/"),
        model=model,
        api_key=key_from(api_key_env),
        metrics_url=_checked_url(metrics_url),
        probe=ProbeSettings(timeout_s=timeout_s, max_tokens=max_tokens, stream=not no_stream),
    )
    outcome = asyncio.run(_probe(server))
    click.echo(json.dumps(_fields(server, outcome)) if as_json else _lines(server, outcome))
    return _exit_code(outcome)


async def _probe(server: ServerSettings) -> ProbeOutcome:
    from watchdog.chat import ChatClient
    from watchdog.checks.generation import GenerationCheck
    from watchdog.clock import SystemClock

    async with ChatClient() as client:
        return await GenerationCheck(server, client).probe(None, SystemClock().wall())


def server_name(base_url: str) -> str:
    """The name of a server that has none. Raises UsageError for anything but an address."""
    parts = _web_url("BASE_URL", base_url)
    if parts.query or parts.fragment:
        raise click.UsageError("BASE_URL holds a ? or #, and /chat/completions is appended to it: end it with /v1")
    return f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"


def _web_url(name: str, url: str) -> SplitResult:
    """The parts of a URL that keeps the rules of a configuration. Raises UsageError, which never quotes the URL."""
    from watchdog.loading.server_checks import web_url_parts

    if not url.isprintable():  # urlsplit would take line breaks out without a word
        raise click.UsageError(f"{name} contains a line break or another invisible character")
    parts, problem, hint = web_url_parts(url)
    if parts is None or problem:
        raise click.UsageError(f"{name} {problem}" + (f": {hint}" if hint else ""))
    if parts.username is not None or parts.password is not None:
        raise click.UsageError(f"{name} holds a user or password, and it is shown: give a key with --api-key-env")
    return parts


def _checked_url(url: str | None) -> str | None:
    if url is not None:
        _web_url("--metrics-url", url)
    return url


def key_from(variable: str | None) -> Any:
    """The API key in an environment variable, or None for no variable. Raises UsageError."""
    from watchdog.config import Secret

    if variable is None:
        return None
    value = os.environ.get(variable, "").strip()
    if not value:
        raise click.UsageError(f"--api-key-env: the environment variable {variable} is not set or empty")
    return Secret(value)


def _fields(server: ServerSettings, outcome: ProbeOutcome) -> dict[str, Any]:
    from watchdog.checks.generation_report import evidence_of

    judgement, sample = outcome.judgement, outcome.sample
    engine = None if sample is None else {
        "name": sample.engine,
        "running": sample.running,
        "waiting": sample.waiting,
        "kv_usage": sample.kv_usage,
        "movement": outcome.change.movement.value,
    }  # fmt: skip
    evidence = evidence_of(server, outcome)
    return {
        "verdict": outcome.verdict.value,
        "reason": outcome.reason.value,
        "severity": outcome.severity.value,
        "summary": outcome.summary(),
        "text": judgement.text,
        "reasoning": judgement.reasoning,
        "finish_reason": judgement.finish_reason,
        "completion_tokens": judgement.completion_tokens,
        "http_status": judgement.http_status,
        "ttft_s": judgement.ttft_s,
        "duration_s": outcome.shown_duration_s,
        "resent": outcome.resent,
        "alive": outcome.alive,
        "evidence": [{"at": item.at, "source": item.source, "text": item.text} for item in evidence],
        "engine": engine,
    }


def _lines(server: ServerSettings, outcome: ProbeOutcome) -> str:
    from watchdog.checks.generation_report import evidence_of
    from watchdog.model import Verdict
    from watchdog.text import one_line

    colour = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.UNKNOWN: "yellow"}[outcome.verdict]
    verdict = click.style(outcome.verdict.value.upper(), fg=colour, bold=True)
    lines = [f"{verdict} {server.name} · {outcome.reason.value} · {outcome.summary()}"]
    said = outcome.judgement.text or outcome.judgement.reasoning
    if said:
        lines.append(f"  said: {one_line(said, 120)}")
    lines += [f"  {item.source}: {item.text}" for item in evidence_of(server, outcome)]
    if outcome.verdict is not Verdict.PASS and outcome.reason.row.advice:
        lines.append(f"  next: {outcome.reason.row.advice}")
    return "\n".join(lines)


def _exit_code(outcome: ProbeOutcome) -> int:
    from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_UNKNOWN, EXIT_WARNING
    from watchdog.model import Severity, Verdict

    if outcome.verdict is Verdict.UNKNOWN:
        return EXIT_UNKNOWN
    by_severity = {Severity.INFO: EXIT_OK, Severity.WARN: EXIT_WARNING, Severity.PAGE: EXIT_CRITICAL}
    return by_severity[outcome.severity]
