"""What is stored: today's code reads what an older version wrote, and everything survives the way there and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.json_values import from_json, to_json
from watchdog.model import (
    Cause,
    Confidence,
    Diagnosis,
    Evidence,
    Incident,
    IncidentStatus,
    Maintenance,
    Nature,
    Notified,
    Phase,
    Severity,
    StepReason,
    TrackState,
)
from watchdog.store import MAINTENANCE, Reader
from watchdog.store.codec import dump, incident_from_text, incident_to_text, track_from_text, track_to_text
from watchdog.store.schema import migrate

OLD = Path(__file__).parents[1] / "fixtures" / "state" / "before_the_codec.sql"
"""A database written while each type still had a JSON codec of its own."""


@pytest.fixture
def old() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(OLD.read_text())
    migrate(connection)
    yield connection
    connection.close()


def test_a_command_reads_a_database_of_an_older_version_before_the_daemon_has_brought_it_up_to_date(
    tmp_path: Path,
) -> None:
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as older:
        older.executescript(OLD.read_text())
        version = older.execute("PRAGMA user_version").fetchone()
    with Reader.open(tmp_path) as reader:
        (incident,) = reader.snapshot(1_795_005_000.0).open_incidents
        assert incident.id == "6f39ywk2"
    with closing(sqlite3.connect(tmp_path / "state.db")) as still:
        assert still.execute("PRAGMA user_version").fetchone() == version


def test_an_older_database_loads_with_every_field_of_its_open_incident(old: sqlite3.Connection) -> None:
    (incident,) = Reader(old).snapshot(1_795_005_000.0).open_incidents
    times = (1795000300.0, 1795000420.0, 1795000540.0, 1795000660.0)
    probes = tuple(Evidence(at, "probe", "no text within 60 s") for at in times)
    phone = Notified(Severity.PAGE, 1795000540.0, 0, 3)
    assert incident == Incident(
        id="6f39ywk2",
        key="generation/deepseek",
        nature=Nature.CONDITION,
        cause=Cause.STRIKES,
        severity=Severity.PAGE,
        opened_severity=Severity.PAGE,
        reason="no_token",
        subject="deepseek",
        summary="no text within 60 s",
        since=1795000300.0,
        opened_at=1795000540.0,
        last_at=1795000660.0,
        last_good_at=1795000000.0,
        count=4,
        evidence=(probes[0], Evidence(None, "GET /v1/models", "200"), *probes[1:]),
        advice="See whether the model still loads.",
        labels={"server": "deepseek"},
        notified={"phone": phone, "mail": phone},
        diagnosis=Diagnosis(
            name="link_failing",
            confidence=Confidence.LIKELY,
            short="worker: PCIe or NIC fails",
            sentence="the PCIe link or the network card fails: worker: pcie.aer.fatal on 0000:01:00.0 5 min before"
            " the first miss",
            evidence=(
                Evidence(1795000000.0, "kernel", "pcieport 0000:01:00.0: AER: Uncorrectable (Fatal) error"),
                Evidence(1795000300.0, "worker vitals", "62 GiB free"),
                Evidence(1795000780.0, "head vitals", "text in 0.8 s"),
            ),
            look_at="the kernel log of worker (journalctl -k), also of the boot before",
        ),
        reasons=("no_token",),
    )


def test_an_older_database_loads_with_its_states_silences_and_what_else_people_asked_for(
    old: sqlite3.Connection,
) -> None:
    now = Reader(old).snapshot(1_795_005_000.0)
    states = {view.key: view.state for view in now.keys}
    assert states["generation/deepseek"] == TrackState(
        phase=Phase.FIRING,
        fails=4,
        count=4,
        recent=(True, False, False, False, False),
        since=1795000300.0,
        last_at=1795000660.0,
        last_good_at=1795000000.0,
        severity=Severity.PAGE,
    )
    assert (states["kernel_log/worker"].phase, states["kernel_log/worker"].fails) == (Phase.PENDING, 1)
    assert states["vitals/head"].unknowns == 1
    assert [(one.matcher, one.reason) for one in now.silences] == [({"host": "worker", "kind": "pcie.*"}, "new cable")]
    assert now.acknowledged["6f39ywk2"].author == "kim"
    assert {one.name: one.waiting for one in now.receivers} == {"phone": 0, "mail": 0}
    ended = [(one.id, one.status, one.end_reason) for one in Reader(old).incidents(0, 2e9) if one.closed_at]
    assert ended == [
        ("6f39hrwg", IncidentStatus.RESOLVED, StepReason.RECOVERED),
        ("6f39qcgk", IncidentStatus.EXPIRED, StepReason.WENT_QUIET),
    ]


def test_an_older_database_loads_with_its_maintenance_windows(old: sqlite3.Connection) -> None:
    weekly, once = (from_json(Maintenance, window) for window in Reader(old).memory(MAINTENANCE) or ())
    assert weekly == Maintenance(
        name="weekly",
        matcher={"server": "deepseek"},
        days=(5, 6),
        start=(2, 30),
        duration_s=3600.0,
        zone=ZoneInfo("Europe/Berlin"),
    )
    assert (once.name, once.once, str(once.zone)) == ("switch", (1795338000.0, 1795339800.0), str(UTC))


def test_what_is_stored_today_has_the_form_of_what_was_stored_before(old: sqlite3.Connection) -> None:
    """So an older version also reads what this one wrote."""
    bodies = [row[0] for row in old.execute("SELECT body FROM incidents")]
    states = [row[0] for row in old.execute("SELECT state FROM tracks")]
    assert len(bodies) == 3
    assert len(states) == 5
    assert [incident_to_text(incident_from_text(body)) for body in bodies] == bodies
    assert [json.loads(track_to_text(track_from_text(state))) for state in states] == [
        json.loads(one) for one in states
    ]
    (windows,) = old.execute("SELECT value FROM memory WHERE check_key = ?", (MAINTENANCE,)).fetchone()
    assert dump([to_json(from_json(Maintenance, window)) for window in json.loads(windows)]) == windows


at = st.floats(0, 4e9)
text = st.text(max_size=6)
evidence = st.lists(st.builds(Evidence, st.none() | at, text, text), max_size=3).map(tuple)
diagnoses = st.builds(
    Diagnosis,
    name=text,
    confidence=st.sampled_from(Confidence),
    short=text,
    sentence=text,
    evidence=evidence,
    look_at=text,
)
incidents = st.builds(
    Incident,
    id=text,
    key=text,
    nature=st.sampled_from(Nature),
    cause=st.sampled_from(Cause),
    severity=st.sampled_from(Severity),
    opened_severity=st.sampled_from(Severity),
    reason=text,
    summary=text,
    since=at,
    opened_at=at,
    last_at=at,
    status=st.sampled_from(IncidentStatus),
    closed_at=st.none() | at,
    end_reason=st.none() | st.sampled_from(StepReason),
    last_good_at=st.none() | at,
    count=st.integers(0),
    evidence=evidence,
    advice=text,
    labels=st.dictionaries(text, text, max_size=3),
    notified=st.dictionaries(text, st.builds(Notified, st.sampled_from(Severity), at, st.integers(0), st.integers(0))),
    acknowledged_at=st.none() | at,
    diagnosis=st.none() | diagnoses,
    diagnosis_told=st.none() | diagnoses,
    reasons=st.lists(text, max_size=3).map(tuple),
)
states = st.builds(
    TrackState,
    nature=st.sampled_from(Nature),
    phase=st.sampled_from(Phase),
    fails=st.integers(0),
    passes=st.integers(0),
    unknowns=st.integers(0),
    recent=st.lists(st.booleans()).map(tuple),
    since=st.none() | at,
    last_at=st.none() | at,
    last_good_at=st.none() | at,
    count=st.integers(0),
    severity=st.sampled_from(Severity),
    cause=st.sampled_from(Cause),
)


@given(incidents)
def test_every_incident_comes_back_as_it_was_stored(incident: Incident) -> None:
    assert incident_from_text(incident_to_text(incident)) == incident


@given(states)
def test_every_tracking_state_comes_back_as_it_was_stored(state: TrackState) -> None:
    assert track_from_text(track_to_text(state)) == state


@dataclass(frozen=True, slots=True, kw_only=True)
class Newer:
    """A type of this version."""

    name: str
    moved: int = field(default=7, metadata={"json": "place"})
    rows: tuple[Evidence, ...] = ()
    pair: tuple[Severity, float] | None = None


def test_a_missing_field_takes_its_default_and_an_unknown_one_is_ignored() -> None:
    assert from_json(Newer, {"name": "a", "of_a_newer_version": [1]}) == Newer(name="a")
    assert from_json(Newer, {"name": "a", "rows": [[None, "x", "y", "more"]]}).rows == (Evidence(None, "x", "y"),)
    assert from_json(Notified, ["page", 1.0]) == Notified(Severity.PAGE, 1.0, 0, 0)


def test_a_renamed_field_keeps_the_name_it_was_stored_under() -> None:
    value = Newer(name="a", moved=3, pair=(Severity.WARN, 1.5))
    assert to_json(value) == {"name": "a", "place": 3, "rows": [], "pair": ["warn", 1.5]}
    assert from_json(Newer, to_json(value)) == value


@pytest.mark.parametrize(
    "raw", [{}, None, [], 3, "text", {"name": "a", "pair": ["loud", 1.0]}, {"name": "a", "rows": 3}], ids=repr
)
def test_what_is_no_such_thing_is_refused_by_name(raw: object) -> None:
    with pytest.raises(ValueError, match=r"Newer|Severity"):
        from_json(Newer, raw)
