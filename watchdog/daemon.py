"""The composition root: builds everything from a configuration, runs it, reloads it, and stops it in time.

Usable in-process: `Daemon(load, state_dir).run()` returns after `stop()`.
"""

from __future__ import annotations

import asyncio
import signal
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from watchdog.chat import ChatClient
from watchdog.checks import build_checks
from watchdog.checks.vitals import early
from watchdog.clock import Clock, SystemClock
from watchdog.codec import to_json
from watchdog.config import Config, HostSettings
from watchdog.errors import ConfigError
from watchdog.heartbeat import Heartbeat, Pulse
from watchdog.ingest import Ingest
from watchdog.kinds import BUILT
from watchdog.message import Redactor
from watchdog.model import Check, CheckResult, Observation
from watchdog.notify import build
from watchdog.outbox import Outbox
from watchdog.policy import AlertPlan
from watchdog.scheduler import Scheduler
from watchdog.selfwatch import SelfWatch
from watchdog.selfwatch.local_network import Neighbourhood
from watchdog.standby import StandbyWatch
from watchdog.store import MAINTENANCE, PLAN, Store
from watchdog.systemd import FailedStarts, ServiceManager
from watchdog.web.lifecycle import WebPart

log = structlog.get_logger("daemon")

TICK_S = 5.0
"""How often time itself is taken in: reminders, quiet occurrences, wishes of commands."""


@dataclass(slots=True)
class _Parts:
    """What is built once and lives as long as the daemon, and the configuration it follows now."""

    config: Config
    store: Store
    ingest: Ingest
    scheduler: Scheduler
    chat: ChatClient
    selfwatch: SelfWatch
    heartbeat: Heartbeat
    web: WebPart
    standby: StandbyWatch


class Daemon:
    """Watches what the configuration names until it is told to stop."""

    def __init__(
        self,
        load: Callable[[], Config],
        state_dir: Path,
        *,
        clock: Clock | None = None,
        neighbourhood: Neighbourhood | None = None,
    ) -> None:
        """`load` reads the configuration anew each time it is called and raises ConfigError for a bad one."""
        self._load = load
        self._state_dir = state_dir
        self._clock = clock or SystemClock()
        self._neighbourhood = neighbourhood or Neighbourhood()
        self._service = ServiceManager(self._clock)
        self._stop = asyncio.Event()
        self._hang_up = asyncio.Event()
        self._receivers_changed = asyncio.Event()
        self._running: dict[str, tuple[object, Check]] = {}
        self._last_seen: dict[str, tuple[str, str]] = {}
        self._observed: Callable[[Observation], None] = lambda _seen: None
        self._run_soon: Callable[[Iterable[str]], None] = lambda _keys: None

    def stop(self) -> None:
        """Stop soon; what is running is cancelled and counts for nothing."""
        self._stop.set()

    def reload(self) -> None:
        """Read the configuration again soon; a bad one is refused and the old one goes on."""
        self._hang_up.set()

    async def run(self) -> None:
        """Run until `stop`. Raises ConfigError or StoreError before anything is started, and our own bugs later."""
        config = self._load()
        store = Store.open(self._state_dir, self._clock.wall())
        try:
            async with ChatClient() as chat:
                await self._run(config, store, chat)
        finally:
            await store.close()
        log.info("stopped")

    async def _run(self, config: Config, store: Store, chat: ChatClient) -> None:
        ingest = Ingest(store, AlertPlan.from_config(config), self._clock, redactor=_redactor(config))
        selfwatch = SelfWatch(store, ingest, self._clock, self._neighbourhood)
        scheduler = Scheduler(self._clock, self._taking(ingest, selfwatch), store.memory)
        web = WebPart(store, scheduler, self._clock)
        web.check_of, web.run_check, self._observed = self._running_check, scheduler.run_once, web.observed
        ingest.noticed = web.changed
        self._run_soon = scheduler.run_soon
        selfwatch.round_now, selfwatch.completed_at = scheduler.round_now, scheduler.last_completed_at.get
        heartbeat = Heartbeat(self._clock, ingest, lambda: _pulse(selfwatch, store))
        standby = StandbyWatch(self._clock, ingest)
        parts = _Parts(config, store, ingest, scheduler, chat, selfwatch, heartbeat, web, standby)
        await ingest.start()
        await self._start_checks(config, parts)
        log.info("started", servers=len(config.servers), hosts=len(config.hosts), receivers=len(config.receivers))
        async with asyncio.TaskGroup() as group:
            loops = [
                group.create_task(scheduler.run(), name="scheduler"),
                group.create_task(self._deliver(parts), name="outbox"),
                group.create_task(self._tick(ingest, selfwatch), name="tick"),
                group.create_task(selfwatch.run(), name="self"),
                group.create_task(heartbeat.run(), name="heartbeat"),
                group.create_task(web.run(), name="web"),
                group.create_task(standby.run(), name="standby"),
                group.create_task(self._reloading(parts), name="reload"),
                group.create_task(self._attend(parts), name="service manager"),
            ]
            await self._stop.wait()
            log.info("stopping")
            self._service.stopping()
            await scheduler.stop()
            for loop in loops:
                loop.cancel()

    async def _start_checks(self, config: Config, parts: _Parts) -> None:
        """Run the checks of `config`, and keep for `status` what is run, how often and with which thresholds."""
        checks = self._checks(config, parts.chat)
        thresholds = parts.ingest.plan.thresholds_for
        runs = {
            check.key: {"interval_s": check.interval_s, "failures": thresholds(check.key).failures} for check in checks
        }
        await parts.ingest.take(PLAN, CheckResult((), memory=runs))
        await parts.ingest.take(MAINTENANCE, CheckResult((), memory=to_json(parts.ingest.plan.maintenance)))
        parts.web.follow(config)
        scheduled = [check for check in checks if not parts.web.is_scraped(check)]
        parts.scheduler.replace(scheduled)
        parts.selfwatch.watch(config, {check.key: check.interval_s for check in scheduled})
        parts.heartbeat.follow(config.heartbeat)
        parts.standby.follow(config.standby_of)

    def _checks(self, config: Config, chat: ChatClient) -> list[Check]:
        """The checks of `config`; one whose settings did not change stays the same object and goes on undisturbed."""
        by_name = {host.name: host for host in config.hosts}
        settings: dict[str, object] = {}
        for kind in BUILT:
            for target in kind.targets(config):
                jump = by_name.get(target.jump or "") if isinstance(target, HostSettings) else None
                settings[kind.key(target.name)] = (target, jump, config.rules)
        kept = {}
        for check in build_checks(config, self._clock, chat):
            before, running = self._running.get(check.key, (None, check))
            kept[check.key] = (settings[check.key], running if before == settings[check.key] else check)
        self._running = kept
        return [check for _, check in kept.values()]

    def _running_check(self, key: str) -> Check | None:
        return self._running[key][1] if key in self._running else None

    def _taking(self, ingest: Ingest, selfwatch: SelfWatch) -> Callable[[str, CheckResult], Awaitable[None]]:
        # A check's results are stored in the order it handed them out: an older memory must never come last.
        in_order: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

        async def take(key: str, result: CheckResult) -> None:
            async with in_order[key]:
                judged = await selfwatch.judged(result)
                for seen in judged.observations:
                    self._log(seen)
                    self._observed(seen)
                    self._run_soon(early(seen, ingest.plan.runs_on, self._running_check))
                await ingest.take(key, judged)

        return take

    def _log(self, seen: Observation) -> None:
        """One line per observation: loud when its meaning changed, for debugging otherwise."""
        now = (seen.verdict.value, seen.reason)
        say = log.debug if self._last_seen.get(seen.key) == now else log.info
        self._last_seen[seen.key] = now
        say(
            "observation",
            check=seen.key,
            verdict=seen.verdict.value,
            reason=seen.reason,
            severity=seen.severity.value,
            summary=seen.summary,
            duration_s=round(seen.duration_s, 3),
        )

    async def _deliver(self, parts: _Parts) -> None:
        """Run the outbox; after a reload that changed the receivers, a new one takes up what the old one left."""
        while True:
            config = parts.config
            redactor = _redactor(config)
            receivers = {row.name: build(row, redactor) for row in config.receivers}
            outbox_now = Outbox(parts.store, parts.ingest, receivers, self._clock, attempted=parts.web.attempted)
            outbox = asyncio.create_task(outbox_now.run())
            try:
                while (parts.config.receivers, parts.config.alerting) == (config.receivers, config.alerting):
                    changed = asyncio.create_task(self._receivers_changed.wait())
                    await asyncio.wait({outbox, changed}, return_when=asyncio.FIRST_COMPLETED)
                    changed.cancel()
                    self._receivers_changed.clear()
                    if outbox.done():
                        return outbox.result()
            finally:
                outbox.cancel()
                await asyncio.gather(outbox, return_exceptions=True)

    async def _tick(self, ingest: Ingest, selfwatch: SelfWatch) -> None:
        while True:
            await self._clock.sleep(TICK_S)
            await ingest.tick(aging=not selfwatch.settling)

    async def _attend(self, parts: _Parts) -> None:
        """Tell the service manager that we are ready, once every check has had its first run, and that we go on."""

        def on_ready() -> str:
            FailedStarts.of_this_service().clear()
            return _watching(parts.config)

        await self._service.attend(parts.scheduler, on_ready)

    async def _reloading(self, parts: _Parts) -> None:
        while True:
            await self._hang_up.wait()
            self._hang_up.clear()
            self._service.reloading()
            try:
                config = await asyncio.to_thread(self._load)
            except ConfigError as error:
                for problem in error.problems:
                    log.error("configuration_problem", problem=str(problem))
                log.error("reload_refused", advice="The old configuration goes on. Correct the file and reload again.")
                self._service.reloaded(f"Reload refused, the old configuration goes on: {error.problems[0]}")
                continue
            await parts.ingest.replan(AlertPlan.from_config(config), _redactor(config))
            parts.config = config
            self._receivers_changed.set()
            await self._start_checks(config, parts)
            self._service.reloaded(_watching(config))
            log.info("reloaded", servers=len(config.servers), hosts=len(config.hosts), receivers=len(config.receivers))


def _redactor(config: Config) -> Redactor:
    """Takes secrets out of messages, but leaves the names readable that also stand in a URL."""
    names = [row.name for row in config.servers] + [row.name for row in config.hosts]
    return Redactor(config.secrets, [*names, *(row.name for row in config.receivers)])


def _watching(config: Config) -> str:
    """One line for `systemctl status`."""
    servers, hosts = len(config.servers), len(config.hosts)
    return f"Watching {servers} server{'s' * (servers != 1)} and {hosts} host{'s' * (hosts != 1)}."


def _pulse(selfwatch: SelfWatch, store: Store) -> Pulse:
    """How we are, for the heartbeat."""
    trouble = selfwatch.trouble
    if trouble is None and store.trouble is not None:
        trouble = f"the state is in memory only: {store.trouble.text}"
    return Pulse(selfwatch.complete(), trouble)


def handle_signals(daemon: Daemon) -> None:
    """SIGTERM and SIGINT stop the daemon, SIGHUP reloads its configuration. Call it inside the running loop."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, daemon.stop)
    loop.add_signal_handler(signal.SIGINT, daemon.stop)
    loop.add_signal_handler(signal.SIGHUP, daemon.reload)
