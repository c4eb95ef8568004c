"""Alive, but slower than itself: `slow/<server>`."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from watchdog.engines.metrics import EngineSample, read_metrics
from watchdog.engines.slowness import Pace, Slowness, Speed

HOUR = 3600.0
QUIET = EngineSample(engine="vllm", running=0.0, waiting=0.0)
BUSY = EngineSample(engine="vllm", running=2.0, waiting=1.0)
MODEL = "m"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class _Server:
    """A server probed every two minutes, whose memory goes through JSON from probe to probe."""

    def __init__(self, sample: EngineSample | None = QUIET) -> None:
        self.at, self.sample, self.model = 1e9, sample, MODEL
        self.memory: Any = None

    def probed(self, ttft_s: float | None = 0.5, tokens_per_s: float | None = 40.0, times: int = 1) -> list[Slowness]:
        found = []
        for _ in range(times):
            self.at += 120.0
            pace = Pace.from_json(self.memory, self.model)
            found.append(pace.learn(self.at, Speed(ttft_s, tokens_per_s), self.sample))
            self.memory = json.loads(json.dumps(pace.to_json()))
        return found

    def lived(self, hours: float, ttft_s: float | None = 0.5, tokens_per_s: float | None = 40.0) -> _Server:
        self.probed(ttft_s, tokens_per_s, times=round(hours * 30))
        return self


def test_the_third_slow_probe_of_five_makes_it_slow_so_that_three_strikes_are_five_probes() -> None:
    server = _Server().lived(30)
    assert [one.is_slow for one in server.probed(ttft_s=3.0, times=5)] == [False, False, True, True, True]
    last = server.probed(ttft_s=3.0)[0]
    assert (last.measure, last.factor, last.now_value, last.usual_value) == ("ttft_s", 6.0, 3.0, 0.5)


def test_fewer_tokens_a_second_are_slow_too() -> None:
    last = _Server().lived(30).probed(tokens_per_s=10.0, times=3)[-1]
    assert (last.measure, last.factor, last.is_slow) == ("tokens_per_s", 4.0, True)


def test_two_slow_probes_of_five_say_nothing() -> None:
    server = _Server().lived(30)
    seen = [server.probed(ttft_s=ttft_s)[0].factor for ttft_s in (9.0, 0.5, 9.0, 0.5, 0.5)]
    assert max(seen) < 3


def test_nothing_is_usual_before_a_day_has_passed() -> None:
    assert not _Server().lived(20).probed(ttft_s=9.0, times=5)[-1].measure
    assert _Server().lived(25).probed(ttft_s=9.0, times=5)[-1].is_slow


def test_while_others_use_it_nothing_is_called_slow_and_nothing_is_learned() -> None:
    server = _Server().lived(30)
    known = Pace.from_json(server.memory, MODEL).recent
    server.sample = BUSY
    assert not any(one.is_slow for one in server.probed(ttft_s=9.0, times=5))
    assert Pace.from_json(server.memory, MODEL).recent == known


def test_without_metrics_it_is_compared_but_not_called_slow() -> None:
    last = _Server(sample=None).lived(30).probed(ttft_s=9.0, times=5)[-1]
    assert (last.factor, last.is_quiet, last.is_slow) == (18.0, None, False)


def test_a_quarter_of_a_second_more_is_nobodys_trouble() -> None:
    assert _Server().lived(30, ttft_s=0.02).probed(ttft_s=0.2, times=5)[-1].measure != "ttft_s"


def test_another_model_starts_anew() -> None:
    server = _Server().lived(30)
    server.model = "larger"
    assert not any(one.measure for one in server.probed(ttft_s=9.0, times=5))


def test_what_has_been_slow_for_most_of_a_week_is_usual() -> None:
    server = _Server().lived(24)
    assert server.probed(ttft_s=3.0, times=5)[-1].is_slow
    assert not server.lived(24 * 5, ttft_s=3.0).probed(ttft_s=3.0)[-1].is_slow


def test_the_memory_of_a_week_stays_small() -> None:
    server = _Server().lived(24 * 9, ttft_s=math.pi, tokens_per_s=math.e)
    assert len(json.dumps(server.memory)) < 1500


def test_half_the_usual_part_of_accepted_drafts_is_a_note() -> None:
    server = _Server()
    drafted = accepted = 0.0

    def decode(part: float, probes: int) -> Slowness:
        nonlocal drafted, accepted
        for _ in range(probes):
            drafted, accepted = drafted + 300.0, accepted + 300.0 * part
            server.sample = EngineSample(engine="vllm", running=0.0, waiting=0.0, drafted=drafted, accepted=accepted)
            found = server.probed()[0]
        return found

    assert not decode(0.7, 900).accepts_fewer
    drafted = accepted = 0.0  # a restart: nothing was drafted or accepted in between
    assert not decode(0.5, 10).accepts_fewer
    last = decode(0.2, 10)
    assert last.accepts_fewer
    assert not last.is_slow
    assert (last.acceptance, last.usual_acceptance) == (0.2, 0.7)


def test_vllm_tells_what_its_draft_model_proposed() -> None:
    sample = read_metrics(
        b"vllm:num_requests_running 0\nvllm:spec_decode_num_draft_tokens_total 900\n"
        b"vllm:spec_decode_num_accepted_tokens_total 600\n"
    )
    assert sample is not None
    assert (sample.drafted, sample.accepted) == (900.0, 600.0)


@given(value=VALUES)
def test_any_memory_is_read_or_starts_anew(value: Any) -> None:
    for memory in (value, {**Pace(model=MODEL).to_json(), "week": value, "recent": value, "model": MODEL}):
        pace = Pace.from_json(memory, MODEL)
        assert pace.learn(1e9, Speed(0.5, 40.0), QUIET).factor >= 0
        assert Pace.from_json(pace.to_json(), MODEL).to_json() == pace.to_json()


@given(times=st.lists(st.floats(0, 4e9), max_size=40), ttft_s=st.floats(0, 1e6), rate=st.floats(0, 1e6))
def test_any_clock_keeps_it_within_bounds(times: list[float], ttft_s: float, rate: float) -> None:
    pace = Pace(model=MODEL)
    for at in times:
        pace.learn(at, Speed(ttft_s, rate), QUIET)
    assert len(pace.week) <= 28
    assert len(pace.samples) <= 12
    assert len(pace.recent) <= 5
