"""Maintenance from the written configuration to the decision: both edges of daylight saving, windows that come once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.config_files import accepting
from tests.unit.test_message import incident
from watchdog.config import Config
from watchdog.json_values import from_json, to_json
from watchdog.loading import read
from watchdog.model import Maintenance, Notified, Severity
from watchdog.policy import (
    AlertPlan,
    Circumstances,
    decide,
    matches,
    next_window,
    window_at,
)


def config(window: str) -> Config:
    text = f"""
servers:
  - {{name: deepseek, base_url: http://192.0.2.10:8000/v1, hosts: [head, worker]}}
hosts:
  - {{name: head, address: 192.0.2.10, user: m, agent: true, known_hosts: {__file__}}}
  - {{name: worker, address: 192.0.2.11, user: m, agent: true, known_hosts: {__file__}}}
receivers:
  - {{name: phone, url: "json://192.0.2.1/hook"}}
maintenance:
  - {{name: w, {window}}}
"""
    return read(text.encode(), "config.yaml", check_urls=accepting).config


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def quiet(plan: AlertPlan, now: float) -> bool:
    """Whether a new incident of the server is kept quiet at `now`."""
    made = decide(incident(notified={}), None, Circumstances(plan=plan), fresh=True, now=now)
    return made.reasons["phone"].value == "maintenance"


WEEKLY = "match: {server: deepseek}, days: [sun], start: '02:30', duration: 1h, time_zone: Europe/Berlin"


@pytest.mark.parametrize(
    ("moment", "covered"),
    [
        ("2026-03-22T02:29+01:00", False),
        ("2026-03-22T02:30+01:00", True),
        ("2026-03-22T03:29+01:00", True),
        ("2026-03-22T03:30+01:00", False),
        # In spring 02:30 does not exist: the window begins when the clock has jumped over it, and lasts its hour.
        ("2026-03-29T01:29+01:00", False),
        ("2026-03-29T03:29+02:00", False),
        ("2026-03-29T03:30+02:00", True),
        ("2026-03-29T04:29+02:00", True),
        ("2026-03-29T04:30+02:00", False),
        # In autumn 02:30 comes twice: the window is the first one, for one hour of real time.
        ("2026-10-25T02:29+02:00", False),
        ("2026-10-25T02:30+02:00", True),
        ("2026-10-25T02:29+01:00", True),
        ("2026-10-25T02:30+01:00", False),
        ("2026-10-25T03:00+01:00", False),
    ],
)
def test_a_weekly_window_keeps_its_local_time_over_both_edges_of_daylight_saving(moment: str, covered: bool) -> None:
    assert quiet(AlertPlan.from_config(config(WEEKLY)), at(moment)) is covered


def test_a_window_that_comes_once_is_the_same_moment_in_every_zone() -> None:
    text = "match: {host: '*'}, begins: 2026-11-03T22:00+01:00, ends: 2026-11-04T01:30+01:00"
    plan = AlertPlan.from_config(config(text))
    assert [quiet(plan, at(f"2026-11-0{moment}+00:00")) for moment in ("3T20:59", "3T21:00", "4T00:29", "4T00:30")] == [
        False,
        True,
        True,
        False,
    ]
    (window,) = plan.maintenance
    assert next_window(window, at("2026-11-01T00:00+00:00")) == window.once
    assert next_window(window, at("2026-11-05T00:00+00:00")) is None


def test_a_hosts_window_covers_every_server_that_runs_on_it_and_no_other_host() -> None:
    plan = AlertPlan.from_config(config(WEEKLY))
    about = incident(labels={"server": "deepseek", "host": "head"})
    assert matches({"host": "worker"}, about, plan.runs_on)
    assert matches({"host": "work*"}, about, plan.runs_on)
    assert not matches({"host": "other"}, about, plan.runs_on)
    assert not matches({"host": "worker"}, incident(labels={"host": "head"}), plan.runs_on)


def test_a_reminder_that_falls_into_a_window_is_left_out_and_counts_as_given() -> None:
    """So the end of the window announces nothing that was known before it."""
    plan = AlertPlan.from_config(config(WEEKLY))
    inside = at("2026-03-22T02:45+01:00")
    notified = {"phone": Notified(Severity.PAGE, inside - 3600, 0, 3)}
    made = decide(incident(notified=notified), None, Circumstances(plan=plan), fresh=True, now=inside)
    assert made.notifications == ()
    assert made.incident.notified["phone"] == replace(notified["phone"], at=inside, reminders=1)


@given(
    st.sets(st.integers(0, 6), min_size=1),
    st.integers(0, 23),
    st.integers(0, 59),
    st.sampled_from([900.0, 3600.0, 26 * 3600.0]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.floats(1.7e9, 1.9e9),
)
def test_the_next_window_begins_later_covers_itself_and_lasts_what_was_asked(
    days: set[int], hour: int, minute: int, duration_s: float, zone: str, now: float
) -> None:
    window = Maintenance(
        name="w",
        matcher={"host": "*"},
        days=tuple(sorted(days)),
        start=(hour, minute),
        duration_s=duration_s,
        zone=ZoneInfo(zone),
    )
    following = next_window(window, now)
    assert following is not None
    begins, ends = following
    assert now < begins <= now + 8 * 86400
    assert abs((ends - begins) - duration_s) < 1e-3
    assert window_at(window, begins) is not None
    assert from_json(Maintenance, to_json(window)) == window


def test_a_window_that_comes_once_survives_json() -> None:
    window = Maintenance(name="w", matcher={"host": "*"}, once=(1.0, 2.0))
    stored = to_json(window)
    assert stored["time_zone"] == "UTC"
    assert replace(from_json(Maintenance, stored), zone=UTC) == window


def test_the_address_of_the_heartbeat_is_a_secret() -> None:
    text = WEEKLY + "}\nheartbeat: {url: https://hc.example.org/0123456789abcdef, method: POST"
    found = config(text)
    assert found.heartbeat is not None
    assert found.heartbeat.url in found.secrets
    assert "0123456789" not in repr(found)
