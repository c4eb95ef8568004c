"""The status page in headless Chromium: nothing asked of others, no complaint, accessible; and its pictures for docs/.

`INFERENCE_WATCHDOG_SCREENSHOTS=docs/screenshots pytest tests/e2e/test_page_in_browser.py` writes the pictures anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.accessibility import violations
from tests.support.alerting_path import configuration
from tests.support.browser import Tab, browser
from tests.support.month_of_history import write_month
from tests.support.web_server import Served, served
from watchdog.overview.report import report_of, report_page
from watchdog.overview.statistics import span_between
from watchdog.store import Reader, Store

pytestmark = [pytest.mark.real, pytest.mark.slow]
NOW = 1_795_970_000.0
PICTURES = os.environ.get("INFERENCE_WATCHDOG_SCREENSHOTS")
VIEWS: list[tuple[str, str, str, dict[str, int | bool]]] = [
    ("empty", "empty", "", {}),
    ("healthy", "healthy", "", {}),
    ("healthy-dark", "healthy", "", {"dark": True}),
    ("slow-7-days", "slow", "?range=7d", {}),
    ("firing", "firing", "", {}),
    ("firing-dark", "firing", "", {"dark": True}),
    ("firing-phone", "firing", "", {"width": 390, "height": 844}),
    ("firing-phone-dark", "firing", "", {"width": 390, "height": 844, "dark": True}),
    ("30-days", "firing", "?range=30d", {}),
]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import asyncio

    root = tmp_path_factory.mktemp("states")

    async def write() -> None:
        store = Store.open(root / "empty", NOW)
        await store.close()
        await write_month(root / "healthy", NOW)
        await write_month(root / "slow", NOW, slow_now=5.0)
        await write_month(root / "firing", NOW, firing=True, extra=25)

    asyncio.run(write())
    return root


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with browser(tmp_path / "profile") as opened:
        yield opened


def keep(name: str, picture: bytes) -> None:
    """Write a picture, with few colours, so that it is small."""
    if PICTURES is None:
        return
    target = Path(PICTURES) / f"{name}.png"
    target.write_bytes(picture)
    if shutil.which("pngquant"):
        subprocess.run(
            ["pngquant", "--force", "--skip-if-larger", "--strip", "--output", str(target), "40", str(target)],
            check=False,
        )


async def shown(tab: Tab, page: Served, path: str, size: dict[str, int | bool]) -> None:
    tab.requests.clear()
    tab.complaints.clear()
    await tab.open(page.url + path, **size)  # type: ignore[arg-type]


async def test_the_page_asks_nobody_else_breaks_no_rule_and_can_be_used_by_everybody(states: Path, tab: Tab) -> None:
    """Empty, healthy, slow and firing; 24 hours and 30 days; desktop and phone; light and dark."""
    for name, state, path, size in VIEWS:
        async with served(states / state, configuration(), NOW) as page:
            await shown(tab, page, path, size)
            keep(name, await tab.picture(whole=not name.startswith("firing-phone")))
            assert {url for url in tab.requests if not url.startswith(page.url)} == set(), name
            assert tab.complaints == [], name
            assert await violations(tab) == [], name
            assert await tab.run("document.documentElement.scrollWidth <= window.innerWidth"), f"{name} sticks out"


async def test_a_report_is_one_file_that_breaks_no_rule_and_can_be_used_by_everybody(
    states: Path, tab: Tab, tmp_path: Path
) -> None:
    with Reader.open(states / "firing") as reader:
        report = report_of(reader, span_between(NOW - 7 * 86400, NOW, None))
    file = tmp_path / "report.html"
    file.write_text(report_page(report, None, "0.1.0"), encoding="utf-8")
    await tab.open(file.as_uri())
    keep("report", await tab.picture())
    assert tab.requests == [file.as_uri()]
    assert tab.complaints == []
    assert await violations(tab) == []


async def test_the_keyboard_reaches_every_link_and_every_incident(states: Path, tab: Tab) -> None:
    async with served(states / "firing", configuration(), NOW) as page:
        await shown(tab, page, "?range=30d", {})
        reachable = await tab.run(
            "Array.from(document.querySelectorAll('a[href], summary'))"
            ".every(e => {e.focus(); return document.activeElement === e})"
        )
        assert reachable
        assert await tab.run("document.querySelectorAll('summary').length") > 5
        assert await tab.run("document.querySelector('script') === null")


async def test_the_audit_would_find_a_fault(tab: Tab) -> None:
    faint = "<p style='color:%23999;background:%23aaa'>hard to read</p>"
    await tab.open(f"data:text/html,<title>x</title><main><h1>x</h1>{faint}</main>")
    assert {one["id"] for one in await violations(tab)} >= {"color-contrast", "html-has-lang"}
