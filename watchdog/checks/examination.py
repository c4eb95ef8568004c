"""One look at a server for `init` and `doctor`: what it serves, which engine it is, whether it gives text."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

from watchdog.chat import ChatClient
from watchdog.chat.endpoint import endpoint_of
from watchdog.checks import reader_client as requests
from watchdog.checks.engine_probe import MetricsReader, models_listed, models_loaded
from watchdog.checks.generation import GenerationCheck
from watchdog.checks.generation_report import ProbeOutcome
from watchdog.clock import Clock
from watchdog.config import HostSettings, ServerSettings
from watchdog.engines.table import same_model, served_models
from watchdog.journal.frame import Hello
from watchdog.journal.records import RecordKind
from watchdog.model import Verdict
from watchdog.reasons import HostReason, ServerReason
from watchdog.ssh import HostError, ReaderError, Session, reading

LOOK_S = 5.0
MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server says of itself. None: it gives no list.

    `loaded` is the list of those that load models on demand; `engine` the name its metrics betray.
    """

    status: int | None
    trouble: str
    models: tuple[str, ...] | None
    loaded: tuple[str, ...] | None
    engine: str | None

    @property
    def on_demand(self) -> bool:
        """Whether it loads models when they are asked for. An engine with metrics of its own holds its model."""
        return self.loaded is not None and self.engine is None

    def lacks(self, model: str | None) -> bool:
        """Whether it lists models, and not this one."""
        return (
            model is not None and bool(self.models) and not any(same_model(model, name) for name in self.models or ())
        )


async def offer_of(server: ServerSettings, chat: ChatClient) -> Offer:
    """Ask `server` for its models, what is loaded, and its metrics. Generates nothing.

    Raises WatchdogError for an address that cannot be used.
    """
    endpoint = endpoint_of(server)
    first = await chat.fetch(endpoint, endpoint.models, LOOK_S)
    if first.status is None:
        return Offer(None, first.trouble, None, None, None)
    listed = await models_listed(chat, endpoint, LOOK_S)
    loaded = await models_loaded(chat, endpoint, LOOK_S)
    scrape = await MetricsReader(chat, endpoint, server.metrics_url).scrape(None, LOOK_S, listed)
    return Offer(
        first.status, "", served_models(listed), loaded, scrape.sample.engine if scrape.sample is not None else None
    )


async def probe(server: ServerSettings, chat: ChatClient, now: float) -> ProbeOutcome:
    """One real probe, as the daemon does it. `now` is Unix seconds."""
    return await GenerationCheck(server, chat).probe(None, now)


def thought_only(outcome: ProbeOutcome) -> bool:
    """Whether the answer was thinking alone: a pass, since tokens were generated (docs/decisions)."""
    judgement = outcome.judgement
    return outcome.verdict is Verdict.PASS and bool(judgement.reasoning.strip()) and not judgement.text.strip()


def nearest_model(asked: str, models: tuple[str, ...]) -> str | None:
    """The served model that `asked` may be a typo of, or the only one."""
    if len(models) == 1:
        return models[0]
    folded = {name.lower(): name for name in models}
    near = difflib.get_close_matches(asked.lower(), folded, n=1, cutoff=0.5)
    return folded[near[0]] if near else None


def fix_for(server: ServerSettings, outcome: ProbeOutcome, models: tuple[str, ...] | None) -> str:
    """What to do about a probe that did not pass: with the very setting where it is one."""
    if outcome.reason is ServerReason.AUTH:
        if server.api_key is None:
            return f"Set `api_key` of server {server.name}: the server asks for a key and gets none."
        return (
            f"Put a key this server accepts where `api_key` of server {server.name} is taken from; "
            "it refuses the one it gets."
        )
    if models and outcome.reason in (ServerReason.UNKNOWN_MODEL, ServerReason.ASLEEP):
        near = nearest_model(server.model or "", models)
        if near is not None:
            return f"Set `model: {near}` for server {server.name}" + (
                "; it is the only one it serves." if len(models) == 1 else f"; it serves {listed(models)}."
            )
        return f"Set `model` of server {server.name} to one it serves: {listed(models)}."
    return outcome.reason.row.advice


def listed(models: tuple[str, ...]) -> str:
    """The names, the first `MOST_NAMED` of them."""
    return ", ".join(models[:MOST_NAMED]) + (" …" if len(models) > MOST_NAMED else "")


# One short look at a host for `init` and `doctor`: can we log in, may we read the kernel's lines, what is its time.

SAMPLE_LINES = 20
"""So many lines prove that lines can be read."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What one login showed.

    `offset_s` is the host's clock minus ours, give or take `unsure_s`. `trouble` is why its kernel lines cannot be
    read, though the login works. `lines` counts kernel lines of the running boot, at most `SAMPLE_LINES`; `source` is
    where they came from.
    """

    hello: Hello
    offset_s: float
    unsure_s: float
    lines: int
    source: str
    forced_command: bool
    trouble: HostError | None = None


def described_lines(count: int) -> str:
    """How many kernel lines a login saw, for a person; the sample ends at `SAMPLE_LINES`."""
    if count >= SAMPLE_LINES:
        return f"at least {SAMPLE_LINES} kernel lines"
    return f"{count} kernel line{'' if count == 1 else 's'}"


async def examine(host: HostSettings, clock: Clock, timeout_s: float, jump: HostSettings | None = None) -> Examined:
    """Log in to `host` once and look. Raises HostError when there is no login, or the reader does not run."""
    try:
        return await _look(host, clock, timeout_s, jump)
    except ReaderError as error:
        # A key that is bound to the installed reader takes no script: its reader refuses it as a request.
        if host.forced_command or not error.refused:
            raise
    return await _look(replace(host, forced_command=True), clock, timeout_s, jump)


async def _look(host: HostSettings, clock: Clock, timeout_s: float, jump: HostSettings | None) -> Examined:
    async with reading(host, timeout_s, jump=jump) as session:
        before = clock.wall()
        hello = await requests.ask_hello(session)
        after = clock.wall()
        lines, source, trouble = await _lines(session, host, hello)
    return Examined(
        hello=hello,
        offset_s=hello.now + 0.5 - (before + after) / 2,  # the host gives whole seconds
        unsure_s=0.5 + (after - before) / 2,
        lines=lines,
        source=source,
        forced_command=host.forced_command,
        trouble=trouble,
    )


async def _lines(session: Session, host: HostSettings, hello: Hello) -> tuple[int, str, HostError | None]:
    """How many kernel lines of the running boot could be read, from where, and what was in the way."""
    if hello.journalctl and not hello.may_read_journal:
        return 0, "journal", requests.no_permission_error(host.user)
    try:
        if hello.journalctl and hello.boots:
            page = requests.RecordCollector(SAMPLE_LINES)
            await requests.ask(session, f"read1 journal {hello.boot} - {SAMPLE_LINES}", page.take)
            printed = sum(record.kind is RecordKind.KERNEL for record in page.records)  # not what journald says itself
            if printed:
                return printed, "journal", None
        ring, trouble = await requests.ring(session)
    except HostError as error:
        return 0, "journal", error
    empty = HostError(
        HostReason.EMPTY_BOOT,
        "neither the journal nor the ring buffer shows a kernel line of the running boot",
        "Does `journalctl -k` show lines to this user? See `ReadKMsg=` and `Storage=` in journald.conf, and the disk.",
    )
    return len(ring), "kernel ring buffer", trouble if ring else empty
