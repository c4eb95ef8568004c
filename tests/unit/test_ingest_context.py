"""What ingest makes of an observation before anything of it is stored: clean, bounded, without secrets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.alerting_path import observed
from watchdog.config import Secret
from watchdog.ingest.context import FACTS, REASONS, Strikes, sanitize
from watchdog.message.redaction import Redactor
from watchdog.model import Evidence, Nature

HIDE = Redactor([Secret("hunter2hunter2")])
CLEAN = observed(evidence=(Evidence(1.0, "probe", "no reply"),), labels={"server": "deepseek"}, advice="Look.")


def test_an_observation_with_nothing_to_hide_is_passed_on_as_it_is() -> None:
    assert sanitize(CLEAN, HIDE, CLEAN.at) is CLEAN


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ({"key": "generation/a\x1b[2Jb"}, {"key": "generation/ab"}),
        ({"reason": "no\nreply"}, {"reason": "no reply"}),
        ({"summary": "the key is hunter2hunter2"}, {"summary": "the key is [secret]"}),
        ({"advice": "try hunter2hunter2"}, {"advice": "try [secret]"}),
        ({"detail": "; hunter2hunter2"}, {"detail": "; [secret]"}),
        ({"subject": "a\nb"}, {"subject": "a b"}),
        ({"labels": {"server": "a\nb"}}, {"labels": {"server": "a b"}}),
        (
            {"evidence": (Evidence(1.0, "pr\nobe", "hunter2hunter2"),)},
            {"evidence": (Evidence(1.0, "pr obe", "[secret]"),)},
        ),
        ({"summary": "x" * 900}, {"summary": "x" * 500}),
    ],
)
def test_every_text_of_an_observation_is_cleaned_also_where_it_is_the_only_dirty_one(
    dirty: dict[str, Any], clean: dict[str, Any]
) -> None:
    assert sanitize(replace(CLEAN, **dirty), HIDE, CLEAN.at) == replace(CLEAN, **clean)


def test_of_very_much_evidence_the_beginning_and_the_newest_are_kept() -> None:
    strikes = Strikes()
    for number in range(FACTS + 4):
        strikes = strikes.and_then(observed(evidence=(Evidence(float(number), "probe", "x"),)))
    assert [fact.at for fact in strikes.evidence] == [*range(8), *range(12, 20)]


def test_reasons_are_noted_where_they_change_and_the_newest_are_kept() -> None:
    strikes = Strikes()
    for reason in ("a", "a", "b", "a"):
        strikes = strikes.and_then(observed(reason=reason))
    assert strikes.reasons == ("a", "b", "a")
    for number in range(REASONS):
        strikes = strikes.and_then(observed(reason=f"r{number}"))
    assert strikes.reasons == tuple(f"r{number}" for number in range(REASONS))


def test_a_condition_without_evidence_is_its_own_and_an_occurrence_has_none() -> None:
    plain = observed(evidence=(), summary="no reply", subject="", detail="")
    (fact,) = Strikes().and_then(plain).evidence
    assert (fact.at, fact.source, fact.text) == (plain.at, plain.reason, "no reply")
    assert Strikes().and_then(replace(plain, nature=Nature.OCCURRENCE)).evidence == ()
