"""`vitals/<host>`: memory, memory pressure and GPUs of a host, for the evidence of other incidents (design §5.3).

A connection of its own, so that a driver that hangs delays no scan; runs early when a probe of a server on the host has
failed. What cannot be read is unknown and no alert: `kernel_log/<host>` reports a host that cannot be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from watchdog.checks.reader_client import VitalsAnswer, ask_ranks, ask_vitals
from watchdog.clock import Clock
from watchdog.config import Config, HostSettings
from watchdog.engines.ranks import LASTING_S, RankHistory, RankTrouble
from watchdog.kinds import OF_SERVERS, VITALS
from watchdog.model import Check, CheckResult, Evidence, Json, Observation, Severity, Verdict
from watchdog.reasons import UNANSWERED, HostReason
from watchdog.ssh import HostError, Session, reading
from watchdog.text import gib
from watchdog.vitals import UNIFIED_FLOOR, VitalsMemory, judge_gpus, measurements_of, merge_samples, summary

SAMPLES = 3
BETWEEN_S = 2.0
"""A busy GPU is looked at three times within seconds: one sample may mislead."""
TROUBLED_S = 900.0
"""So long after a failed probe nothing is learned: a hang must not become what is usual."""
FRESH_S = 15.0
"""A look that began after a probe did serves for its failure, unless it is older than this."""
NEVER_WITHIN_S = 1.0
"""However many probes fail at once."""

_LOW_MEMORY = "See what takes the memory (`ps`, `free`); where GPU and CPU share it, the GPU takes from the same."


def build(config: Config, clock: Clock, chat: object) -> list[VitalsCheck]:  # noqa: ARG001 - as every kind
    """One check for each host of `config`."""
    by_name = {host.name: host for host in config.hosts}
    names = {host.address: host.name for host in config.hosts}
    return [VitalsCheck(host, clock, jump=by_name.get(host.jump or ""), names=names) for host in config.hosts]


def vitals_to_run_now(
    observation: Observation, runs_on: Mapping[str, Iterable[str]], running: Callable[[str], Check | None]
) -> list[str]:
    """Keys of the vitals checks that should run now because `observation` is a failed probe; tells them so.

    `runs_on` maps servers to their hosts; `running` gives the running check of a key.
    """
    if observation.verdict is not Verdict.FAIL or not any(kind.has(observation.key) for kind in OF_SERVERS):
        return []
    found = []
    for host in runs_on.get(observation.labels.get("server", ""), ()):
        check = running(VITALS.key(host))
        unanswered = observation.reason in UNANSWERED
        if isinstance(check, VitalsCheck) and check.note_failed_probe(observation.at, unanswered=unanswered):
            found.append(check.key)
    return found


class VitalsCheck:
    """Takes the vitals of one host. One object per host, kept for as long as it is configured."""

    def __init__(
        self,
        host: HostSettings,
        clock: Clock,
        *,
        jump: HostSettings | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """`jump` is the configured host that `host.jump` names, None if it is an address.

        `names` are the names of the configured hosts by their addresses.
        """
        self._host = host
        self._clock = clock
        self._jump = jump
        self._troubled_at = self._taken_at = self._seen_at = float("-inf")
        self._ranks = _RankQuestion(host.name, clock, names or {})

    @property
    def key(self) -> str:
        """`vitals/<host>`."""
        return VITALS.key(self._host.name)

    @property
    def interval_s(self) -> float:
        """Seconds from one look to the next."""
        return self._host.vitals.interval_s

    def note_failed_probe(self, failed_at: float, *, unanswered: bool = False) -> bool:
        """Note that a probe of a server on this host failed; whether the host is to be looked at now for that.

        `failed_at` is when the probe began, in Unix seconds: a look that began later, just now, is good enough. Where
        it went `unanswered`, NCCL is asked about its ranks as well, and once more 10 s later.
        """
        self._troubled_at = self._clock.monotonic()
        age_s = self._troubled_at - self._taken_at
        asks = unanswered and not self._ranks.is_fresh
        looks = age_s >= NEVER_WITHIN_S and (self._seen_at < failed_at or age_s >= FRESH_S or asks)
        if looks and asks:
            self._ranks.due = 2
        return looks

    async def run(self, memory: Json | None, now: float) -> CheckResult:
        """Look once. Pass, fail for less memory than configured, or unknown when nothing could be read."""
        self._seen_at, self._taken_at = now, self._clock.monotonic()
        started = self._taken_at
        remembered = VitalsMemory(memory)
        looks: list[VitalsAnswer] = []
        try:
            async with reading(self._host, self._host.vitals.timeout_s, jump=self._jump) as session:
                await self._look(session, looks)
        except HostError as error:
            self._ranks.due = 0
            if not looks:  # else the samples that did come are good
                return CheckResult((self._unread(error, now, self._clock.monotonic() - started),))
        vitals = merge_samples([one.vitals for one in looks])
        gpus = judge_gpus(vitals.gpus, remembered.power.bounds)
        if started - self._troubled_at > TROUBLED_S:
            remembered.power.learn(vitals.gpus)
        available = vitals.memory_available
        drop = None if available is None else remembered.drop(available, now)
        numbers = measurements_of(vitals, gpus, clock_offset_s=looks[0].clock_offset_s, drop=drop)
        numbers |= self._ranks.measurements
        least = self._host.vitals.memory_available_min or (UNIFIED_FLOOR if vitals.shares_memory else None)
        seen = self._observation(summary(vitals, gpus), available, least, numbers, now)
        return CheckResult((seen,), remembered.to_json(), forgettable=True, again_in_s=self._ranks.again_in_s)

    async def _look(self, session: Session, looks: list[VitalsAnswer]) -> None:
        if self._ranks.due == 1:  # it is what this run is for
            await self._ranks.ask(session)
        while True:
            looks.append(await ask_vitals(session, self._clock))
            if self._ranks.due == 2:
                await self._ranks.ask(session)
            vitals = looks[-1].vitals
            if not any(gpu.is_full for gpu in vitals.gpus) or vitals.gpu_tool.wedged or len(looks) >= SAMPLES:
                return
            await self._clock.sleep(BETWEEN_S)

    def _observation(
        self, said: str, available: float | None, least: float | None, numbers: Mapping[str, float], now: float
    ) -> Observation:
        low = least is not None and available is not None and available < least
        details = [f"less than the {gib(least or 0)} wanted"] if low else []
        details += [f"NCCL: {fact.text}" for fact in self._ranks.evidence]
        return Observation(
            key=self.key,
            verdict=Verdict.FAIL if low else Verdict.PASS,
            reason=HostReason.LOW_MEMORY if low else HostReason.OK,
            severity=Severity.WARN,
            summary=said,
            subject=self._host.name,
            detail="".join(f"; {one}" for one in details),
            at=now,
            duration_s=max(0.0, self._clock.monotonic() - self._taken_at),
            evidence=self._ranks.evidence,
            labels={"host": self._host.name},
            measurements=dict(numbers),
            advice=_LOW_MEMORY if low else "",
            look_only=low,
        )

    def _unread(self, error: HostError, now: float, duration_s: float) -> Observation:
        return Observation(
            key=self.key,
            verdict=Verdict.UNKNOWN,
            reason=error.reason.value,
            severity=Severity.INFO,
            summary=error.summary,
            subject=self._host.name,
            detail="; no vitals",
            at=now,
            duration_s=duration_s,
            evidence=(Evidence(now, self._host.name, error.summary),),
            labels={"host": self._host.name},
            advice=error.advice,
            look_only=error.look_only,
            answered=error.logged_in,
        )


class _RankQuestion:
    """What NCCL on one host says of its ranks: asked twice for one failure, and never while all is well."""

    def __init__(self, host: str, clock: Clock, names: Mapping[str, str]) -> None:
        self.due = 0
        """How many more times it is to be asked."""
        self._host = host
        self._clock = clock
        self._names = names
        self._history = RankHistory()
        self._answered_at = float("-inf")
        self._told_at = 0.0
        self._trouble: RankTrouble | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether it was asked just now."""
        return self._clock.monotonic() - self._answered_at < FRESH_S

    @property
    def again_in_s(self) -> float | None:
        """In how many seconds it is to be asked for the second time; None: it is not."""
        return max(0.0, self._answered_at + LASTING_S - self._clock.monotonic()) if self.due == 1 else None

    async def ask(self, session: Session) -> None:
        """Ask once more, unless the time for that has not come."""
        if self.due == 1 and self.again_in_s:
            return
        asked_at, self._told_at = self._clock.monotonic(), self._clock.wall()
        told = await ask_ranks(session)
        self._answered_at = self._clock.monotonic()
        self._trouble = self._history.look(told, asked_at, self._answered_at)
        self.due = self.due - 1 if told.is_there else 0

    @property
    def measurements(self) -> dict[str, float]:
        """What it showed just now, as measurements of the observation."""
        return self._trouble.measurements() if self._trouble is not None and self.is_fresh else {}

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The same as a line of evidence, with its time."""
        if self._trouble is None or not self.is_fresh:
            return ()
        words = self._trouble.words(self._host, lambda address: self._names.get(address, ""))
        return (Evidence(self._told_at, f"{self._host} NCCL", words),)
