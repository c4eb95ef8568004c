"""Whole outages as timelines: what happens when, and exactly what each receiver gets."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.support.alerting_path import KEY, Station, configuration, line_seen, observed, receiver
from tests.support.clock import settle
from watchdog.model import Maintenance, Phase, Severity, Silence, TransitionKind, Verdict
from watchdog.policy import AlertPlan

HOUR_S = 3600.0


async def test_one_outage_is_one_page_and_one_resolve(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        await station.ok()
        for _ in range(2):
            await station.fail()
            await station.pass_time(120)
        assert phone.kinds == []
        for _ in range(10):
            await station.fail()
            await station.pass_time(120)
        assert phone.kinds == ["FIRING"]
        await station.ok()
        assert phone.kinds == ["FIRING"]
        await station.ok()
        assert phone.kinds == ["FIRING", "RESOLVED"]
        await station.pass_time(2 * HOUR_S, step_s=600)
        assert phone.kinds == ["FIRING", "RESOLVED"]
        ids = {delivery.incident_id for delivery, _text in phone.accepted}
        assert len(ids) == 1


async def test_two_misses_and_a_pass_say_nothing(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for verdict in (Verdict.FAIL, Verdict.FAIL, Verdict.PASS, Verdict.FAIL, Verdict.FAIL, Verdict.PASS):
            await station.look(observed(verdict))
        assert station.sinks["phone"].kinds == []


async def test_the_reasons_of_an_incident_are_those_of_its_failures_only(tmp_path: Path) -> None:
    """That we were blind between two strikes is no reason of the trouble."""
    async with Station(tmp_path) as station:
        for verdict in (Verdict.FAIL, Verdict.UNKNOWN, Verdict.FAIL, Verdict.FAIL):
            await station.look(observed(verdict))
        (incident,) = station.ingest.open_incidents
        assert incident.reasons == ("no_token",)


async def test_every_change_of_an_incident_is_logged_and_noticed_once(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        with capture_logs() as logs:
            for verdict in (Verdict.FAIL,) * 4 + (Verdict.PASS,) * 3:
                await station.look(observed(verdict))
        told = [(line["event"], line["key"], line["receivers"]) for line in logs if "incident " in line["event"]]
        assert told == [
            ("incident opened", KEY, {"phone": "first"}),
            ("incident resolved", KEY, {"phone": "ended"}),
        ]
        assert station.changes == [(KEY, TransitionKind.OPENED), (KEY, TransitionKind.RESOLVED)]


@pytest.mark.parametrize("stop_after", range(9))
async def test_a_restart_at_any_moment_changes_nothing(tmp_path: Path, stop_after: int) -> None:
    story = [Verdict.PASS, Verdict.FAIL, Verdict.FAIL, Verdict.FAIL, Verdict.FAIL]
    story += [Verdict.PASS, Verdict.FAIL, Verdict.PASS, Verdict.PASS]
    async with Station(tmp_path) as station:
        for number, verdict in enumerate(story):
            await station.look(observed(verdict))
            await station.pass_time(60)
            if number == stop_after:
                await station.restart()
        assert station.sinks["phone"].kinds == ["FIRING", "RESOLVED"]


async def test_reminders_come_after_an_hour_and_then_every_four(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        for _ in range(3):
            await station.fail()
        await station.pass_time(HOUR_S - 60, step_s=300)
        assert phone.kinds == ["FIRING"]
        await station.pass_time(120)
        assert phone.kinds == ["FIRING", "STILL FIRING"]
        await station.pass_time(4 * HOUR_S - 600, step_s=600)
        assert phone.kinds == ["FIRING", "STILL FIRING"]
        await station.restart()
        await station.pass_time(600)
        assert phone.kinds == ["FIRING", "STILL FIRING", "STILL FIRING"]


async def test_an_outage_while_the_notifier_is_down_is_told_late_and_in_order(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        phone.broken = True
        for _ in range(3):
            await station.fail()
        await station.pass_time(600)
        await station.ok()
        await station.ok()
        await station.pass_time(600)
        assert phone.kinds == []
        phone.broken = False
        await station.pass_time(1200)
        assert phone.kinds == ["FIRING", "RESOLVED"]
        (trigger, said), (_end, _said) = phone.accepted
        assert "it is over already: from" in said.body
        assert "late" in said.body
        assert said.body.endswith(f"incident {trigger.incident_id} · attempt {trigger.attempt}")
        assert trigger.attempt > 1


async def test_reminders_that_waited_for_a_dead_receiver_are_not_all_sent(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        phone.broken = True
        for _ in range(3):
            await station.fail()
        await station.pass_time(14 * HOUR_S, step_s=600)
        phone.broken = False
        await station.pass_time(1200)
        assert phone.kinds[0] == "FIRING"
        assert phone.kinds.count("STILL FIRING") <= 1
        assert "late" in phone.accepted[0][1].body


async def test_a_kernel_line_speaks_at_once_folds_and_goes_quiet(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        await station.look(line_seen())
        assert phone.kinds == ["NEW"]
        await station.look(line_seen(count=40))
        await station.pass_time(HOUR_S - 120, step_s=300)
        assert phone.kinds == ["NEW"]
        await station.pass_time(180)
        assert phone.kinds == ["NEW", "QUIET"]
        assert "41 times" in phone.titles[1]
        await station.look(line_seen())
        assert phone.kinds == ["NEW", "QUIET", "NEW"]


async def test_an_occurrence_that_gets_worse_is_raised_in_the_same_incident(tmp_path: Path) -> None:
    config = configuration(receiver("phone", min_severity=Severity.PAGE), receiver("mail"))
    async with Station(tmp_path, config) as station:
        await station.look(line_seen(severity=Severity.WARN))
        assert station.sinks["mail"].kinds == ["NEW"]
        assert station.sinks["phone"].kinds == []
        await station.look(line_seen(severity=Severity.PAGE))
        assert station.sinks["mail"].kinds == ["NEW", "STILL FIRING"]
        assert station.sinks["phone"].kinds == ["NEW"]
        assert "page (was warn)" in station.sinks["phone"].accepted[0][1].body
        ids = {delivery.incident_id for sink in station.sinks.values() for delivery, _text in sink.accepted}
        assert len(ids) == 1


async def test_a_resolve_goes_only_where_its_trigger_went(tmp_path: Path) -> None:
    config = configuration(receiver("phone", min_severity=Severity.PAGE), receiver("mail"))
    async with Station(tmp_path, config) as station:
        for _ in range(3):
            await station.fail(severity=Severity.WARN)
        for _ in range(2):
            await station.ok()
        assert station.sinks["mail"].kinds == ["FIRING", "RESOLVED"]
        assert station.sinks["phone"].kinds == []


async def test_flapping_warns_once_and_a_real_outage_raises_it(tmp_path: Path) -> None:
    config = configuration(receiver("phone", min_severity=Severity.PAGE), receiver("mail"))
    async with Station(tmp_path, config) as station:
        for _ in range(6):
            await station.fail()
            await station.ok()
        assert station.sinks["mail"].kinds == ["FIRING"]
        assert "flapping" in station.sinks["mail"].titles[0]
        assert station.sinks["phone"].kinds == []
        for _ in range(3):
            await station.fail()
        assert station.sinks["mail"].kinds == ["FIRING", "FIRING"]
        assert station.sinks["phone"].kinds == ["FIRING"]
        for _ in range(12):
            await station.ok()
        assert station.sinks["mail"].kinds == ["FIRING", "FIRING", "RESOLVED"]


async def test_a_host_that_is_down_explains_what_runs_on_it(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        for _ in range(3):
            await station.fail("kernel_log/head", reason="silent", summary="head: port open, nothing said")
        for _ in range(3):
            await station.fail()
        await station.pass_time(600)
        assert len(phone.accepted) == 1
        assert "head" in phone.titles[0]
        snapshot = await station.store.read_in_turn(lambda reader: reader.snapshot(station.clock.wall()))
        assert {view.key: view.phase for view in snapshot.keys}[KEY] is Phase.FIRING
        for _ in range(2):
            await station.ok("kernel_log/head")
        assert phone.kinds == ["FIRING", "RESOLVED"]
        await station.fail()
        assert phone.kinds == ["FIRING", "RESOLVED", "FIRING"]
        for _ in range(2):
            await station.ok()
        assert phone.kinds == ["FIRING", "RESOLVED", "FIRING", "RESOLVED"]


async def test_both_hosts_down_are_two_pages_not_three(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        for _ in range(3):
            for host in ("head", "worker"):
                await station.fail(f"kernel_log/{host}", reason="unroutable", summary=f"{host}: no route")
        for _ in range(4):
            await station.fail()
        assert phone.kinds == ["FIRING", "FIRING"]
        assert [title.split()[1].rstrip(":") for title in phone.titles] == ["head", "worker"]


async def test_a_trigger_already_sent_is_resolved_though_its_host_went_down_later(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for _ in range(3):
            await station.fail()
        for _ in range(3):
            await station.fail("kernel_log/head", reason="silent")
        for _ in range(2):
            await station.ok()
        assert station.sinks["phone"].kinds == ["FIRING", "FIRING", "RESOLVED"]


async def test_three_unknowns_in_a_row_say_that_we_are_blind_and_count_no_failure(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        await station.fail()
        await station.fail()
        for _ in range(2):
            await station.look(observed(Verdict.UNKNOWN))
        assert phone.kinds == []
        await station.look(observed(Verdict.UNKNOWN))
        assert phone.kinds == ["FIRING"]
        assert "blind to generation/deepseek" in phone.titles[0]
        snapshot = await station.store.read_in_turn(lambda reader: reader.snapshot(station.clock.wall()))
        states = {view.key: view.state for view in snapshot.keys}
        assert states[KEY].fails == 2
        assert [window.key for window in snapshot.blind] == [KEY]
        await station.fail()
        assert phone.kinds == ["FIRING", "FIRING", "RESOLVED"] or phone.kinds == ["FIRING", "RESOLVED", "FIRING"]


async def test_many_targets_blind_for_one_reason_are_one_message(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for _ in range(4):
            for key in (KEY, "kernel_log/head", "kernel_log/worker"):
                await station.look(observed(Verdict.UNKNOWN, key))
        assert station.sinks["phone"].kinds == ["FIRING"]


async def test_our_own_stopping_is_no_blindness(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for _ in range(5):
            await station.look(observed(Verdict.UNKNOWN, reason="shutdown"))
        assert station.sinks["phone"].kinds == []


async def test_a_silence_over_the_end_hides_the_trouble_but_never_a_resolve(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        for _ in range(3):
            await station.fail()
        now = station.clock.wall()
        silence = Silence(
            id="s1", matcher={"server": "deepseek"}, starts_at=now, ends_at=now + 7200, reason="swap to another model"
        )
        await station.store.request(lambda ask: ask.add_silence(silence))
        await station.pass_time(2 * HOUR_S - 120, step_s=300)
        assert phone.kinds == ["FIRING"]
        for _ in range(2):
            await station.ok()
        assert phone.kinds == ["FIRING", "RESOLVED"]
        for _ in range(3):
            await station.fail()
        assert phone.kinds == ["FIRING", "RESOLVED"]
        await station.pass_time(300)
        await station.fail()
        assert phone.kinds == ["FIRING", "RESOLVED", "FIRING"]


async def test_what_began_and_ended_in_a_silence_says_nothing(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        now = station.clock.wall()
        silence = Silence(id="s1", matcher={"server": "deep*"}, starts_at=now, ends_at=now + 3600, reason="swap")
        await station.store.request(lambda ask: ask.add_silence(silence))
        await station.pass_time(60)
        for _ in range(4):
            await station.fail()
        for _ in range(2):
            await station.ok()
        await station.pass_time(2 * HOUR_S, step_s=600)
        assert station.sinks["phone"].kinds == []


async def test_a_line_seen_in_maintenance_is_told_at_its_end(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        start = datetime.fromtimestamp(station.clock.wall(), UTC)
        window = Maintenance(
            name="weekly",
            matcher={"host": "*"},
            days=(start.weekday(),),
            start=(start.hour, start.minute),
            duration_s=1800.0,
            zone=UTC,
        )
        plan = replace(AlertPlan.from_config(station.config), maintenance=(window,))
        await station.ingest.replan(plan)
        await station.pass_time(120)
        await station.look(line_seen())
        assert station.sinks["phone"].kinds == []
        await station.pass_time(1740)
        assert station.sinks["phone"].kinds == ["NEW"]


async def test_acknowledging_stops_reminders_until_the_next_incident(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        for _ in range(3):
            await station.fail()
        incident = phone.accepted[0][0].incident_id
        now = station.clock.wall()
        await station.store.request(lambda ask: ask.acknowledge(incident, now, "looking at it", "me"))
        await station.pass_time(6 * HOUR_S, step_s=600)
        assert phone.kinds == ["FIRING"]
        for _ in range(2):
            await station.ok()
        for _ in range(3):
            await station.fail()
        await station.pass_time(HOUR_S + 60, step_s=600)
        assert phone.kinds == ["FIRING", "RESOLVED", "FIRING", "STILL FIRING"]


async def test_a_renamed_check_closes_the_incident_of_its_old_name(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for _ in range(3):
            await station.fail()
        renamed = replace(station.config, servers=(replace(station.config.servers[0], name="qwen"),))
        await station.ingest.replan(AlertPlan.from_config(renamed))
        await station.quiet()
        assert station.sinks["phone"].kinds == ["FIRING", "RESOLVED"]
        assert "no longer watched" in station.sinks["phone"].titles[1]
        await station.restart()
        assert station.sinks["phone"].kinds == ["FIRING", "RESOLVED"]


@pytest.mark.parametrize("jump_s", [-7200.0, 7200.0, 3 * 86400.0])
async def test_a_stepped_wall_clock_gives_no_false_page_and_misses_no_reminder(tmp_path: Path, jump_s: float) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        await station.ok()
        for _ in range(3):
            await station.fail("kernel_log/head", reason="key_refused")
        station.clock.jump_wall(jump_s)
        await station.pass_time(60)
        await station.ok()
        assert set(phone.kinds) <= {"FIRING", "STILL FIRING"}
        await station.pass_time(2 * HOUR_S, step_s=300)
        assert phone.kinds[:2] == ["FIRING", "STILL FIRING"]
        phone.broken = True
        for _ in range(3):
            await station.fail()
        station.clock.jump_wall(jump_s)
        phone.broken = False
        await station.pass_time(1200)
        assert "deepseek" in " ".join(phone.titles)


async def test_a_fallback_hears_what_the_first_receiver_could_not_be_told(tmp_path: Path) -> None:
    config = configuration(receiver("phone", fallback="mail"), receiver("mail", min_severity=Severity.PAGE))
    config = replace(config, servers=(replace(config.servers[0], receivers=("phone",)),), receivers=config.receivers)
    async with Station(tmp_path, config) as station:
        phone, mail = station.sinks["phone"], station.sinks["mail"]
        phone.broken = True
        for _ in range(3):
            await station.fail()
        assert mail.kinds == []
        await station.pass_time(30, step_s=1)
        assert mail.kinds == ["FIRING"]
        assert "phone could not be reached" in mail.accepted[0][1].body
        for _ in range(2):
            await station.ok()
        assert mail.kinds == ["FIRING", "RESOLVED"]
        phone.broken = False
        await station.pass_time(1200)
        assert phone.kinds == ["FIRING", "RESOLVED"]
        assert mail.kinds == ["FIRING", "RESOLVED"]


async def test_a_receiver_that_fails_for_long_is_told_to_the_others(tmp_path: Path) -> None:
    config = configuration(receiver("phone"), receiver("mail"))
    async with Station(tmp_path, config) as station:
        phone, mail = station.sinks["phone"], station.sinks["mail"]
        phone.broken = True
        await station.look(line_seen())
        await station.pass_time(1200)
        assert [title for title in mail.titles if "phone: cannot be reached" in title]
        phone.broken = False
        await station.pass_time(1200)
        assert mail.kinds[-1] == "RESOLVED"
        assert phone.kinds == ["NEW"]


async def test_a_receiver_is_not_called_unreachable_before_it_has_failed_for_five_minutes(tmp_path: Path) -> None:
    async with Station(tmp_path, configuration(receiver("phone"), receiver("mail"))) as station:
        phone = station.sinks["phone"]

        def called_unreachable() -> bool:
            return "undeliverable" in [incident.reason for incident in station.ingest.open_incidents]

        for outage in (1, 2):
            phone.broken = True
            await station.look(line_seen(device=f"0000:0{outage}:00.0"))
            await station.pass_time(299, step_s=13)
            assert phone.tried >= 5
            assert not called_unreachable()
            await station.pass_time(600)
            assert called_unreachable()
            phone.broken = False
            await station.pass_time(900)
            assert not called_unreachable()


async def test_a_receiver_that_rests_costs_nothing_until_its_rest_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Station(tmp_path) as station:
        phone, clock = station.sinks["phone"], station.clock
        phone.broken = True
        await station.look(line_seen())
        await station.pass_time(60)
        tried = phone.tried
        sleep = clock.sleep
        sleeps: list[float] = []

        def counted(duration_s: float) -> Coroutine[None, None, None]:
            sleeps.append(duration_s)
            return sleep(duration_s)

        monkeypatch.setattr(clock, "sleep", counted)
        await settle(200)
        assert (phone.tried, sleeps) == (tried, [])
        await station.pass_time(60)
        assert phone.tried > tried


async def test_a_message_that_is_always_refused_blocks_no_other(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        phone = station.sinks["phone"]
        accept = phone.send

        async def send(delivery, text, now):  # type: ignore[no-untyped-def]  # the signature of `send`
            phone.broken = "poison" in text.title
            return await accept(delivery, text, now)

        phone.send = send  # type: ignore[method-assign]  # this one refuses by content
        await station.look(line_seen(kind="poison"))
        await station.look(line_seen(kind="nic.timeout", device="mlx5_0"))
        await station.pass_time(120, step_s=1)
        assert [delivery.incident.reason for delivery, _text in phone.accepted if delivery.incident] == ["nic.timeout"]


async def test_a_message_is_given_up_after_a_week_and_the_others_hear_of_it(tmp_path: Path) -> None:
    config = configuration(receiver("phone"), receiver("mail"))
    async with Station(tmp_path, config) as station:
        station.sinks["phone"].broken = True
        await station.look(line_seen())
        await station.pass_time(7.1 * 86400, step_s=450)
        assert [title for title in station.sinks["mail"].titles if "gave up" in title]
        station.sinks["phone"].broken = False
        await station.pass_time(3600, step_s=450)
        assert station.sinks["phone"].kinds == []  # no bare end for what never arrived


async def test_a_message_that_does_not_arrive_is_waited_for_only_as_long_as_was_asked(tmp_path: Path) -> None:
    async with Station(tmp_path, configuration(receiver("phone"))) as station:
        station.sinks["phone"].broken = True
        test = await station.ingest.test_alert(sent_from="spare box")
        await station.quiet()
        async with asyncio.timeout(5):
            views = await station.outbox.settled(test.incident_id, 0.0)
        assert not all(view.is_done for view in views)


async def test_a_test_alert_proves_every_receiver_or_says_which_failed(tmp_path: Path) -> None:
    config = configuration(receiver("phone"), receiver("mail"))
    async with Station(tmp_path, config) as station:
        station.sinks["phone"].broken = True
        test = await station.ingest.test_alert(sent_from="spare box")
        views = await station.outbox.settled(test.incident_id, 0.0)
        await station.quiet()
        views = await station.store.read_in_turn(lambda reader: reader.deliveries(test.incident_id))
        assert {view.receiver: view.is_done for view in views if view.kind == "FIRING"} == {
            "phone": False,
            "mail": True,
        }
        assert station.sinks["mail"].kinds == ["FIRING", "RESOLVED"]
        assert "nothing is wrong" in station.sinks["mail"].titles[0]
        snapshot = await station.store.read_in_turn(lambda reader: reader.snapshot(station.clock.wall()))
        proven = {view.name: view.delivered_at for view in snapshot.receivers}
        assert proven == {"mail": station.clock.wall(), "phone": None}
        assert snapshot.open_incidents == ()


async def test_a_check_finds_its_memory_after_a_restart(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        await station.look(line_seen(), memory={"cursor": "s=1;i=2"})
        await station.restart()
        assert station.store.memory(line_seen().key) == {"cursor": "s=1;i=2"}
