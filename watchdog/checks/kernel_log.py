"""The check `kernel_log/<host>`: reads a host's kernel log to its end, and proves it (design §5.2)."""

from __future__ import annotations

from watchdog.checks import reader_client as requests
from watchdog.checks.host_log import HostLog, Stream, reading_condition, stream_condition
from watchdog.checks.kernel_pages import Found, read_pages, read_ring
from watchdog.checks.kernel_stream import Commit, follow
from watchdog.clock import Clock
from watchdog.config import Config, HostSettings
from watchdog.journal.frame import Hello
from watchdog.kernlog.matcher import Matcher
from watchdog.kinds import GENERATION, KERNEL_LOG
from watchdog.model import CheckResult, Json, Observation
from watchdog.reasons import HostReason
from watchdog.rulebook import load_rules
from watchdog.ssh import HostError, Session, reading

OVERALL_SHARE = 0.8
"""A scan with page after page to read may take this share of its interval; then it says that it is behind."""
SECOND_LOOK_S = 1.0
"""journald under load may write the record of our login so much later; a restart of it takes no longer."""
STREAM_GRACE_S = 2.0
"""What a scan finds must come over the live stream within this time."""


def build(config: Config, clock: Clock, chat: object) -> list[KernelLogCheck]:  # noqa: ARG001 - as every kind
    """One check for each host of `config`, all on one matcher."""
    by_name = {host.name: host for host in config.hosts}
    matcher = Matcher(load_rules(config.rules))
    checks = []
    for host in config.hosts:
        watched = (one for one in config.servers if host.name in one.hosts and one.probe.is_watched)
        wakes = tuple(GENERATION.key(one.name) for one in watched)
        checks.append(KernelLogCheck(host, matcher, clock, jump=by_name.get(host.jump or ""), wakes=wakes))
    return checks


class KernelLogCheck:
    """Scans one host, and follows it live beside that. One object per host, kept for as long as it is configured."""

    def __init__(
        self,
        host: HostSettings,
        matcher: Matcher,
        clock: Clock,
        *,
        jump: HostSettings | None = None,
        wakes: tuple[str, ...] = (),
    ) -> None:
        """`jump` is the configured host that `host.jump` names, None if it is an address.

        `wakes` are the checks that run at once when a live stream that was good has ended: the servers on the host.
        """
        self._wakes = wakes
        self._host = host
        self._clock = clock
        self._jump = jump
        self._log = HostLog(host, matcher)

    @property
    def key(self) -> str:
        """`kernel_log/<host>`."""
        return KERNEL_LOG.key(self._host.name)

    @property
    def live(self) -> bool:
        """Whether the host is followed live beside its scans."""
        return self._host.kernel_log.follow

    @property
    def interval_s(self) -> float:
        """Seconds from one scan to the next."""
        return self._host.kernel_log.interval_s

    async def run(self, memory: Json | None, now: float) -> CheckResult:
        """Scan once. The first observation is the condition "could I read it all", the others are occurrences.

        `memory` is used only when this process remembers nothing yet. The result's memory must be stored together with
        its observations, and results in the order they were handed out.
        """
        self._log.recall(memory)
        started = self._clock.monotonic()
        found = Found()
        try:
            trouble = await self._scan(found)
        except HostError as error:
            trouble = error
        else:
            trouble = trouble or found.trouble
        took = self._clock.monotonic() - started
        conditions = []
        stream = self._log.stream
        if found.visible and stream.wanted and (stream.open or stream.trouble or stream.flood):
            conditions.append(await self._judge_stream(found, now))
        try:
            self._log.settle(self._clock.wall())
        except HostError as error:
            trouble = error
        readability = reading_condition(self._host, trouble, now, took, found.lines, found.how)
        known = self._log.with_last_seen(self._log.with_order(readability))
        return self._log.result(self._clock.wall(), known, *conditions)

    async def _scan(self, found: Found) -> HostError | None:
        """Read everything there is. Returns what was wrong though it was read; raises HostError if it was not."""
        limit_s = self._host.kernel_log.timeout_s
        started = self._clock.monotonic()
        until = started + max(limit_s, OVERALL_SHARE * self.interval_s)
        async with reading(self._host, limit_s, jump=self._jump) as session:
            hello = await requests.ask_hello(session)
            found.login_us = int((hello.uptime_s - (self._clock.monotonic() - started)) * 1e6)
            await read_pages(session, self._log, hello, self._clock, found, until=until)
            blind = await self._blind(session, hello, found)
            trouble = blind or await self._stale(session, hello, found, started)
            if found.how == "journal" and hello.in_memory:
                found.how = f"journal, kept in memory only{', as its disk is full' if hello.disk_is_full else ''}"
            return trouble

    async def _stale(self, session: Session, hello: Hello, found: Found, started: float) -> HostError | None:
        """Whether the journal that was read is being written at all. The live stream proves no more than it does."""
        found.stale = None
        if not hello.journalctl or found.how != "journal":
            return None
        proof, monotonic = self._log.proof, self._clock.monotonic
        if proof.is_doubtful(hello, monotonic() - started):
            await self._clock.sleep(SECOND_LOOK_S)
            session.proceed()
            hello = await requests.ask_hello(session)
            found.stale = proof.judge(hello, monotonic() - started, self._clock.wall())
        else:
            proof.judge(hello, monotonic() - started, self._clock.wall())
        return found.stale

    async def _blind(self, session: Session, hello: Hello, found: Found) -> HostError | None:
        """Nothing visible of the running boot is blindness: say which, or read the ring buffer instead."""
        if hello.journalctl and (hello.unreadable or not (found.visible or hello.may_read_journal)):
            return requests.no_permission_error(self._host.user)
        if found.visible and found.kernel_visible:
            return None
        try:
            await read_ring(session, self._log, hello, self._clock, found)
        except HostError as error:
            if error.reason not in {HostReason.NO_PERMISSION, HostReason.COMMAND_FAILED}:
                raise
            return _nothing_visible_error(hello, error)
        return None

    async def _judge_stream(self, found: Found, now: float) -> Observation:
        """Whether the live stream brought what this scan found; it gets a moment to catch up."""
        stream = self._log.stream
        if stream.open and (found.last_us > stream.last_us or (stream.brings_logins and not _brought(stream, found))):
            await self._clock.sleep(STREAM_GRACE_S)
        trouble, missing = stream.flood or stream.trouble or found.stale, ""
        if stream.open and (found.skipped or found.last_us > stream.last_us):
            missing = f"the scan found {found.lines} lines that it did not deliver"
        elif stream.open and stream.brings_logins and not _brought(stream, found):
            missing = "it did not deliver the record of this scan's own login"
        stream.brings_logins = stream.open and _brought(stream, found)
        stream.flood = None  # told once a scan; meanwhile the stream may have begun anew
        if missing and trouble is None:
            trouble = HostError(
                HostReason.SILENT_STREAM,
                f"the stream is open, but {missing}",
                "It is being reopened. If this happens again, restart systemd-journald there.",
            )
        if missing:
            stream.restart.set()
        return stream_condition(self._host, trouble, now)

    async def follow(self, commit: Commit, memory: Json | None) -> None:
        """Keep one live stream for ever: every line is classified as it comes, and `commit` gets what came of it.

        Ends only by cancellation or by an exception of `commit`; what that could not store waits for the next result.
        """
        self._log.recall(memory)
        self._log.stream.wanted = True
        try:
            await follow(self._host, self._jump, self._log, self._clock, commit, (self.key, *self._wakes))
        finally:
            self._log.stream.wanted = self._log.stream.open = False


def _brought(stream: Stream, found: Found) -> bool:
    """Whether the stream brought the record of this scan's login."""
    return 0 <= found.login_us <= stream.login_us


def _nothing_visible_error(hello: Hello, ring: HostError) -> HostError:
    if not hello.journalctl or not hello.boots:
        return HostError(
            HostReason.NO_JOURNAL,
            f"the host keeps no journal, and {ring.summary}",
            "Set `Storage=persistent` in its journald.conf, or let this user read /dev/kmsg.",
        )
    return HostError(
        HostReason.EMPTY_BOOT,
        "the journal shows no kernel line of the running boot",
        "Does `journalctl -k` show lines to this user? See `ReadKMsg=` and `Storage=` in journald.conf, and the disk.",
    )
