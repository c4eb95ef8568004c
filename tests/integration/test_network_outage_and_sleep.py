"""Sleep, clock steps and a network of our own that is down: no false page, no real outage hidden."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.alerting_path import KEY, Station, configuration
from tests.support.clock import ManualClock
from tests.support.simulated_network import ROUTER, Lan
from watchdog.config import ProbeSettings
from watchdog.model import Phase
from watchdog.selfwatch import LOOK_AGAIN_S
from watchdog.selfwatch.local_network import NoWay

HEAD, WORKER = "kernel_log/head", "kernel_log/worker"
DAY_S = 86400.0


async def phase(lan: Lan, key: str = KEY) -> tuple[Phase, int]:
    snapshot = await lan.station.store.read_in_turn(lambda reader: reader.snapshot(lan.station.clock.wall()))
    state = next(view.state for view in snapshot.keys if view.key == key)
    return state.phase, state.fails


@pytest.mark.parametrize("slept_s", [300.0, 7200.0, 3 * DAY_S], ids=["5 min", "2 h", "3 d"])
async def test_a_sleep_gives_no_alert_a_stated_window_and_a_round_at_once(tmp_path: Path, slept_s: float) -> None:
    """The network takes 20 s to come back, as Wi-Fi does."""
    async with Lan(tmp_path) as lan:
        clock = lan.station.clock
        await lan.pass_time(650)
        asleep_at = clock.wall()
        clock.sleep_for(slept_s)
        woke_at = clock.wall()
        lan.around.unplugged = True
        await lan.pass_time(20, step_s=5)
        lan.around.unplugged = False
        for target in lan.targets.values():
            assert target.starts[-1] - woke_at <= 6, "a round at once"
        await lan.pass_time(300)
        assert lan.kinds == []
        (began_at, ended_at, reason), *others = await lan.blind_windows()
        assert reason == "clock_jump"
        assert (abs(began_at - asleep_at) <= 6, abs(ended_at - woke_at) <= 6) == (True, True)
        assert [why for *_, why in others] in ([], ["blind"])  # the cable was out for a moment, too
        assert await phase(lan) == (Phase.OK, 0)
        assert lan.reasons(KEY, woke_at)[-1] == "ok"


@pytest.mark.parametrize("step_s", [-7200.0, 7200.0, 3 * DAY_S], ids=["-2 h", "+2 h", "+3 d"])
async def test_a_stepped_clock_keeps_strikes_and_neither_multiplies_nor_loses_reminders(
    tmp_path: Path, step_s: float
) -> None:
    async with Lan(tmp_path) as lan:
        clock = lan.station.clock
        await lan.pass_time(130)
        lan.targets[WORKER].well = False
        await lan.pass_time(1900)
        assert lan.kinds == ["FIRING"]
        lan.targets[KEY].well = False
        await lan.pass_time(150)
        before = await phase(lan)
        assert before[0] is Phase.PENDING
        clock.jump_wall(step_s)
        lan.targets[KEY].well = True
        await lan.pass_time(200)
        assert await phase(lan) == (Phase.OK, 0)
        assert lan.kinds == ["FIRING"]
        await lan.pass_time(5 * 3600, step_s=60)
        assert lan.kinds.count("STILL FIRING") == 2, "an hour and five hours after it began, whatever the clock said"
        assert "clock_jump" in [why for *_, why in await lan.blind_windows()]
        lan.targets[WORKER].well = True
        await lan.pass_time(1300)
        assert lan.kinds[-1] == "RESOLVED"


@pytest.mark.parametrize(
    ("wall", "step_s"),
    [(1_795_000_000.0, DAY_S), (1_795_000_000.0, -DAY_S), (30.0, 1_795_000_000.0), (1_795_000_000.0, 400 * DAY_S)],
    ids=["a day forward", "a day back", "started in 1970", "a year forward"],
)
async def test_what_began_before_the_clock_was_set_has_lasted_as_long_as_it_did(
    tmp_path: Path, wall: float, step_s: float
) -> None:
    async with Lan(tmp_path, wall=wall) as lan:
        clock, phone = lan.station.clock, lan.station.sinks["phone"]
        await lan.pass_time(130)
        kept = len(await lan.station.store.read_in_turn(lambda reader: reader.history(KEY, 0, 4e9)))
        lan.targets[KEY].well = False
        await lan.pass_time(480)
        phone.broken = True
        lan.targets[WORKER].well = False
        await lan.pass_time(1900)
        clock.jump_wall(step_s)
        await lan.pass_time(660)  # the history is tidied meanwhile
        phone.broken = False
        await lan.pass_time(600)
        for one in lan.targets.values():
            one.well = True
        await lan.pass_time(1300)
        told = sorted(kind for kind in lan.kinds if kind != "STILL FIRING")
        assert told == ["FIRING", "FIRING", "RESOLVED", "RESOLVED"], "nothing is given up or sent twice"
        assert lan.kinds.count("STILL FIRING") <= 2, "one an hour"
        ends = [text for delivery, text in phone.accepted if delivery.kind.is_end]
        for text in ends:
            assert not re.search(r"\d d\b", f"{text.title} {text.body}"), text
        points = await lan.station.store.read_in_turn(lambda reader: reader.history(KEY, 0, 4e9))
        assert len(points) > kept, "no history is deleted"


async def test_what_began_in_1970_and_was_stored_by_then_has_begun_by_the_clock_of_today(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        station.clock = ManualClock(50.0)
        await station.restart()
        phone = station.sinks["phone"]
        phone.broken = True
        for _ in range(3):
            await station.clock.advance(60)
            await station.fail()
        await station.stop()
        station.clock = ManualClock(1_795_000_000.0)
        phone.broken = False
        await station.start()
        await station.pass_time(600)
        for _ in range(3):
            await station.ok()
        assert phone.kinds == ["FIRING", "RESOLVED"]
        assert phone.titles[-1] == "RESOLVED deepseek: recovered after 12 min"


async def test_three_days_of_sleep_with_an_open_incident_are_one_reminder_after_a_fresh_look(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        lan.targets[KEY].well = False
        await lan.pass_time(480)
        assert lan.kinds == ["FIRING"]
        looks = len(lan.targets[KEY].starts)
        lan.station.clock.sleep_for(3 * DAY_S)
        await lan.station.ingest.tick(aging=not lan.selfwatch.settling)
        await lan.station.quiet()
        if lan.kinds != ["FIRING"]:
            assert len(lan.targets[KEY].starts) > looks, "nothing is said from memory"
        await lan.pass_time(300)
        assert lan.kinds == ["FIRING", "STILL FIRING"]
        await lan.pass_time(3 * 3600, step_s=60)
        assert lan.kinds == ["FIRING", "STILL FIRING"]


async def test_an_outage_that_ended_during_a_sleep_is_resolved_without_a_reminder(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        lan.targets[KEY].well = False
        await lan.pass_time(480)
        lan.station.clock.sleep_for(8 * 3600)
        lan.targets[KEY].well = True
        await lan.pass_time(300, step_s=10)
        assert lan.kinds == ["FIRING", "RESOLVED"]


async def test_standing_still_cuts_runs_short_without_a_false_page_and_is_told_as_our_own(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(650)
        stood_at = lan.station.clock.wall()
        lan.station.clock.stand_still(600)
        await lan.pass_time(200)
        assert lan.pages == []
        assert lan.kinds == ["NEW"]
        assert "was stalled for 10 min" in lan.station.sinks["phone"].titles[0]
        ((began_at, _, reason),) = await lan.blind_windows()
        assert (abs(began_at - stood_at) <= 6, reason) == (True, "clock_jump")
        assert await phase(lan) == (Phase.OK, 0)


async def test_our_own_network_down_counts_no_strike_says_blind_and_looks_at_once_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with Lan(tmp_path) as lan:
        clock = lan.station.clock
        await lan.pass_time(650)
        lan.around.unplugged = True
        lost_at = clock.wall()
        await lan.pass_time(1800)
        assert lan.pages == []
        assert set(lan.reasons(KEY, lost_at)) == {"blind"}
        assert str(lan.selfwatch.trouble).startswith("blind")
        assert lan.kinds == ["FIRING"]  # one message for three targets
        assert "watchdog: our own network is down" in lan.station.sinks["phone"].titles[0]
        assert await phase(lan) == (Phase.OK, 0)
        lan.around.unplugged = False
        back_at = clock.wall()
        await lan.pass_time(60)
        assert all(target.starts[-1] - back_at <= 30 for target in lan.targets.values())
        assert lan.selfwatch.trouble is None
        ((began_at, ended_at, reason),) = await lan.blind_windows()
        assert reason == "blind"
        assert 0 <= began_at - lost_at <= 130
        assert 0 <= ended_at - back_at <= 30
        await lan.pass_time(130)
        assert lan.kinds == ["FIRING", "RESOLVED"]


NO_ROUTE, NO_LINK = NoWay(), NoWay("eth0")


@pytest.mark.parametrize("cut", [NO_ROUTE, NO_LINK], ids=["no route", "link down"])
@pytest.mark.parametrize("router", [ROUTER, None], ids=["router", "no router"])
@pytest.mark.parametrize("first_boot", [True, False], ids=["at first boot", "later"])
async def test_what_our_own_kernel_cannot_send_is_one_warning_of_ours_and_no_servers(
    tmp_path: Path, cut: NoWay, router: str | None, *, first_boot: bool
) -> None:
    async with Lan(tmp_path, router=router) as lan:
        if not first_boot:
            await lan.pass_time(650)
        lan.around.no_way = dict.fromkeys(["192.0.2.20", "192.0.2.10", "192.0.2.11"], cut)
        await lan.pass_time(1900)
        assert lan.kinds == ["FIRING"]
        assert lan.pages == []
        (title,) = lan.station.sinks["phone"].titles
        assert title.startswith("FIRING watchdog: our own network is down")
        assert not {"deepseek", "head", "worker"} & set(title.replace("/", " ").split())
        lan.around.no_way = {}
        await lan.pass_time(1300)
        assert lan.kinds == ["FIRING", "RESOLVED"]
        assert await phase(lan) == (Phase.OK, 0)


async def test_a_target_without_a_route_of_ours_is_unknown_alone_and_the_others_are_watched(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        lan.around.no_way = {"192.0.2.20": NO_ROUTE}
        await lan.pass_time(600)
        assert lan.kinds == ["FIRING"]
        assert lan.pages == []
        assert "this machine has no route to 192" in lan.station.sinks["phone"].titles[0]
        assert lan.selfwatch.trouble is None
        lan.around.down = {"192.0.2.10"}
        await lan.pass_time(1900)
        assert len(lan.pages) == 1, "another one that dies is a real outage"


async def test_what_was_told_of_our_network_is_resolved_after_a_restart_too(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        lan.around.unplugged = True
        await lan.pass_time(600)
        assert lan.kinds == ["FIRING"]
        await lan.stop()
        await lan.station.restart()
        lan.around.unplugged = False
        await lan.start()
        await lan.pass_time(300)
        assert lan.kinds == ["FIRING", "RESOLVED"]


async def test_a_short_blindness_is_over_as_soon_as_the_network_is_back(tmp_path: Path) -> None:
    """Only one observation was blind: nothing else may be needed to begin looking whether the network is back."""
    config = configuration()
    alone = replace(config, servers=(replace(config.servers[0], hosts=()),), hosts=())
    async with Lan(tmp_path, alone) as lan:
        await lan.pass_time(130)
        lan.around.unplugged = True
        blind_at = lan.station.clock.wall()
        while not lan.reasons(KEY, blind_at):
            await lan.pass_time(1, step_s=1)
        assert lan.reasons(KEY, blind_at) == ["blind"]
        lan.around.unplugged = False
        back_at = lan.station.clock.wall()
        await lan.pass_time(2 * LOOK_AGAIN_S, step_s=1)
        assert lan.selfwatch.trouble is None
        ((_, ended_at, reason),) = await lan.blind_windows()
        assert reason == "blind"
        assert 0 <= ended_at - back_at <= LOOK_AGAIN_S + 1


async def test_a_strike_before_the_network_went_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(650)
        lan.targets[KEY].well = False
        await lan.pass_time(200)
        _, fails = await phase(lan)
        lan.around.unplugged = True
        await lan.pass_time(1200)
        assert await phase(lan) == (Phase.PENDING, fails)
        lan.around.unplugged = False
        await lan.pass_time(400)
        assert len(lan.pages) == 1


async def test_a_server_that_is_down_alone_pages(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        lan.around.down = {"192.0.2.20"}
        await lan.pass_time(400)
        assert len(lan.pages) == 1


async def test_every_target_down_at_once_pages_while_the_router_answers(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        lan.around.down = {"192.0.2.20", "192.0.2.10", "192.0.2.11"}
        await lan.pass_time(400)
        assert len(lan.pages) == 1
        await lan.pass_time(1800)
        assert len(lan.pages) == 3


async def test_a_single_server_without_hosts_pages_when_it_dies_and_not_when_our_cable_does(tmp_path: Path) -> None:
    config = configuration()
    alone = replace(config, servers=(replace(config.servers[0], hosts=()),), hosts=())
    async with Lan(tmp_path, alone) as lan:
        await lan.pass_time(130)
        lan.around.unplugged = True
        await lan.pass_time(600)
        assert lan.pages == []
        lan.around.unplugged = False
        lan.around.down = {"192.0.2.20"}
        await lan.pass_time(600)
        assert len(lan.pages) == 1


@pytest.mark.parametrize("router", [ROUTER, None], ids=["a router that drops all packets", "no router"])
async def test_where_the_router_never_answered_nothing_is_excused(tmp_path: Path, router: str | None) -> None:
    async with Lan(tmp_path, router=router) as lan:
        lan.around.router_is_silent = True
        await lan.pass_time(2000)
        lan.around.unplugged = True
        await lan.pass_time(400)
        assert len(lan.pages) == 1


async def test_a_router_that_stops_answering_while_targets_do_is_no_witness_any_more(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        lan.around.router_is_silent = True
        await lan.pass_time(1000)
        lan.around.down = {"192.0.2.20", "192.0.2.10", "192.0.2.11"}
        await lan.pass_time(400)
        assert len(lan.pages) == 1


async def test_a_router_that_is_one_of_the_targets_is_no_witness(tmp_path: Path) -> None:
    async with Lan(tmp_path, router="192.0.2.10") as lan:
        await lan.pass_time(130)
        lan.around.down = {"192.0.2.20", "192.0.2.10", "192.0.2.11"}
        lan.around.router_is_silent = True
        await lan.pass_time(400)
        assert len(lan.pages) >= 1


async def test_a_server_on_the_watchdogs_own_machine_is_never_excused_by_the_network(tmp_path: Path) -> None:
    config = configuration()
    config = replace(config, servers=(replace(config.servers[0], base_url="http://127.0.0.1:8000/v1"),))
    async with Lan(tmp_path, config) as lan:
        await lan.pass_time(650)
        lan.around.unplugged = True
        await lan.pass_time(1300)
        assert lan.pages == []  # the hosts are blind, the server answers
        lan.around.down = {"127.0.0.1"}
        await lan.pass_time(400)
        assert [title for title in lan.pages if "deepseek" in title]


async def test_what_is_known_of_the_router_survives_a_restart_without_network(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        await lan.stop()
        await lan.station.restart()
        lan.around.unplugged = True
        await lan.start()
        await lan.pass_time(600)
        assert lan.pages == []


async def test_a_blind_time_is_stated_also_when_we_are_stopped_in_it(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        lan.around.unplugged = True
        await lan.pass_time(300)
        assert await lan.blind_windows() == []
        await lan.stop()
        ((began_at, ended_at, reason),) = await lan.blind_windows()
        assert (reason, ended_at) == ("blind", lan.station.clock.wall())
        assert ended_at - began_at > 100
        await lan.start()


async def test_a_clock_that_jumps_for_ever_delays_an_alert_but_never_hides_it(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        lan.around.down = {"192.0.2.20"}
        for _ in range(20):
            lan.station.clock.jump_wall(15.0)
            await lan.pass_time(40)
        assert len(lan.pages) == 1


async def test_a_check_that_never_completes_is_told_as_late_and_again_when_it_comes_round(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        assert lan.selfwatch.complete()
        lan.targets[KEY].hangs = True
        await lan.pass_time(330)
        assert lan.kinds == ["FIRING"]
        assert "deepseek: no result of generation/deepseek for too long" in lan.station.sinks["phone"].titles[0]
        assert not lan.selfwatch.complete()
        assert lan.pages == []
        lan.targets[KEY].hangs = False
        lan.targets[KEY].released.set()
        await lan.pass_time(600)
        assert lan.kinds[-1] == "RESOLVED"
        assert lan.selfwatch.complete()


async def test_of_many_targets_only_those_reached_last_are_knocked_at(tmp_path: Path) -> None:
    config = configuration()
    many = tuple(
        replace(config.servers[0], name=f"s{number}", base_url=f"http://192.0.2.{100 + number}/v1", hosts=())
        for number in range(40)
    )
    async with Lan(tmp_path, replace(config, servers=many, hosts=())) as lan:
        await lan.pass_time(130)
        lan.around.down = {f"192.0.2.{100 + number}" for number in range(40) if number != 33}
        lan.around.router_is_silent = True
        await lan.pass_time(400)
        assert len(lan.pages) == 39, "one that answers proves the road"
        assert lan.around.most_knocked == 16


async def test_restarts_within_seconds_are_one_strike_and_the_outage_still_pages_in_its_time(tmp_path: Path) -> None:
    async with Lan(tmp_path) as lan:
        await lan.pass_time(130)
        lan.targets[KEY].well = False
        await lan.pass_time(120)
        assert await phase(lan) == (Phase.PENDING, 1)
        for _ in range(4):
            await lan.stop()
            await lan.station.restart()
            await lan.start()
            lan.targets[KEY].well = False
            await lan.pass_time(1.5, step_s=0.5)
            assert lan.targets[KEY].starts, "it looks at once"
        assert await phase(lan) == (Phase.PENDING, 1)
        await lan.pass_time(260)
        assert len(lan.pages) == 1


@pytest.mark.parametrize("interval_s", [120.0, 20.0])
async def test_a_shorter_interval_after_a_reload_is_no_check_that_does_not_come_round(
    tmp_path: Path, interval_s: float
) -> None:
    config = configuration()
    slow = replace(config.servers[0], probe=ProbeSettings(interval_s=3600.0))
    async with Lan(tmp_path, replace(config, servers=(slow,))) as lan:
        intervals = {HEAD: 600.0, WORKER: 600.0}
        lan.targets[KEY].interval_s = 3600.0
        lan.selfwatch.watch(replace(lan.config, servers=(slow,)), {**intervals, KEY: 3600.0})
        await lan.pass_time(1500)
        quick = replace(slow, probe=ProbeSettings(interval_s=interval_s, timeout_s=5.0))
        lan.selfwatch.watch(replace(lan.config, servers=(quick,)), {**intervals, KEY: interval_s})
        assert lan.selfwatch.complete(), "the outside service is told nothing wrong"
        await lan.pass_time(30, step_s=5)
        assert lan.kinds == []
        await lan.pass_time(600)
        assert lan.kinds == ["FIRING"], "one that really does not come round is told"
