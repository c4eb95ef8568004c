"""The web part over real state and real HTTP: who may look, what is shown, how fast, and what hostile texts do."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.alerting_path import KEY, Station, configuration, line_seen, observed, paced
from tests.support.month_of_history import write_month
from tests.support.web_server import Served, served
from tests.unit.test_html import HOSTILE, parsed
from watchdog.config import Secret, WebSettings
from watchdog.errors import StoreError
from watchdog.model import CheckResult, Evidence, Silence, Verdict
from watchdog.overview.statistics import Length, blind_seconds, windows_hiding
from watchdog.overview.status import Status
from watchdog.store import PLAN, BlindWindow, Reader
from watchdog.web import server
from watchdog.web.page import PageData
from watchdog.web.page import page as page_of

NOW = 1_795_970_000.0
TOKEN = "0123456789abcdef-token"
LOCKED = WebSettings(listen="127.0.0.1:0", token=Secret(TOKEN), names=("watchdog.example.org",))
STRANGERS = ("evil.example", "evil.example:9877", "watchdog.example.org.evil.example", "", "a b", "[")
PATHS = ("", "healthz", "api/status", "badge.svg", "icon.svg", "metrics", "probe?server=deepseek")


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path / "state", configuration(), NOW) as running:
        yield running


@pytest.fixture
async def locked(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path / "state", configuration(), NOW, settings=LOCKED) as running:
        yield running


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("month")
    asyncio.run(write_month(directory, NOW, firing=True, extra=300))
    return directory


@pytest.mark.parametrize("path", PATHS)
async def test_it_can_only_be_looked_at(page: Served, path: str) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        status, headers, _ = await page.get(path, method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD"), method
    status, _, text = await page.get(path, "HEAD")
    assert status in (200, 403)
    assert text == ""


@pytest.mark.parametrize("path", [*PATHS, "nothing-here"])
async def test_every_reply_forbids_scripts_frames_and_guessing(page: Served, path: str) -> None:
    _, headers, _ = await page.get(path)
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Server"] == "inference-watchdog"


@pytest.mark.parametrize("host", STRANGERS)
async def test_a_stranger_s_name_for_our_address_opens_nothing(page: Served, host: str) -> None:
    """A page of a stranger can make a browser ask us under the stranger's name (DNS rebinding)."""
    status, _, text = await page.get("", Host=host)
    assert status in (400, 421)
    assert "deepseek" not in text


@pytest.mark.parametrize("host", ["127.0.0.1:9877", "localhost", "LOCALHOST:1", "[::1]:9877", "192.0.2.5"])
async def test_addresses_and_localhost_are_ours(page: Served, host: str) -> None:
    assert (await page.get("", Host=host))[0] == 200


async def test_a_configured_name_is_ours(locked: Served) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert (await locked.get("", Host="watchdog.example.org:9877", **bearer))[0] == 200
    assert (await locked.get("", Host="other.example.org", **bearer))[0] == 421


def basic(password: str, user: str = "ada") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("path", [path for path in PATHS if path != "healthz"])
async def test_with_a_token_nothing_is_shown_without_it(locked: Served, path: str) -> None:
    refused = ("", "Bearer", "Bearer wrong", basic("wrong"), basic("", TOKEN), "Basic !!", "Digest x", f"Token {TOKEN}")
    for given in refused:
        status, headers, text = await locked.get(path, **({"Authorization": given} if given else {}))
        assert status == 401, given
        assert headers["WWW-Authenticate"].startswith("Basic ")
        assert TOKEN not in text
    for given in (f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN), basic(TOKEN, "")):
        assert (await locked.get(path, Authorization=given))[0] in (200, 403), given


@pytest.mark.parametrize("given", [b"Bearer \xff", b"Basic \xff", b"Basic " + base64.b64encode(b"ada:\xff")])
async def test_a_token_of_any_bytes_is_only_a_wrong_one(locked: Served, given: bytes) -> None:
    port = int(locked.url.rstrip("/").rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: " + given + b"\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
    writer.close()


async def test_health_is_open_but_says_no_more_than_it_must(locked: Served) -> None:
    status, _, text = await locked.get("healthz")
    assert (status, json.loads(text)) == (
        200,
        {"version": 1, "status": "ok", "program": "inference-watchdog", "instance": "", "role": "first"},
    )
    _, _, text = await locked.get("healthz", Authorization=basic(TOKEN))
    assert json.loads(text) == {
        "version": 1,
        "status": "ok",
        "program": "inference-watchdog",
        "instance": "",
        "role": "first",
        "late": [],
        "storage": None,
        "undelivered": None,
    }


async def test_health_is_good_only_while_the_checks_go_on(page: Served) -> None:
    page.progress.late = ("generation/deepseek",)
    status, _, text = await page.get("healthz")
    assert (status, json.loads(text)["status"], json.loads(text)["late"]) == (503, "late", ["generation/deepseek"])
    page.progress.late, page.progress.fresh, page.progress.last_completed_at = (), ("generation/deepseek",), {}
    status, _, text = await page.get("healthz")
    assert (status, json.loads(text)["status"]) == (503, "starting")


async def test_health_is_bad_while_the_state_cannot_be_written(page: Served) -> None:
    def full(_ask: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with pytest.raises(StoreError):
        await page.store.request(full)
    assert page.store.trouble is not None
    status, _, text = await page.get("healthz")
    assert (status, json.loads(text)["status"]) == (503, "storage")
    assert "go on from memory" in (await page.get(""))[2]
    assert "inference_watchdog_storage_ok 0.0" in (await page.get("metrics"))[2]


async def test_the_status_is_that_of_the_command(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        await station.ok()
        await station.fail()
        await station.look(line_seen())
        await station.ingest.take(PLAN, CheckResult((), memory={KEY: {"interval_s": 120.0, "failures": 3}}))
        now = station.clock.wall()
    async with served(tmp_path, configuration(), now) as running:
        _, _, text = await running.get("api/status")
    done = subprocess.run(
        [sys.executable, "-m", "watchdog", "status", "--json", "--state-dir", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    page, command = json.loads(text), json.loads(done.stdout)
    assert page["version"] == command["version"] == 1
    assert page["health"] == "firing"
    for changing in ("at", "health"):
        del page[changing], command[changing]
    assert page == command
    (check,) = [one for one in page["checks"] if one["check"] == KEY]
    assert (check["phase"], check["fails"], check["failures"]) == ("pending", 1, 3)
    assert check["next_at"] == check["last_at"] + 120.0


async def test_the_page_shows_state_incidents_kernel_lines_silences_and_blind_times(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        await station.ok()
        await station.pass_time(120)
        await station.fail()
        await station.look(line_seen())
        silence = Silence(
            id="s1", matcher={"host": "worker"}, starts_at=station.clock.wall(),
            ends_at=station.clock.wall() + 7200, reason="new riser", author="ada",
        )  # fmt: skip
        await station.store.request(lambda ask: ask.add_silence(silence))
        await station.store.record_blind(station.clock.wall() - 60, station.clock.wall() - 30, "asleep")
        now = station.clock.wall() + 5
    async with served(tmp_path, configuration(), now) as running:
        status, headers, text = await running.get("")
        _, _, badge = await running.get("badge.svg")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    for words in ("1 incident firing", "pending 1", "AER: Uncorrectable (Fatal) error", "new riser", "asleep", "phone"):
        assert words in text, words
    assert "1 incident firing" in badge
    names = parsed(text)
    assert "script" not in names.elements
    assert "style" not in names.attributes
    assert not [name for name in names.attributes if name.startswith("on")]


async def test_hostile_texts_are_harmless_on_the_page_in_the_badge_and_in_metrics(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for number, hostile in enumerate(HOSTILE):
            evidence = (Evidence(station.clock.wall(), hostile[:40], hostile),)
            kind = f"made.up{number}"
            await station.look(line_seen(kind=kind, summary=hostile, advice=hostile, evidence=evidence))
            await station.fail(summary=hostile, reason=hostile[:60])
        now = station.clock.wall()
    async with served(tmp_path, configuration(), now) as running:
        texts = {
            path: (await running.get(path))[2] for path in ("", "?range=30d", "badge.svg", "metrics", "api/status")
        }
        status, _, strange = await running.get("?server=%3Cscript%3Ealert(1)%3C/script%3E")
    assert status == 404
    for path in ("", "?range=30d"):
        names = parsed(texts[path])
        assert not {"script", "img", "iframe"} & set(names.elements)
        assert names.elements.count("h1") == 1
        assert names.elements.count("style") == 1
        assert not [name for name in names.attributes if name.startswith("on")]
        assert len(texts[path]) < 200_000
    assert "<script" not in strange
    for text in texts.values():
        assert not [sign for sign in text if sign != "\n" and not sign.isprintable()]
        assert "\u202e" not in json.dumps(text, ensure_ascii=False)


async def test_hostile_texts_are_harmless_in_the_terminal_and_the_report(tmp_path: Path) -> None:
    async with Station(tmp_path / "state") as station:
        for hostile in HOSTILE:
            await station.fail(summary=hostile, evidence=(Evidence(None, "kernel", hostile),))
        await station.look(line_seen(summary=HOSTILE[4]))
    report = tmp_path / "report.html"
    for command in (
        ("status",), ("history",), ("history", "--observations"), ("report",), ("report", "--html", str(report)),
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "watchdog", *command, "--state-dir", str(tmp_path / "state")]
            + (["--days", "400"] if command[0] != "status" else []),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1, 2, 3), done.stderr
        assert not [sign for sign in done.stdout if sign != "\n" and not sign.isprintable()], command
        assert len(done.stdout) < 50_000
    names = parsed(report.read_text())
    assert not {"script", "img"} & set(names.elements)


async def test_thirty_days_are_small_and_quick(month: Path) -> None:
    """21,600 probes and 8,640 scans, 306 incidents: below 300 ms of work and 500 kB."""
    with Reader.open(month) as reader:
        spent = []
        for _ in range(5):
            began = time.process_time()
            text = page_of(PageData.read(reader, NOW, Length.MONTH), "0.1.0")
            spent.append(time.process_time() - began)
    assert len(text.encode()) < 500_000
    assert min(spent) < 0.3
    async with served(month, configuration(), NOW) as running:
        assert "of 21" in (await running.get("?range=30d"))[2]


async def test_many_who_reload_get_one_drawing(month: Path) -> None:
    async with served(month, configuration(), NOW) as running:
        began = time.process_time()
        replies = await asyncio.gather(*(running.get("?range=30d") for _ in range(30)))
        assert {status for status, _, _ in replies} == {200}
        assert len({text for _, _, text in replies}) == 1
        assert time.process_time() - began < 3.0


async def test_many_who_ask_for_the_status_get_one_reading(month: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(month, configuration(), NOW) as running:
        readings = 0
        plainly = Status.read

        def counted(*arguments: Any) -> Status:
            nonlocal readings
            readings += 1
            return plainly(*arguments)

        monkeypatch.setattr(Status, "read", counted)
        replies = await asyncio.gather(*(running.get("api/status") for _ in range(30)))
        assert {status for status, _, _ in replies} == {200}
        assert readings == 1


async def test_a_thousand_servers_make_a_page_too(tmp_path: Path) -> None:
    async with Station(tmp_path) as station:
        for number in range(1000):
            await station.ingest.take(f"generation/s{number}", run_of(f"generation/s{number}", number, station))
        await station.ingest.take("generation/s7", run_of("generation/s7", -1, station))
        await station.quiet()
        now = station.clock.wall()
    async with served(tmp_path, configuration(), now) as running:
        began = time.process_time()
        status, _, text = await running.get("")
        assert time.process_time() - began < 3.0
    assert status == 200
    assert len(text) < 500_000
    assert text.index("s7") < text.index("s100"), "those that are not well come first"


def run_of(key: str, number: int, station: Station) -> CheckResult:
    verdict = Verdict.FAIL if number < 0 else Verdict.PASS
    return CheckResult((observed(verdict, key, at=station.clock.wall()),))


async def test_an_unknown_range_or_path_is_refused_in_words(page: Served) -> None:
    assert (await page.get("?range=1y"))[0] == 400
    assert (await page.get("nothing-here"))[0] == 404


async def test_a_probe_is_made_only_when_it_was_asked_for_in_the_configuration(page: Served) -> None:
    status, _, text = await page.get("probe?server=deepseek")
    assert status == 403
    assert "probe_on_scrape" in text
    assert page.asked_for == []


async def test_scraped_probes_are_shared_by_all_who_ask(tmp_path: Path) -> None:
    settings = WebSettings(listen="127.0.0.1:0", probe_on_scrape=True)
    async with served(tmp_path, paced(configuration()), NOW, settings=settings) as running:
        running.answers["deepseek"] = observed(Verdict.PASS, at=NOW, measurements={"ttft_s": 0.2})
        replies = await asyncio.gather(*(running.get("probe?server=deepseek") for _ in range(8)))
        assert running.asked_for == ["deepseek"]
        assert all('inference_watchdog_probe_success{server="deepseek"} 1.0' in text for _, _, text in replies)
        await running.get("probe?server=deepseek")
        assert running.asked_for == ["deepseek"], "within half of its interval it is the same probe"
        await running.clock.advance(61)
        await running.get("probe?server=deepseek")
        assert running.asked_for == ["deepseek", "deepseek"]
        assert (await running.get("probe?server=stranger"))[0] == 404
        elsewhere = {"Sec-Fetch-Site": "cross-site"}
        assert (await running.get("probe?server=deepseek", **elsewhere))[0] == 403


async def test_a_scrape_is_answered_before_its_own_limit_and_the_probe_goes_on(tmp_path: Path) -> None:
    settings = WebSettings(listen="127.0.0.1:0", probe_on_scrape=True)
    async with served(tmp_path, paced(configuration()), NOW, settings=settings) as running:
        running.answers["deepseek"] = observed(Verdict.PASS, at=NOW)
        limit = {"X-Prometheus-Scrape-Timeout-Seconds": "0.6"}
        _, _, text = await running.get("probe?server=deepseek", **limit)
        assert 'probe_success{server="deepseek"} 0.0' in text
        assert "scrape_timeout" in text
        await asyncio.sleep(0.4)
        _, _, text = await running.get("probe?server=deepseek", **limit)
        assert 'probe_success{server="deepseek"} 1.0' in text
        assert running.asked_for == ["deepseek"]


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([], 0.0),
        ([(100.0, 160.0, "")], 60.0),
        ([(100.0, 160.0, "a"), (150.0, 200.0, "")], 100.0),
        ([(100.0, None, "a")], 900.0),
        ([(-50.0, 20.0, ""), (100.0, 200.0, "b")], 20.0),
        ([(990.0, 2000.0, "a")], 10.0),
    ],
)
def test_blind_time_counts_once_and_only_since_our_start(
    windows: list[tuple[float, float | None, str]], expected: float
) -> None:
    found = [BlindWindow(began, ended, key, "x") for began, ended, key in windows]
    assert blind_seconds(windows_hiding(found, "a"), 0.0, 1000.0) == expected


def test_a_daemon_without_a_page_loads_no_web_server_and_no_counters() -> None:
    heavy = (
        "aiohttp.web",
        "prometheus_client",
        "watchdog.web.server",
        "watchdog.web.metrics",
        "watchdog.overview.html",
    )
    code = f"import sys, watchdog.daemon; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_taken_port_does_not_stop_the_watching_and_is_tried_again(tmp_path: Path) -> None:
    taken = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    told: list[str] = []

    def free_it(logs: Sequence[Mapping[str, Any]]) -> None:
        told.extend(f"{line['event']}: {line['advice']}" for line in logs)
        taken.close()

    settings = WebSettings(listen=f"127.0.0.1:{port}")
    async with served(tmp_path, configuration(), NOW, settings=settings, before_it_listens=free_it) as running:
        assert (await running.get("healthz"))[0] == 200
    assert told[0].startswith("web_cannot_listen: Watching and alerting go on")


async def test_pages_that_take_long_are_kept_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, configuration(), NOW) as running:
        drawn: list[float] = []

        def slow(*_args: object, **_kwargs: object) -> str:
            drawn.append(running.clock.monotonic())
            running.clock.stand_still(5.0)
            return "<!doctype html>"

        monkeypatch.setattr(server, "page", slow)
        await running.get()
        for _ in range(44):
            await running.clock.advance(1.0)
            await running.get()
        assert len(drawn) == 1
        await running.clock.advance(2.0)
        await running.get()
        assert len(drawn) == 2
