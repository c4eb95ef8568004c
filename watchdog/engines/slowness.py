"""`slow/<server>`: alive, but slower than it was all week; and drafts that are accepted less often. Pure.

A clock cap, a link at half its rate or a busy neighbour stop nothing: each reply just takes three times as long, and
no other check fails. A server is measured against itself, and only while nothing else runs on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import NamedTuple, Self

from watchdog.engines.metrics import EngineSample
from watchdog.model import Json

FACTOR = 3.0
"""So many times slower than usual is told."""
RECENT = 5
"""Quiet probes whose median is compared. Three slow ones make it slow, three such medians a warning: five probes."""
LEAST_DELAY_S = 0.25
"""A first token that comes later by less than that is nobody's trouble, whatever the factor."""
BUCKET_S = 6 * 3600.0
WEEK = 28
"""Buckets of six hours: seven days."""
ENOUGH = 4
"""A day of buckets, before anything is usual."""
SAMPLES = 12
"""Probes kept of a bucket: one in half an hour."""
FEWER = 0.5
"""Accepted drafts below this part of what is usual are told."""
ENOUGH_DRAFTS = 500.0


class Speed(NamedTuple):
    """Of one probe, or the median of several. None = not measured."""

    ttft_s: float | None
    tokens_per_s: float | None


class Bucket(NamedTuple):
    """Six hours: its begin (Unix seconds), the medians, and the part of the drafted tokens that was accepted."""

    began: float
    speed: Speed
    acceptance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """How many times slower than usual (`factor`), by which `measure`; the part of the drafts accepted, if known."""

    measure: str = ""
    factor: float = 1.0
    now_value: float = 0.0
    usual_value: float = 0.0
    acceptance: float | None = None
    usual_acceptance: float | None = None
    is_quiet: bool | None = None
    """Whether nothing else ran or waited there. None = not known."""

    @property
    def is_slow(self) -> bool:
        return self.is_quiet is True and self.factor >= FACTOR

    @property
    def accepts_fewer(self) -> bool:
        if self.acceptance is None or self.usual_acceptance is None:
            return False
        return self.acceptance < FEWER * self.usual_acceptance


@dataclass(slots=True)
class Pace:
    """What a server usually takes, from its own last seven days. `recent` are its newest quiet probes.

    `drafts` and `counted` are drafted and accepted tokens: in this bucket, and in the window that ends next; `last` is
    where the engine's counters stood.
    """

    model: str = ""
    began: float = 0.0
    kept_at: float = 0.0
    samples: list[Speed] = field(default_factory=list)
    week: list[Bucket] = field(default_factory=list)
    recent: list[Speed] = field(default_factory=list)
    drafts: tuple[float, float] = (0.0, 0.0)
    counted: tuple[float, float] = (0.0, 0.0)
    acceptance: float | None = None
    last: tuple[float, float] | None = None

    @classmethod
    def from_json(cls, value: Json, model: str) -> Self:
        """What `to_json` gave for `model`; anything else, and another model, starts empty."""
        if not isinstance(value, dict) or value.get("model") != model:
            return cls(model=model)
        try:
            return cls(
                model=model,
                began=float(value["began"]),
                kept_at=float(value["kept_at"]),
                samples=[_speed(one) for one in value["samples"]][-SAMPLES:],
                week=[Bucket(float(b), _speed((t, r)), _number(a)) for b, t, r, a in value["week"]][-WEEK:],
                recent=[_speed(one) for one in value["recent"]][-RECENT:],
                drafts=_pair(value["drafts"]),
                counted=_pair(value["counted"]),
                acceptance=_number(value["acceptance"]),
                last=None if value["last"] is None else _pair(value["last"]),
            )
        except (KeyError, TypeError, ValueError):
            return cls(model=model)

    def to_json(self) -> Json:
        return {
            "model": self.model,
            "began": self.began,
            "kept_at": self.kept_at,
            "samples": [list(one) for one in self.samples],
            "week": [[one.began, *one.speed, one.acceptance] for one in self.week],
            "recent": [list(one) for one in self.recent],
            "drafts": list(self.drafts),
            "counted": list(self.counted),
            "acceptance": self.acceptance,
            "last": None if self.last is None else list(self.last),
        }

    def learn(self, at: float, speed: Speed, sample: EngineSample | None) -> Slowness:
        """Take the speed of a passing probe at `at` (Unix seconds), and say how it compares.

        `sample` is what the engine's metrics said just before it.
        """
        speed = Speed(_rounded(speed.ttft_s), _rounded(speed.tokens_per_s))
        self._close_bucket(at)
        quiet = is_quiet(sample)
        usual = self._usual()
        if quiet is not False:
            self.recent = [*self.recent, speed][-RECENT:]
            if at - self.kept_at >= BUCKET_S / SAMPLES or at < self.kept_at:
                self.kept_at, self.samples = at, [*self.samples, speed][-SAMPLES:]
        self._count_drafts(sample)
        compared = speed if quiet is False else self._newest()
        accepted = [one.acceptance for one in self.week if one.acceptance is not None]
        return replace(
            _compared(compared, usual),
            is_quiet=quiet,
            acceptance=self.acceptance,
            usual_acceptance=median(accepted) if len(accepted) >= ENOUGH else None,
        )

    def _newest(self) -> Speed:
        return _median(self.recent) if len(self.recent) == RECENT else Speed(None, None)

    def _usual(self) -> Speed:
        return _median([one.speed for one in self.week]) if len(self.week) >= ENOUGH else Speed(None, None)

    def _close_bucket(self, at: float) -> None:
        if self.began <= at < self.began + BUCKET_S:
            return
        if self.samples:
            drafted, accepted = self.drafts
            acceptance = _rounded(accepted / drafted) if drafted >= ENOUGH_DRAFTS else None
            self.week.append(Bucket(self.began, _median(self.samples), acceptance))
        self.week = [one for one in self.week if at - (WEEK + 1) * BUCKET_S < one.began <= at][-WEEK:]
        self.began, self.samples, self.drafts = at, [], (0.0, 0.0)

    def _count_drafts(self, sample: EngineSample | None) -> None:
        if sample is None or sample.drafted is None or sample.accepted is None:
            return
        now, before = (sample.drafted, sample.accepted), self.last
        self.last = now
        if before is None or now[0] < before[0] or now[1] < before[1]:
            return  # the engine was restarted
        more = (now[0] - before[0], now[1] - before[1])
        self.drafts = (self.drafts[0] + more[0], self.drafts[1] + more[1])
        self.counted = (self.counted[0] + more[0], self.counted[1] + more[1])
        if self.counted[0] >= ENOUGH_DRAFTS:
            self.acceptance, self.counted = _rounded(self.counted[1] / self.counted[0]), (0.0, 0.0)


def is_quiet(sample: EngineSample | None) -> bool | None:
    """Whether nothing ran or waited in the engine; None where it does not say."""
    if sample is None or sample.running is None:
        return None
    return not sample.running and not sample.waiting


def _compared(now: Speed, usual: Speed) -> Slowness:
    """By the worse of the two measures."""
    factors = {}
    if now.ttft_s and usual.ttft_s and now.ttft_s - usual.ttft_s >= LEAST_DELAY_S:
        factors["ttft_s"] = now.ttft_s / usual.ttft_s
    if now.tokens_per_s and usual.tokens_per_s:
        factors["tokens_per_s"] = usual.tokens_per_s / now.tokens_per_s
    if not factors:
        return Slowness()
    measure = max(factors, key=lambda name: factors[name])
    return Slowness(
        measure=measure,
        factor=factors[measure],
        now_value=getattr(now, measure),
        usual_value=getattr(usual, measure),
    )


def _median(speeds: Iterable[Speed]) -> Speed:
    known = list(speeds)
    first = [one.ttft_s for one in known if one.ttft_s]
    rates = [one.tokens_per_s for one in known if one.tokens_per_s]
    return Speed(_rounded(median(first)) if first else None, _rounded(median(rates)) if rates else None)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _number(value: Json) -> float | None:
    if value is not None and not math.isfinite(value):
        raise ValueError("a speed is finite")
    return None if value is None else float(value)


def _speed(value: Json) -> Speed:
    ttft_s, tokens_per_s = value
    return Speed(_number(ttft_s), _number(tokens_per_s))


def _pair(value: Json) -> tuple[float, float]:
    first, second = value
    return float(first), float(second)
