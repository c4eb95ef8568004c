"""`generation/<server>`: ask for a few tokens of real text, and say what their absence means (design §5.1)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from itertools import repeat

import structlog

from watchdog.chat import ChatClient, Deadline
from watchdog.chat.endpoint import MAX_COMPLETION_TOKENS, MAX_TOKENS, endpoint_of, request_body
from watchdog.checks.engine_probe import MetricsReader, Scrape, look, models_listed, models_loaded
from watchdog.checks.generation_memory import GenerationMemory
from watchdog.checks.generation_report import (
    ProbeOutcome,
    generation_observation,
    progress_observation,
    quality_observation,
    slow_observation,
)
from watchdog.checks.seat import place
from watchdog.clock import Clock
from watchdog.completion.verdict import Judgement, unanswered
from watchdog.config import Config, SeatSettings, ServerSettings
from watchdog.engines.metrics import to_json
from watchdog.engines.movement import Change, Movement, Suspicion, Watch, compare
from watchdog.engines.table import same_model, served_models
from watchdog.kinds import GENERATION, VITALS
from watchdog.model import CheckResult, Json, Observation
from watchdog.policy.seats import Seat
from watchdog.reasons import PASSING, UNANSWERED, ServerReason
from watchdog.text import without_secret

log = structlog.get_logger("generation")

_HEAD_START_S = 0.25
"""The first look at the metrics goes before the probe, but a hanging one does not hold the probe up longer."""
_OWNER_S = 1.0
"""How long the first look at metrics waits to hear whose they would be."""
_MOST_ATTEMPTS = 3
_LEAST_WINDOW_S = 2.0


@dataclass(slots=True)
class _Round:
    """One run: its clock, what it remembers, and what it has found so far."""

    started: float
    deadline: Deadline
    now: float
    memory: GenerationMemory
    model: str | None = None
    attempts: list[Judgement] = field(default_factory=list)
    resent: int = 0
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    before: Scrape | None = None
    before_at: float = 0.0
    after: Scrape | None = None
    after_at: float = 0.0
    listing: asyncio.Task[Json] | None = None


def build(config: Config, clock: Clock, chat: ChatClient) -> list[GenerationCheck]:  # noqa: ARG001 - as every kind
    """One check for each server of `config`, all on the one client."""
    seats = {name: seat for seat in map(_seat_of, config.seats, repeat(config)) for name in seat.settings.servers}
    return [GenerationCheck(server, chat, seats.get(server.name)) for server in config.servers]


def _seat_of(settings: SeatSettings, config: Config) -> Seat:
    rhythms = [server.probe for server in config.servers if server.name in settings.servers]
    return Seat(settings, fresh_s=max(2.5 * one.interval_s + one.timeout_s for one in rhythms))


class GenerationCheck:
    """Probes one server. One probe is in flight at a time; its connection is closed when it ends.

    `client` is shared with the other checks. Raises WatchdogError if the settings name an address, key or CA file
    that cannot be used.
    """

    def __init__(self, server: ServerSettings, client: ChatClient, seat: Seat | None = None) -> None:
        self._server = server
        self._seat = seat
        self._client = client
        self._endpoint = endpoint_of(server)
        self._metrics = MetricsReader(client, self._endpoint, server.metrics_url)
        self._in_flight = asyncio.Lock()
        self._running: _Round | None = None
        self._next_timeout_s: float | None = None
        self._watch = Watch()
        self._metrics_path: str | None = None

    @property
    def key(self) -> str:
        """`generation/<server>`."""
        return GENERATION.key(self._server.name)

    @property
    def interval_s(self) -> float:
        """Seconds from one probe to the next."""
        return self._server.probe.interval_s

    async def run(self, memory: Json | None, now: float) -> CheckResult:
        """Probe once. Gives `generation/<server>`; after a pass also `quality/<server>` and `slow/<server>`.

        And `progress/<server>`, where a live counter can be read.
        """
        async with self._in_flight:
            outcome = await self.probe(memory, now)
        observations: list[Observation] = [generation_observation(self._server, outcome)]
        others = (
            progress_observation(self._server, outcome),
            quality_observation(self._server, outcome),
            slow_observation(self._server, outcome),
        )
        observations += [other for other in others if other is not None]
        result = CheckResult(tuple(observations), outcome.memory, forgettable=True)
        if self._seat is not None:
            self._seat.remember(self._server.name, GenerationMemory.from_json(memory).text_at)
            result = place(self._seat, self._server, outcome, result)
        return result if result.memory != memory else replace(result, memory=None)

    @property
    def live(self) -> bool:
        """Whether it looks at the server between probes, too. An on-demand server is left asleep."""
        return self._server.probe.is_watched and not self._server.on_demand

    @property
    def suspected(self) -> Suspicion | None:
        """What the looks between probes make us suspect now."""
        return self._watch.suspected

    def hurry(self, timeout_s: float) -> None:
        """Its death is proven: the probe in flight ends `timeout_s` after its start, else the next one does."""
        if self._in_flight.locked() and self._running is not None:
            self._running.deadline.bring_forward(self._running.started + timeout_s)
        else:
            self._next_timeout_s = timeout_s

    async def follow(self, commit: Callable[[CheckResult], Awaitable[object]], memory: Json | None) -> None:
        """Look at the server between probes, and have it probed at once where something seems to have died.

        Never opens an incident.
        """
        known = GenerationMemory.from_json(memory)
        self._metrics_path = self._metrics_path or known.metrics_path
        while True:
            await asyncio.sleep(self._server.probe.watch_s)
            seen = await look(self._endpoint, self._metrics, self._metrics_path)
            suspected = self._watch.suspected
            found = self._watch.look(seen)
            if self._seat is not None and suspected is not None and self._watch.suspected is None:
                await commit(CheckResult((), run_now=(self.key,)))  # it may have taken the seat
            if found is not None:
                log.info("suspicion", check=self.key, suspicion=found.value)
                hosts = tuple(VITALS.key(host) for host in self._server.hosts)
                # A probe that is in flight answers the question itself, and ends early once the hosts prove it.
                wanted = hosts if self._in_flight.locked() else (self.key, *hosts)
                await commit(CheckResult((), run_now=wanted))

    async def probe(self, memory: Json | None, now: float) -> ProbeOutcome:
        """Probe once and give everything that was seen; `run` makes observations of it."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        settings = self._server.probe
        timeout_s = min(settings.timeout_s, self._next_timeout_s or settings.timeout_s)
        this = _Round(started, Deadline(started + timeout_s), now, GenerationMemory.from_json(memory))
        self._running, self._next_timeout_s = this, None
        judgement = await self._asleep(this) if self._server.on_demand else None
        if judgement is not None:
            return self._outcome(this, judgement, Change(movement=Movement.UNKNOWN))
        looking = self._start_looking(this)
        try:
            if looking is not None:
                await _at_most(this.looked.wait(), min(_HEAD_START_S, settings.timeout_s / 20))
            judgement = await self._resolve_model(this) or await self._ask(this)
            change = await self._conclude(this, judgement, looking)
        finally:
            for task in (looking, this.listing):
                if task is not None:
                    task.cancel()
        return self._outcome(this, judgement, change)

    def _left(self, this: _Round) -> float:
        return max(0.0, this.deadline.at - asyncio.get_running_loop().time())

    # Models

    async def _asleep(self, this: _Round) -> Judgement | None:
        loaded = await models_loaded(self._client, self._endpoint, self._small_limit_s(this))
        if loaded is None:
            return None  # it does not say, or does not answer: the probe itself will tell
        wanted = self._server.model
        if wanted is None:
            this.memory.model = loaded[0] if len(loaded) == 1 else this.memory.model
            awake = bool(loaded)
        else:
            awake = any(same_model(wanted, name) for name in loaded)
        if awake:
            return None
        listed = ", ".join(loaded[:3]) or "none"
        return unanswered(
            ServerReason.ASLEEP, f"loaded now: {listed}", asyncio.get_running_loop().time() - this.started
        )

    async def _list_models(self, this: _Round, *, anew: bool = False) -> Json:
        """What the server says of its models, asked once in a run."""
        if this.listing is None or anew:
            limit_s = self._small_limit_s(this)
            this.listing = asyncio.create_task(models_listed(self._client, self._endpoint, limit_s))
        return await asyncio.shield(this.listing)

    async def _resolve_model(self, this: _Round, *, anew: bool = False) -> Judgement | None:
        this.model = self._server.model or this.memory.model
        if this.model is not None:
            return None
        names = served_models(await self._list_models(this, anew=anew))
        if names is not None and len(names) > 1:
            listed = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
            detail = f"{len(names)} models are served ({listed}) and none is named: set one"
            return unanswered(ServerReason.UNKNOWN_MODEL, detail, asyncio.get_running_loop().time() - this.started)
        this.model = names[0] if names else None
        return None

    def _small_limit_s(self, this: _Round) -> float:
        return min(5.0, max(0.3, self._server.probe.timeout_s / 12), self._left(this))

    # Asking

    async def _ask(self, this: _Round) -> Judgement:
        memory = this.memory
        while True:
            body = request_body(self._server, this.model, secrets.token_hex(4), memory.limit_field)
            judgement = await self._client.complete(self._endpoint, body, this.deadline)
            this.attempts.append(judgement)
            if len(this.attempts) >= _MOST_ATTEMPTS or not await self._worth_another(this, judgement):
                break
        judgement = memory.with_history(judgement, request_body(self._server, this.model, "", memory.limit_field))
        this.attempts[-1] = judgement
        if judgement.reason is ServerReason.BAD_REQUEST or judgement.took_before:
            memory.limit_field = MAX_TOKENS
        if judgement.reason in PASSING:
            memory.model = None if self._server.model else this.model
        elif judgement.reason is ServerReason.UNKNOWN_MODEL:
            memory.model = None
        return judgement

    async def _worth_another(self, this: _Round, judgement: Judgement) -> bool:
        """Whether to send once more, at once, within the same deadline; changes what the next attempt sends."""
        if judgement.reason is ServerReason.INSTANT_STOP:
            if this.resent or self._left(this) < self._server.probe.timeout_s / 10:
                return False
            this.resent = 1
            return True
        if judgement.wants_other_limit and this.memory.limit_field == MAX_TOKENS:
            this.memory.limit_field = MAX_COMPLETION_TOKENS
            return True
        if judgement.reason is ServerReason.UNKNOWN_MODEL and self._server.model is None and this.memory.model:
            # The model we had found is gone: the server may have been restarted with another one.
            former, this.memory.model = this.model, None
            return await self._resolve_model(this, anew=True) is None and this.model not in (None, former)
        return False

    # Busy or hung

    def _start_looking(self, this: _Round) -> asyncio.Task[None] | None:
        if not self._metrics.is_due(this.memory.metrics_absent_since, this.now):
            return None
        return asyncio.create_task(self._look_twice(this))

    async def _look_twice(self, this: _Round) -> None:
        """Read the metrics now, and again shortly before the deadline, so that the verdict need not wait for them."""
        settings, loop = self._server.probe, asyncio.get_running_loop()
        reserve = min(settings.metrics_timeout_s, max(0.5, settings.timeout_s / 4), settings.timeout_s / 2)
        path = this.memory.metrics_path
        known = path is not None or self._server.metrics_url is not None
        models = None if known else await self._owner_wanted(this)
        limit_s = min(settings.metrics_timeout_s, settings.timeout_s / 2)
        scrape = await self._metrics.scrape(path, limit_s, models)
        this.before, this.before_at = scrape, loop.time()
        this.looked.set()
        self._remember(this, scrape)
        if scrape.sample is None:
            return
        await asyncio.sleep(max(0.0, this.deadline.at - reserve - loop.time()))
        after = await self._metrics.scrape(scrape.path, max(0.05, self._left(this) - 0.02))
        this.after, this.after_at = after, loop.time()

    async def _owner_wanted(self, this: _Round) -> Json:
        """The list of models, if it comes soon: a server whose API hangs may still serve its metrics."""
        await _at_most(self._list_models(this), min(_OWNER_S, self._server.probe.timeout_s / 8))
        return this.listing.result() if this.listing is not None and this.listing.done() else None

    def _remember(self, this: _Round, scrape: Scrape) -> None:
        this.memory.metrics_absent_since = this.now if scrape.absent else None
        if scrape.sample is not None:
            this.memory.metrics_path = scrape.path
        elif scrape.absent:
            this.memory.metrics_path = None
        self._metrics_path = this.memory.metrics_path

    async def _conclude(self, this: _Round, judgement: Judgement, looking: asyncio.Task[None] | None) -> Change:
        """Compare the two looks for an unanswered probe; take the second one now if the probe ended early."""
        if this.before is None or this.before.sample is None:
            return Change(movement=Movement.UNKNOWN)
        passed_while_running = judgement.reason in PASSING and (this.before.sample.running or 0) > 0
        moving_tells = judgement.reason.row.busy_if_engine_moves
        ended_early = this.after is None
        if this.after is None and (judgement.reason in UNANSWERED or passed_while_running or moving_tells):
            if looking is not None:
                looking.cancel()
            if judgement.reason not in UNANSWERED and moving_tells:
                # The server gave up at once: its counters need a moment to contradict it.
                window = this.before_at + _LEAST_WINDOW_S - asyncio.get_running_loop().time()
                await asyncio.sleep(max(0.0, min(window, self._left(this) / 2)))
            limit = min(self._server.probe.metrics_timeout_s, self._left(this))
            if limit > 0:
                this.after = await self._metrics.scrape(this.before.path, limit)
                this.after_at = asyncio.get_running_loop().time()
        if (not moving_tells and judgement.reason not in UNANSWERED) or this.after is None:
            return Change(movement=Movement.UNKNOWN)
        change = compare(this.before.sample, this.after.sample)
        if judgement.reason not in UNANSWERED and change.movement is not Movement.BUSY:
            return Change(movement=Movement.UNKNOWN)  # the server's own word stands
        # Whoever closed before the deadline has taken our request back: then the engine rightly counts none.
        if change.movement is Movement.LOST and (ended_early or judgement.reason is ServerReason.GATEWAY_TIMEOUT):
            return replace(change, movement=Movement.BUSY) if change.moved else Change(movement=Movement.UNKNOWN)
        return change

    def _outcome(self, this: _Round, judgement: Judgement, change: Change) -> ProbeOutcome:
        memory = this.memory
        after = this.after.sample if this.after is not None else None
        before = this.before.sample if this.before is not None else None
        stuck_before = memory.stuck_rounds
        outcome = ProbeOutcome(
            judgement=self._without_secrets(judgement),
            attempts=tuple(self._without_secrets(attempt) for attempt in this.attempts),
            resent=this.resent,
            model=this.model,
            change=change,
            before=before,
            after=after,
            trouble=self._trouble(this),
            window_s=max(0.0, this.after_at - this.before_at),
            timeout_s=this.deadline.at - this.started,
            duration_s=asyncio.get_running_loop().time() - this.started,
            at=this.now,
            earlier=memory.after,
            stuck_rounds=stuck_before,
        )
        if judgement.reason in PASSING:
            memory.text_at = this.now
            memory.stuck_rounds = outcome.stuck_rounds_now
            memory.after = to_json(after) if after is not None and (after.running or 0) > 0 else None
        still, lowered = memory.count_failure(outcome, self._server.probe.failures)
        loads_s = memory.count_loading(outcome)
        settings = self._server.probe
        too_long = settings.is_sooner and loads_s is not None and loads_s >= settings.loading_for_s
        return replace(
            outcome,
            still_windows=still,
            lowered=lowered and not too_long,
            loads_too_long_s=loads_s if too_long else None,
            down_s=memory.count_down(outcome),
            # How long an on-demand server takes says whether it had to load first.
            slowness=None if self._server.on_demand else memory.compare_pace(outcome),
            memory=memory.to_json(),
        )

    def _trouble(self, this: _Round) -> str:
        for scrape in (this.after, this.before):
            if scrape is not None and scrape.sample is None:
                return scrape.trouble
        if this.before is None:
            return "no metrics" if this.memory.metrics_absent_since is not None else "the metrics gave no answer"
        return ""

    def _without_secrets(self, judgement: Judgement) -> Judgement:
        detail = judgement.detail  # servers like to repeat the key that they refuse
        for secret in (self._server.api_key, *self._server.headers.values()) if detail else ():
            if secret is not None and secret.reveal().strip():
                detail = without_secret(secret.reveal(), detail)
        return judgement if detail == judgement.detail else replace(judgement, detail=detail)


async def _at_most(waiting: Coroutine[None, None, object], timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await waiting
    except TimeoutError:
        return
