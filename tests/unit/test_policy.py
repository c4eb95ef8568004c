"""Who hears what, when, and under which named reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.alerting_path import KEY, configuration, observed, receiver
from tests.unit.test_message import incident
from watchdog.config import Config, EscalateSettings, HostSettings, ServerSettings
from watchdog.model import (
    Cause,
    Incident,
    Maintenance,
    Nature,
    NotificationKind,
    Notified,
    Severity,
    Silence,
    StepReason,
    Transition,
    TransitionKind,
    Verdict,
)
from watchdog.policy import (
    AlertPlan,
    Circumstances,
    DecisionReason,
    QueueDecision,
    Waiting,
    blind_observation,
    decide,
    ended,
    incident_id,
    inhibitor_of,
    matches,
    may_inhibit,
    next_window,
    pause_s,
    queue_decision,
    refused_row_pause_s,
    row_pause_s,
    window_at,
)

NOW = 1_795_000_000.0
PLAN = AlertPlan.from_config(configuration(receiver("phone", min_severity=Severity.PAGE), receiver("mail")))


def reasons(about: Incident, *, now: float = NOW, fresh: bool = True, **circumstances: Any) -> dict[str, str]:
    made = decide(about, None, Circumstances(**{"plan": PLAN, **circumstances}), fresh=fresh, now=now)
    return {name: why.value for name, why in made.reasons.items()}


def notified(
    severity: Severity = Severity.PAGE, at: float = NOW, reminders: int = 0, count: int = 3
) -> dict[str, Notified]:
    return {"mail": Notified(severity, at, reminders, count)}


ESCALATING = AlertPlan.from_config(
    configuration(
        receiver(
            "phone", min_severity=Severity.PAGE, escalate=EscalateSettings(after_s=300, every_s=120, to=("partner",))
        ),
        receiver("mail"),
        receiver(
            "partner", min_severity=Severity.PAGE, escalate=EscalateSettings(after_s=60, every_s=60, to=("boss",))
        ),
        receiver("boss"),
    )
)
ONLY_THE_PHONE = replace(
    ESCALATING, targets=tuple(replace(target, receivers=("phone", "mail")) for target in ESCALATING.targets)
)


def told_over_time(
    start: Incident, times: list[float], plan: AlertPlan = ONLY_THE_PHONE
) -> list[tuple[float, str, str]]:
    """What is sent when time passes: (seconds since the start, receiver, kind)."""
    now, sent = start, []
    for seconds in times:
        made = decide(now, None, Circumstances(plan=plan), fresh=seconds == 0, now=NOW + seconds)
        now = made.incident
        sent += [(seconds, note.receiver, note.kind.value) for note in made.notifications]
    return sent


def test_a_page_is_repeated_until_it_is_answered_and_the_next_in_line_hear_of_it_one_after_the_other() -> None:
    assert told_over_time(incident(), [0, 299, 300, 301, 359, 360, 420]) == [
        (0, "phone", "FIRING"),
        (0, "mail", "FIRING"),
        (300, "phone", "STILL FIRING"),
        (300, "partner", "FIRING"),
        (360, "partner", "STILL FIRING"),
        (360, "boss", "FIRING"),
        (420, "phone", "STILL FIRING"),
        (420, "partner", "STILL FIRING"),
    ]


def test_who_was_told_because_nobody_answered_hears_of_the_end() -> None:
    made = decide(incident(), None, Circumstances(plan=ONLY_THE_PHONE), fresh=True, now=NOW)
    made = decide(made.incident, None, Circumstances(plan=ONLY_THE_PHONE), fresh=False, now=NOW + 300)
    over = ended(made.incident, StepReason.RECOVERED, TransitionKind.RESOLVED, NOW + 310)
    transition = Transition(
        kind=TransitionKind.RESOLVED, reason=StepReason.RECOVERED, cause=Cause.STRIKES, severity=Severity.PAGE
    )
    end = decide(over, transition, Circumstances(plan=ONLY_THE_PHONE), fresh=False, now=NOW + 310)
    assert [note.receiver for note in end.notifications] == ["mail", "partner", "phone"]


def test_an_answered_page_is_not_repeated_and_nobody_else_is_told() -> None:
    answered = replace(incident(), acknowledged_at=NOW)
    assert told_over_time(answered, [0, 300, 420]) == [(0, "phone", "FIRING"), (0, "mail", "FIRING")]
    later = replace(
        answered,
        notified={"phone": Notified(Severity.PAGE, NOW - 200, 1, 3), "mail": Notified(Severity.PAGE, NOW, 0, 3)},
    )
    why = reasons(later, plan=ONLY_THE_PHONE, fresh=False)
    assert why == {"phone": "acknowledged", "mail": "not_due", "partner": "acknowledged"}


def test_a_warning_is_not_escalated_and_a_silence_holds_both_the_repetition_and_the_next_in_line() -> None:
    warning = replace(incident(), severity=Severity.WARN)
    assert told_over_time(warning, [0, 300, 420]) == [(0, "mail", "FIRING")]
    told = {name: Notified(Severity.PAGE, NOW - 400, 1, 3) for name in ("phone", "mail")}
    silence = Silence(
        id="s1", matcher={"server": "deepseek"}, starts_at=NOW - 1, ends_at=NOW + 60, reason="known", author="me"
    )
    why = reasons(replace(incident(), notified=told), plan=ONLY_THE_PHONE, fresh=False, silences=(silence,))
    assert why == {"phone": "silenced", "mail": "not_due", "partner": "silenced"}


def test_an_unanswered_page_about_a_kernel_line_is_repeated_though_no_new_line_came() -> None:
    line = replace(incident(), nature=Nature.OCCURRENCE)
    assert told_over_time(line, [0, 300])[2:] == [(300, "phone", "STILL FIRING"), (300, "partner", "NEW")]


def test_a_plan_knows_thresholds_and_receivers_by_the_longest_prefix() -> None:
    assert PLAN.thresholds_for("generation/deepseek").failures == 3
    assert PLAN.thresholds_for("kernel_log/head/pcie.aer/0000:01").failures == 3
    assert PLAN.thresholds_for("self/storage").failures == 1
    assert PLAN.receivers_for(KEY, {}, Severity.PAGE) == ("phone", "mail")
    assert PLAN.receivers_for(KEY, {}, Severity.WARN) == ("mail",)
    assert PLAN.receivers_for(KEY, {}, Severity.INFO) == ()


def test_a_server_with_its_own_receivers_is_heard_by_them_alone_also_when_we_are_blind_to_it() -> None:
    config = configuration(receiver("phone"), receiver("mail"))
    config = replace(config, servers=(ServerSettings(name="a/b", base_url="x", receivers=("mail",)),))
    plan = AlertPlan.from_config(config)
    assert plan.receivers_for("generation/a/b", {}, Severity.PAGE) == ("mail",)
    assert plan.receivers_for("self/blind/generation/a/b", {}, Severity.PAGE) == ("mail",)
    assert plan.receivers_for("generation/a", {}, Severity.PAGE) == ("phone", "mail")


@pytest.mark.parametrize("kind", ["kernel_log", "follow", "vitals"])
def test_everything_observed_of_a_configured_host_is_covered(kind: str) -> None:
    """What is not covered is closed as no longer watched at the next reload."""
    head = HostSettings(name="head", address="192.0.2.10", user="monitor", known_hosts="known_hosts")
    assert AlertPlan.from_config(Config(hosts=(head,))).covers(f"{kind}/head")


def test_a_deaf_receiver_is_not_told_of_its_own_deafness() -> None:
    plan = AlertPlan.from_config(configuration(receiver("phone"), receiver("mail")))
    assert plan.receivers_for("self/delivery/phone", {"receiver": "phone"}, Severity.WARN) == ("mail",)


@pytest.mark.parametrize(
    ("key", "covered"),
    [
        (KEY, True),
        ("generation/gone", False),
        ("self/storage", True),
        ("self/blind/generation/gone", False),
        ("self/delivery/phone", True),
        ("self/delivery/phone/full", True),
        ("self/delivery/gone", False),
    ],
)
def test_a_plan_covers_what_is_still_watched(key: str, covered: bool) -> None:
    assert PLAN.covers(key) is covered


def test_a_new_incident_is_told_to_everyone_who_listens_at_its_severity() -> None:
    made = decide(incident(), None, Circumstances(plan=PLAN), fresh=True, now=NOW)
    assert [(note.receiver, note.kind) for note in made.notifications] == [
        ("phone", NotificationKind.FIRING),
        ("mail", NotificationKind.FIRING),
    ]
    assert dict(made.incident.notified) == {name: Notified(Severity.PAGE, NOW, 0, 3) for name in ("phone", "mail")}


@pytest.mark.parametrize(
    ("about", "at", "reason"),
    [
        (incident(notified=notified()), NOW + 3599, "not_due"),
        (incident(notified=notified()), NOW + 3600, "reminder"),
        (incident(notified=notified(reminders=1)), NOW + 14399, "not_due"),
        (incident(notified=notified(reminders=1)), NOW + 14400, "reminder"),
        (incident(notified=notified(), acknowledged_at=NOW), NOW + 9999, "acknowledged"),
        (incident(notified=notified(Severity.WARN)), NOW, "escalated"),
        (incident(notified=notified(), nature=Nature.OCCURRENCE, count=3), NOW + 9999, "nothing_new"),
        (incident(notified=notified(), nature=Nature.OCCURRENCE, count=4), NOW + 9999, "reminder"),
    ],
)
def test_what_was_told_and_when_decides_what_is_told_next(about: Incident, at: float, reason: str) -> None:
    assert reasons(about, now=at)["mail"] == reason


def test_reminders_can_be_turned_off() -> None:
    plan = AlertPlan.from_config(configuration(receiver("mail"), reminder_first_s=0.0))
    assert reasons(incident(notified=notified()), now=NOW + 1e6, plan=plan)["mail"] == "already_told"
    soon = AlertPlan.from_config(configuration(receiver("mail"), reminder_first_s=1.0))
    assert reasons(incident(notified=notified()), now=NOW + 1.0, plan=soon)["mail"] == "reminder"


def test_a_condition_that_was_held_back_waits_for_the_next_look_an_occurrence_does_not() -> None:
    assert reasons(incident(), fresh=False) == {"phone": "awaiting_evidence", "mail": "awaiting_evidence"}
    assert reasons(incident(nature=Nature.OCCURRENCE), fresh=False) == {"phone": "first", "mail": "first"}


def test_a_full_outbox_takes_no_new_trigger() -> None:
    assert reasons(incident(), full=frozenset({"mail"})) == {"phone": "first", "mail": "outbox_full"}


def silence(**matcher: str) -> Silence:
    return Silence(id="s", matcher=matcher, starts_at=NOW, ends_at=NOW + 60, reason="swap")


def test_a_silence_covers_its_labels_from_its_start_until_its_end() -> None:
    quiet = (silence(server="deepseek"),)
    assert reasons(incident(), silences=quiet)["mail"] == "silenced"
    assert reasons(incident(), silences=quiet, now=NOW + 60)["mail"] == "first"
    assert reasons(incident(), silences=(silence(server="other"),))["mail"] == "first"


def test_an_end_goes_to_everyone_who_was_told_whatever_is_silent() -> None:
    over = ended(incident(notified=notified()), StepReason.RECOVERED, TransitionKind.RESOLVED, NOW)
    said = Transition(
        kind=TransitionKind.RESOLVED, reason=StepReason.RECOVERED, cause=Cause.STRIKES, severity=Severity.PAGE
    )
    made = decide(over, said, Circumstances(plan=PLAN, silences=(silence(server="*"),)), fresh=False, now=NOW)
    assert [(note.receiver, note.kind) for note in made.notifications] == [("mail", NotificationKind.RESOLVED)]
    assert decide(over, None, Circumstances(plan=PLAN), fresh=False, now=NOW).notifications == ()


@pytest.mark.parametrize(
    ("matcher", "fits"),
    [
        ({"server": "deepseek"}, True),
        ({"server": "deep*"}, True),
        ({"server": "other*"}, False),
        ({"host": "gpu*"}, False),
        ({"check": "generation"}, True),
        ({"severity": "page", "server": "*"}, True),
        ({"host": "head"}, False),
        ({}, False),
        ({"server": "d"}, False),
    ],
)
def test_a_matcher_needs_every_label_and_an_empty_one_matches_nothing(matcher: dict[str, str], fits: bool) -> None:
    assert matches(matcher, incident()) is fits


def host_down(host: str = "head", **changes: object) -> Incident:
    values: dict[str, object] = {
        "id": "00000001",
        "key": f"kernel_log/{host}",
        "reason": "silent",
        "labels": {"host": host},
    }
    return incident(**{**values, "notified": notified(), **changes})


def test_a_host_that_cannot_be_reached_folds_what_runs_on_it() -> None:
    assert inhibitor_of(incident(), [host_down()], PLAN) is not None
    assert inhibitor_of(incident(labels={"host": "head"}, key="vitals/head"), [host_down()], PLAN) is not None
    assert inhibitor_of(incident(), [host_down("elsewhere")], PLAN) is None
    assert inhibitor_of(incident(), [host_down(reason="key_refused")], PLAN) is None
    assert inhibitor_of(incident(), [host_down(key="kernel_log/head/pcie.aer/x")], PLAN) is None
    assert inhibitor_of(host_down("worker"), [host_down(), host_down("worker", id="00000002")], PLAN) is None


def behind(host: str, jump: str, **changes: object) -> Incident:
    key = f"self/blind/kernel_log/{host}"
    labels = {"host": host, "jump": jump}
    return incident(**{"key": key, "reason": "jump", "labels": labels, "notified": notified(), **changes})


def test_a_jump_hosts_trouble_is_told_once_for_all_hosts_behind_it() -> None:
    first, second = behind("one", "192.0.2.1:22", id="00000001"), behind("two", "192.0.2.1:22", id="00000002")
    assert inhibitor_of(second, [first], PLAN) is first
    assert inhibitor_of(first, [second], PLAN) is None
    assert inhibitor_of(behind("three", "192.0.2.9:22", id="00000003"), [first], PLAN) is None
    assert inhibitor_of(behind("four", "", id="00000004"), [behind("five", "", id="00000001")], PLAN) is None
    watched = host_down("gate", reason="key_refused", id="00000009")
    assert inhibitor_of(behind("six", "gate"), [watched], PLAN) is watched
    assert may_inhibit(watched)
    assert may_inhibit(first)
    assert not may_inhibit(host_down(key="kernel_log/gate/pcie.aer/x"))


def test_our_own_network_down_folds_what_we_are_blind_to_for_it_and_nothing_folds_that_itself() -> None:
    road = incident(id="00000009", key="self/road", reason="blind", labels={})
    unseen = incident(key="self/blind/generation/deepseek", reason="blind")
    assert inhibitor_of(unseen, [road], PLAN) is road
    assert inhibitor_of(road, [unseen], PLAN) is None
    assert inhibitor_of(incident(key="self/blind/generation/deepseek", reason="local"), [road], PLAN) is None
    assert inhibitor_of(incident(), [road], PLAN) is None, "a failure that was seen is a failure"


def test_an_explanation_that_a_receiver_never_heard_hides_nothing_from_it() -> None:
    assert reasons(incident(), open_incidents=(host_down(),)) == {"phone": "first", "mail": "folded"}


def test_an_unknown_says_that_we_are_blind_and_a_pass_that_we_are_not() -> None:
    blind = blind_observation(observed(Verdict.UNKNOWN), was_blind=False)
    assert blind is not None
    assert (blind.key, blind.verdict, blind.severity) == (f"self/blind/{KEY}", Verdict.FAIL, Severity.WARN)
    assert blind_observation(observed(Verdict.PASS), was_blind=False) is None
    sees = blind_observation(observed(Verdict.FAIL), was_blind=True)
    assert sees is not None
    assert sees.verdict is Verdict.PASS
    assert blind_observation(observed(Verdict.UNKNOWN, reason="shutdown"), was_blind=True) is None
    assert blind_observation(observed(Verdict.UNKNOWN, reason="asleep"), was_blind=True) is None
    assert blind_observation(observed(Verdict.UNKNOWN, "self/storage"), was_blind=False) is None


@given(st.lists(st.tuples(st.floats(1.6e9, 2.6e9), st.integers(0, 1023)), min_size=2, max_size=40))
def test_ids_are_short_typable_unique_and_in_order_whatever_the_clock_does(moments: list[tuple[float, int]]) -> None:
    made = [""]
    for now, entropy in moments:
        made.append(incident_id(now, made[-1], entropy))
    ids = made[1:]
    assert ids == sorted(set(ids))
    assert all(len(one) == 8 and not set(one) & set("ilou") for one in ids)


BERLIN = ZoneInfo("Europe/Berlin")


def window(hour: int, minute: int, *, days: tuple[int, ...] = tuple(range(7)), hours: float = 1.0) -> Maintenance:
    return Maintenance(
        name="w",
        matcher={"server": "*"},
        days=days,
        start=(hour, minute),
        duration_s=hours * 3600,
        zone=BERLIN,
    )


def utc(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_a_window_begins_at_its_local_hour_in_summer_and_winter() -> None:
    assert window_at(window(3, 0), utc("2026-07-01 01:00:00")) is not None
    assert window_at(window(3, 0), utc("2026-07-01 00:59:59")) is None
    assert window_at(window(3, 0), utc("2026-12-01 02:00:00")) is not None
    assert window_at(window(3, 0), utc("2026-12-01 03:00:00")) is None


def test_a_start_that_the_clock_skips_in_spring_begins_at_the_jump_and_lasts_in_full() -> None:
    start, end = window_at(window(2, 30), utc("2026-03-29 01:30:00")) or (0, 0)
    assert (start, end) == (utc("2026-03-29 01:30:00"), utc("2026-03-29 02:30:00"))


def test_a_start_that_comes_twice_in_autumn_begins_once_the_first_time() -> None:
    assert window_at(window(2, 30), utc("2026-10-25 00:30:00")) is not None
    assert window_at(window(2, 30), utc("2026-10-25 01:30:00")) is None


def test_a_window_over_midnight_belongs_to_the_day_it_begins_on() -> None:
    friday = window(23, 0, days=(4,), hours=3)
    assert window_at(friday, utc("2026-11-21 00:30:00")) is not None  # Saturday 01:30 in Berlin
    assert window_at(friday, utc("2026-11-20 00:30:00")) is None


def test_the_next_window_is_the_first_one_still_to_begin() -> None:
    assert next_window(window(3, 0, days=(6,)), utc("2026-11-18 12:00:00")) == (
        utc("2026-11-22 02:00:00"),
        utc("2026-11-22 03:00:00"),
    )
    assert next_window(window(3, 0, days=()), NOW) is None


def row(number: int, kind: NotificationKind, **changes: float) -> Waiting:
    return Waiting(
        number, "i", kind, changes.get("created_at", NOW), int(changes.get("attempt", 0)), changes.get("due_at", NOW)
    )


FIRING, STILL, RESOLVED = NotificationKind.FIRING, NotificationKind.STILL_FIRING, NotificationKind.RESOLVED
WEEK_S = 7 * 86400.0


@pytest.mark.parametrize(
    ("queue", "place", "triggered", "wanted"),
    [
        ([row(1, FIRING)], 0, None, QueueDecision.SEND),
        ([row(1, FIRING), row(2, RESOLVED)], 1, None, QueueDecision.BEHIND_ANOTHER),
        ([row(2, RESOLVED)], 0, 1, QueueDecision.SEND),
        ([row(2, RESOLVED)], 0, None, QueueDecision.TRIGGER_NEVER_ARRIVED),
        ([row(2, STILL), row(3, STILL)], 0, 1, QueueDecision.SUPERSEDED),
        ([row(2, STILL), row(3, RESOLVED)], 0, 1, QueueDecision.SUPERSEDED),
        ([row(2, STILL)], 0, 1, QueueDecision.SEND),
        ([row(2, STILL)], 0, 2, QueueDecision.SUPERSEDED),
        ([row(1, FIRING, due_at=NOW + 5, attempt=1)], 0, None, QueueDecision.NOT_DUE),
        ([row(1, FIRING, due_at=NOW + 5, attempt=0)], 0, None, QueueDecision.SEND),
        ([row(1, FIRING, due_at=NOW + 7200, attempt=1)], 0, None, QueueDecision.SEND),
        ([row(1, FIRING, created_at=NOW - WEEK_S - 1, attempt=50)], 0, None, QueueDecision.GAVE_UP),
        ([row(1, FIRING, created_at=NOW - WEEK_S - 1, attempt=2)], 0, None, QueueDecision.SEND),
    ],
)
def test_the_fate_of_a_row_follows_from_its_siblings(
    queue: list[Waiting], place: int, triggered: int | None, wanted: QueueDecision
) -> None:
    assert queue_decision(queue[place], queue, triggered, NOW, WEEK_S) is wanted


def test_pauses_double_up_to_their_limit_and_a_stubborn_row_rests_longer_than_its_receiver() -> None:
    plain = [pause_s(failures, 0.5) for failures in (1, 2, 3, 5, 6, 1000)]
    assert plain == [1.0, 2.0, 4.0, 16.0, 25.0, 25.0]
    assert row_pause_s(99, pause_s(1000, 1.0)) == pytest.approx(
        60.0
    )  # a receiver that is back has everything within a minute
    refused = [refused_row_pause_s(attempt, 0.5) for attempt in (1, 2, 10, 11, 1000)]
    assert refused == [1.0, 2.0, 512.0, 900.0, 900.0]
    assert (pause_s(1, 0.0), pause_s(1, 1.0)) == pytest.approx((0.8, 1.2))
    assert row_pause_s(3, 4.0) == 4.0
    assert row_pause_s(4, 8.0) == 16.0
    assert row_pause_s(99, 450.0) == 900.0


def test_every_reason_of_a_decision_has_a_name_of_its_own() -> None:
    assert len({reason.value for reason in DecisionReason}) == len(DecisionReason)


def test_reminders_are_counted_one_by_one() -> None:
    """The first comes after another time than those behind it, and one that a silence swallowed counts too."""
    about, at = incident(notified=notified()), NOW
    for number, wait_s in enumerate((3600, 14400, 14400), start=1):
        at += wait_s
        about = decide(about, None, Circumstances(plan=PLAN), fresh=False, now=at).incident
        assert about.notified["mail"] == Notified(Severity.PAGE, at, number, 3)
