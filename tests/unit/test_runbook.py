"""The runbook misses no reason, no kernel kind, no diagnosis, and nothing the watchdog says about itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import generate_runbook as generator
from watchdog.config import RulesSettings
from watchdog.diagnosis import HOST_SIGNATURES, SERVER_SIGNATURES
from watchdog.diagnosis.facts import Fact
from watchdog.kinds import OWN_TOPICS
from watchdog.model import Verdict
from watchdog.reasons import HostReason, ProgressReason, QualityReason, ServerReason
from watchdog.rulebook import load_rules
from watchdog.vitals.reading import GpuTool

ROOT = Path(__file__).parents[2]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
AGAIN = "run `python docs/generate_runbook.py`"
NO_INCIDENT = {"self/plan", "self/next", "self/maintenance", "self/instance", "self/receivers", "self/thinned"}
"""Places in the store, no alerts."""


def test_the_runbook_is_what_its_tables_give() -> None:
    assert generator.runbook() == RUNBOOK, AGAIN


def test_the_hand_written_part_names_every_answer_of_nvidia_smi() -> None:
    assert set(generator.GPU_TOOL) == set(GpuTool)


@pytest.mark.parametrize("reason", [*ServerReason, *ProgressReason, *QualityReason, *HostReason], ids=str)
def test_every_row_says_what_it_means_and_where_to_look(reason: ServerReason | ProgressReason | HostReason) -> None:
    row = reason.row
    assert row.runbook
    if row.verdict is Verdict.FAIL:
        assert row.advice or row.look_at
    if row.fact:
        assert Fact(row.fact)


@pytest.mark.parametrize("reason", [*ServerReason, *HostReason], ids=str)
def test_every_reason_stands_in_the_runbook(reason: ServerReason | HostReason) -> None:
    assert f"| `{reason.value}` |" in RUNBOOK, AGAIN


def test_every_kernel_kind_that_can_speak_stands_in_the_runbook() -> None:
    kinds = {rule.kind for rule in load_rules(RulesSettings()) if rule.severity is not None and not rule.detail}
    assert {kind for kind in kinds if f"### `{kind}` (" not in RUNBOOK} == set(), AGAIN


def test_every_diagnosis_stands_in_the_runbook() -> None:
    names = {signature.name for signature in (*SERVER_SIGNATURES, *HOST_SIGNATURES)}
    assert {name for name in names if f"| `{name}` |" not in RUNBOOK} == set(), AGAIN


def test_everything_the_watchdog_says_about_itself_stands_in_the_runbook() -> None:
    assert {topic.key("…") for topic in OWN_TOPICS if f"| `{topic.key('…')}` |" not in RUNBOOK} == set(), AGAIN


def test_no_code_writes_a_key_of_the_watchdog_itself_by_hand() -> None:
    said: set[str] = set()
    for path in sorted((ROOT / "watchdog").rglob("*.py")):
        said |= {found.rstrip("/") for found in re.findall(r'f?"(self/[a-z]+/?)', path.read_text(encoding="utf-8"))}
    assert said == NO_INCIDENT


def test_every_row_is_in_the_tree_as_it_is_in_the_table() -> None:
    written = [reason.row.runbook for reason in (*ServerReason, *HostReason)]
    written += [reason.row.look_at for reason in HostReason]
    assert [text for text in written if " ".join(text.split()).replace("|", "\\|") not in RUNBOOK] == [], AGAIN
