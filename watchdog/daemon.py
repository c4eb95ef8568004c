"""The composition root: builds everything from a configuration, runs it, reloads it, and stops it in time.

Usable in-process: `Daemon(load, state_dir).run()` returns after `stop()`.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from pathlib import Path

import structlog

from watchdog.chat import ChatClient
from watchdog.checks import build_checks
from watchdog.checks.generation import GenerationCheck
from watchdog.checks.vitals import vitals_to_run_now
from watchdog.clock import Clock, SystemClock, run_while
from watchdog.config import Config, HostSettings, ProbeSettings
from watchdog.descriptors import needed, raise_limit
from watchdog.engines.movement import Suspicion
from watchdog.errors import ConfigError
from watchdog.heartbeat import Heartbeat, Pulse
from watchdog.ingest import Ingest
from watchdog.json_values import to_json
from watchdog.kinds import BUILT, GENERATION, KERNEL_LOG, VITALS
from watchdog.message.redaction import Redactor
from watchdog.model import Check, CheckResult, Delivery, Json, Observation, Outcome
from watchdog.notify import build
from watchdog.outbox import Outbox
from watchdog.phone_ack import PhoneAck
from watchdog.policy import FIRST_TIMEOUT_S, AlertPlan
from watchdog.scheduler import Scheduler
from watchdog.selfwatch import SelfWatch
from watchdog.selfwatch.installation import Installation, follow
from watchdog.selfwatch.local_network import LocalNetwork
from watchdog.standby import StandbyWatch
from watchdog.store import INSTANCE, MAINTENANCE, PLAN, RECEIVERS, Store
from watchdog.systemd import FailedStarts, ServiceManager
from watchdog.web import WebLifecycle

log = structlog.get_logger("daemon")

_SUSPECTED_FOR_S = 60.0
"""What the hosts have shown for so long counts for a suspicion of now."""
TICK_S = 5.0
"""How often time itself is taken in: reminders, expiring occurrences, what commands have asked for."""


class Daemon:
    """Watches what the configuration names until it is told to stop."""

    def __init__(
        self,
        load: Callable[[], Config],
        state_dir: Path,
        *,
        clock: Clock | None = None,
        local_network: LocalNetwork | None = None,
        on_ready: Callable[[Config], Awaitable[None]] | None = None,
    ) -> None:
        """`load` reads the configuration each time it is called; it raises ConfigError for a bad one.

        `on_ready` is awaited once, beside everything else, when the first pass over all checks is over.
        """
        self._load = load
        self._state_dir = state_dir
        self._clock = clock or SystemClock()
        self._network = local_network or LocalNetwork()
        self._service = ServiceManager(self._clock)
        self._on_ready = on_ready
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._hang_up = asyncio.Event()
        self._installation = Installation()
        self.outdated = False
        """Whether it ended because its files were replaced: it must be started again."""

    def stop(self) -> None:
        """Stop soon; what is running is cancelled and counts for nothing."""
        self._stop.set()

    def reload(self) -> None:
        """Read the configuration again soon; a bad one is refused and the old one stays in force."""
        self._hang_up.set()

    async def run(self) -> None:
        """Run until `stop`. Raises ConfigError or StoreError before anything is started, and our own bugs later."""
        config = self._load()
        raise_limit(needed(config))
        store = Store.open(self._state_dir, self._clock.wall())
        try:
            async with ChatClient() as chat:
                await self._run(_Watching(config, store, chat, self._clock, self._network, self._installation))
        finally:
            await store.close()
        log.info("stopped")

    async def _run(self, watching: _Watching) -> None:
        await watching.start()
        log.info("started", **_counts(watching.config))
        loops = {
            **watching.loops(),
            "reload": self._follow_reloads(watching),
            "service manager": self._attend(watching),
            "ready": self._once_ready(watching),
            "installation": follow(self._installation, self._clock, self._replaced),
        }
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(loop, name=name) for name, loop in loops.items()]
            await self._stop.wait()
            log.info("stopping")
            self._service.stopping()
            await watching.scheduler.stop()
            for task in tasks:
                task.cancel()

    def _replaced(self) -> None:
        log.warning("installation_replaced", advice="It was upgraded or remade: starting again from the new files.")
        self.outdated = True
        self.stop()

    async def _attend(self, watching: _Watching) -> None:
        """Tell the service manager that we are ready, once every check has had its first run, and that we go on."""

        def on_ready() -> str:
            FailedStarts.of_this_service().clear()
            self._ready.set()
            return _status_line(watching.config)

        await self._service.attend(watching.scheduler, on_ready)

    async def _once_ready(self, watching: _Watching) -> None:
        await self._ready.wait()
        if self._on_ready is not None:
            await self._on_ready(watching.config)

    async def _follow_reloads(self, watching: _Watching) -> None:
        while True:
            await self._hang_up.wait()
            self._hang_up.clear()
            self._service.reloading()
            try:
                config = await asyncio.to_thread(self._load)
            except ConfigError as error:
                for problem in error.problems:
                    log.error("configuration_problem", problem=str(problem))
                log.error("reload_refused", advice="The old configuration stays in force. Fix the file, then reload.")
                self._service.reloaded(f"Reload refused, the old configuration stays in force: {error.problems[0]}")
                continue
            await watching.follow(config)
            self._service.reloaded(_status_line(config))
            log.info("reloaded", **_counts(config))


class _Watching:
    """What is built once and lives as long as the daemon runs, and the configuration it follows."""

    def __init__(
        self,
        config: Config,
        store: Store,
        chat: ChatClient,
        clock: Clock,
        local_network: LocalNetwork,
        installation: Installation,
    ) -> None:
        self.config = config
        self._store = store
        self._chat = chat
        self._clock = clock
        self._receivers_changed = asyncio.Event()
        self._checks: dict[str, tuple[object, Check]] = {}
        self._last_seen: dict[str, tuple[str, str]] = {}
        # A check's results are stored in the order it handed them out: an older memory must never come last.
        self._in_order: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.scheduler = Scheduler(clock, self._take, store.memory)
        self._instance = instance_of(store)
        self._unheard: str | None = None
        self._installation = installation
        self._web = WebLifecycle(
            store,
            clock,
            self.scheduler,
            check_of=self._running_check,
            run_check=self.scheduler.run_once,
            instance=self._instance,
        )
        self._ingest = Ingest(
            store, AlertPlan.from_config(config), clock, redactor=_redactor(config), on_change=self._web.changed
        )
        self._selfwatch = SelfWatch(
            store, self._ingest, clock, local_network, progress=self.scheduler, round_now=self.scheduler.round_now
        )
        self._heartbeat = Heartbeat(clock, self._ingest, self._pulse)
        self._standby = StandbyWatch(clock, self._ingest, instance=self._instance)

    async def start(self) -> None:
        """Take over the stored state and start the checks."""
        await self._ingest.start()
        await self._ingest.take(INSTANCE, CheckResult((), memory={"id": self._instance}))
        await self._start_checks()

    def loops(self) -> Mapping[str, Coroutine[None, None, None]]:
        """What runs until the daemon stops, by name."""
        return {
            "scheduler": self.scheduler.run(),
            "outbox": self._deliver(),
            "tick": self._tick(),
            "self": self._selfwatch.run(),
            "heartbeat": self._heartbeat.run(),
            "web": self._web.run(),
            "standby": self._standby.run(),
        }

    async def follow(self, config: Config) -> None:
        """Switch to another configuration; what did not change goes on undisturbed."""
        raise_limit(needed(config))
        await self._ingest.replan(AlertPlan.from_config(config), _redactor(config))
        self.config = config
        self._receivers_changed.set()
        await self._start_checks()

    async def _start_checks(self) -> None:
        """Run the checks of the configuration, and keep for `status` what runs, how often and with which thresholds."""
        config, plan = self.config, self._ingest.plan
        checks = self._build_checks()
        seats = {GENERATION.key(name): seat.name for seat in config.seats for name in seat.servers}
        runs = {
            check.key: {"interval_s": check.interval_s, "failures": plan.thresholds_for(check.key).failures}
            | ({"seat": seats[check.key]} if check.key in seats else {})
            for check in checks
        }
        await self._ingest.take(PLAN, CheckResult((), memory=runs))
        await self._ingest.take(MAINTENANCE, CheckResult((), memory=to_json(plan.maintenance)))
        self._web.follow(config)
        scheduled = [check for check in checks if not self._web.is_scraped(check)]
        self.scheduler.replace(scheduled)
        self._selfwatch.watch(config, {check.key: check.interval_s for check in checks})
        self._heartbeat.follow(config.heartbeat)
        self._standby.follow(config.standby_of)

    def _build_checks(self) -> list[Check]:
        """The checks to run; one whose settings did not change stays the same object and goes on undisturbed."""
        config = self.config
        by_name = {host.name: host for host in config.hosts}
        addresses = {host.address: host.name for host in config.hosts}
        settings: dict[str, object] = {}
        for kind in BUILT:
            for target in kind.targets(config):
                jump = by_name.get(target.jump or "") if isinstance(target, HostSettings) else None
                settings[kind.key(target.name)] = (target, jump, config.rules, addresses if kind is VITALS else None)
        kept = {}
        for check in build_checks(config, self._clock, self._chat):
            before, running = self._checks.get(check.key, (None, check))
            kept[check.key] = (settings[check.key], running if before == settings[check.key] else check)
        self._checks = kept
        return [check for _, check in kept.values()]

    def _running_check(self, key: str) -> Check | None:
        return self._checks[key][1] if key in self._checks else None

    async def _take(self, key: str, result: CheckResult) -> None:
        """What becomes of every result of a check."""
        async with self._in_order[key]:
            attributed = await self._selfwatch.attribute(result)
            for seen in attributed.observations:
                self._log(seen)
                self._web.observed(seen)
                self.scheduler.run_soon(vitals_to_run_now(seen, self._ingest.plan.runs_on, self._running_check))
            await self._ingest.take(key, attributed)
        self.scheduler.run_soon(attributed.run_now)
        if attributed.again_in_s is not None:
            self.scheduler.run_in(key, attributed.again_in_s)
        await self._pace(attributed.observations)

    async def _pace(self, observations: Iterable[Observation]) -> None:
        """Have failing servers probed again as soon as what is known of them allows (docs/decisions, 10)."""
        plan = self._ingest.plan
        hosts = {seen.labels.get("host") for seen in observations if VITALS.has(seen.key) or KERNEL_LOG.has(seen.key)}
        named = {GENERATION.target_of(seen.key) for seen in observations}
        if hosts:
            named |= {server for server, on in plan.runs_on.items() if not hosts.isdisjoint(on)}
        for server in named & plan.probes.keys():
            check = self._running_check(GENERATION.key(server))
            if plan.probes[server].is_sooner and isinstance(check, GenerationCheck):
                await self._pace_one(server, plan.probes[server], check)

    async def _pace_one(self, server: str, settings: ProbeSettings, check: GenerationCheck) -> None:
        coming = self._ingest.next_probe(server, settings)
        if coming is not None:
            await self._ingest.keep_next_probe(server, coming)
        if coming is not None and coming.wait_s is not None:
            self.scheduler.run_in(check.key, coming.wait_s)
            if coming.timeout_s is not None:
                check.hurry(coming.timeout_s)
        elif check.suspected is Suspicion.STANDS_STILL and self._ingest.hangs(
            server, self._clock.wall() - _SUSPECTED_FOR_S
        ):
            check.hurry(FIRST_TIMEOUT_S)

    def _log(self, seen: Observation) -> None:
        """One line per observation: at INFO when its meaning changed, else at DEBUG."""
        now = (seen.verdict.value, seen.reason)
        write = log.debug if self._last_seen.get(seen.key) == now else log.info
        self._last_seen[seen.key] = now
        write(
            "observation",
            check=seen.key,
            verdict=seen.verdict.value,
            reason=seen.reason,
            severity=seen.severity.value,
            summary=seen.statement,
            duration_s=round(seen.duration_s, 3),
        )

    async def _deliver(self) -> None:
        """Run the outbox; after a reload that changed the receivers, a new one resumes what the old one left."""
        ended = False
        while not ended:
            config = self.config
            redactor = _redactor(config)
            receivers = {row.name: build(row, redactor) for row in config.receivers}
            channels = {name: one.ack_channel for name, one in receivers.items() if one.ack_channel is not None}
            phones = PhoneAck(self._store, self._ingest, self._clock, channels)

            def attempted(delivery: Delivery, outcome: Outcome, phones: PhoneAck = phones) -> None:
                phones.note(delivery, outcome)
                self._web.attempted(delivery, outcome)

            outbox = Outbox(self._store, self._ingest, receivers, self._clock, attempted=attempted)
            addresses: dict[str, Json] = {row.name: row.address_hash for row in config.receivers}
            await self._ingest.take(RECEIVERS, CheckResult((), memory=addresses))
            ended = await run_while(
                _together(outbox.run(), phones.run()),
                lambda: self._has_receivers_of(config),  # noqa: B023
                self._receivers_changed,
            )

    def _has_receivers_of(self, config: Config) -> bool:
        return (self.config.receivers, self.config.alerting) == (config.receivers, config.alerting)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_S)
            await self._ingest.tick(aging=not self._selfwatch.settling)
            now = self._clock.wall()
            unheard = await self._store.read_in_turn(lambda reader: reader.unheard_page(now))  # noqa: B023
            if (unheard is None) != (self._unheard is None):
                log.warning("undelivered_page", problem=unheard)
            self._unheard = unheard

    def _pulse(self) -> Pulse:
        trouble = self._selfwatch.trouble
        if trouble is None and self._store.trouble is not None:
            trouble = f"the state is in memory only: {self._store.trouble.text}"
        trouble = trouble or self._unheard or self._installation.problem
        return Pulse(self._selfwatch.complete(), trouble)


async def _together(outbox: Coroutine[None, None, None], phones: Coroutine[None, None, None]) -> None:
    """Both until one fails or we are cancelled; the outbox gets its grace to end."""
    async with asyncio.TaskGroup() as group:
        group.create_task(outbox)
        group.create_task(phones)


def instance_of(store: Store) -> str:
    """The id of the watchdog whose state `store` is; a new one if it has none yet."""
    match store.memory(INSTANCE):
        case {"id": str(known)}:
            return known
    return secrets.token_hex(8)


def _redactor(config: Config) -> Redactor:
    """Takes secrets out of messages, but leaves the names readable that also stand in a URL."""
    names = [row.name for row in config.servers] + [row.name for row in config.hosts]
    return Redactor(config.secrets, [*names, *(row.name for row in config.receivers)])


def _counts(config: Config) -> dict[str, int]:
    return {"servers": len(config.servers), "hosts": len(config.hosts), "receivers": len(config.receivers)}


def _status_line(config: Config) -> str:
    """One line for `systemctl status`."""
    servers, hosts = len(config.servers), len(config.hosts)
    return f"Watching {servers} server{'s' * (servers != 1)} and {hosts} host{'s' * (hosts != 1)}."


def handle_signals(daemon: Daemon) -> None:
    """SIGTERM and SIGINT stop the daemon, SIGHUP reloads its configuration. Call it inside the running loop."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, daemon.stop)
    loop.add_signal_handler(signal.SIGINT, daemon.stop)
    loop.add_signal_handler(signal.SIGHUP, daemon.reload)
