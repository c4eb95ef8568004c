"""Every engine of the table: what its metrics show while it is busy, reads a prompt, hangs, or is not asked at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.diagnosis_cases import SINCE, scene
from watchdog.checks.generation_report import ProbeOutcome, generation_observation
from watchdog.completion.verdict import unanswered
from watchdog.config import ServerSettings
from watchdog.diagnosis import diagnose
from watchdog.engines.metrics import read_metrics
from watchdog.engines.movement import Movement, compare
from watchdog.engines.table import ENGINES
from watchdog.model import Confidence, Severity
from watchdog.reasons import ServerReason

WINDOWS = Path(__file__).parents[1] / "fixtures/engine_windows"
KINDS = ("busy", "prefill", "hung", "gateway_hung")
FILES = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(WINDOWS.glob("*.yaml"))}
EACH = [(name, kind) for name, windows in FILES.items() for kind in windows if kind != "engine"]


def test_every_engine_has_a_window_of_each_kind_and_says_where_it_is_from() -> None:
    assert {windows["engine"] for windows in FILES.values()} == {engine.name for engine in ENGINES}
    for windows in FILES.values():
        assert set(KINDS) <= set(windows)
        assert all(windows[kind]["source"].startswith(("recorded", "derived")) for kind in KINDS)


def _outcome(window: dict[str, Any], still: int) -> ProbeOutcome:
    before, after = (read_metrics(window[name].encode()) for name in ("before", "after"))
    judged = unanswered(ServerReason.NO_REPLY, "", 60.0)
    return ProbeOutcome(
        judgement=judged, attempts=(judged,), resent=0, model="m", change=compare(before, after), before=before,
        after=after, trouble="", window_s=55.0, duration_s=60.0, timeout_s=60.0, at=SINCE,
        still_windows=still,
    )  # fmt: skip


EXPECTED = {
    # what the counters did: is it a page, and is the engine called hung, the front end blamed, or neither
    Movement.BUSY: (Severity.WARN, {"busy", "prefilling"}),
    Movement.FROZEN: (Severity.PAGE, {"frozen", "frozen_or_prefill"}),
    Movement.LOST: (Severity.PAGE, {"lost", "front_end"}),
    Movement.UNKNOWN: (Severity.PAGE, {"alive_no_token"}),
}


@pytest.mark.parametrize(("engine", "kind"), EACH)
def test_a_window_of_an_engine_is_judged_by_what_that_engine_shows(engine: str, kind: str) -> None:
    window = FILES[engine][kind]
    outcome = _outcome(window, still=3)
    assert outcome.before is not None
    assert outcome.before.engine == FILES[engine]["engine"]
    assert outcome.change.movement.value == window["movement"]
    assert outcome.change.prefill_hidden is window.get("prefill_hidden", False)
    severity, names = EXPECTED[outcome.change.movement]
    seen = generation_observation(ServerSettings(name="deepseek", base_url="http://192.0.2.10:8000/v1"), outcome)
    found = diagnose(scene(seen))
    assert found is not None
    assert (seen.severity, found.name in names) == (severity, True)
    assert (found.name == "front_end") is window.get("works_for_others", False)
    hidden = outcome.change.prefill_hidden or outcome.change.movement is Movement.UNKNOWN
    assert (found.confidence is Confidence.CANNOT_TELL) is hidden


@pytest.mark.parametrize("engine", FILES)
def test_an_honest_prefill_is_never_called_a_hang_and_a_hang_never_busy(engine: str) -> None:
    prefill, hung = (_outcome(FILES[engine][kind], still=3) for kind in ("prefill", "hung"))
    assert prefill.change.movement is not Movement.FROZEN or prefill.change.prefill_hidden
    assert hung.change.movement is not Movement.BUSY
