"""Replies of engines, proxies and gateways, with their verdicts; who wrote them knew the servers, and the code, too.

A line of `tests/fixtures/kept_back/replies.jsonl` holds the steps of the reply and in `want` the verdict and the reason
(or the reasons that are both right). All are probed over real sockets, some at the same time.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.reply_cases import probe_case
from watchdog.checks.generation_report import ProbeOutcome

_FILE = Path(__file__).parents[1] / "fixtures/kept_back/replies.jsonl"
_CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in map(json.loads, _FILE.read_text().splitlines())}
_AT_ONCE = 12


@pytest.fixture(scope="module")
def outcomes() -> dict[str, ProbeOutcome]:
    """What each case was judged as."""

    async def all_of_them() -> list[ProbeOutcome]:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(case: dict[str, Any]) -> ProbeOutcome:
            async with turns:
                return await probe_case(case)

        return await asyncio.gather(*map(one, _CASES.values()))

    return dict(zip(_CASES, asyncio.run(all_of_them()), strict=True))


@pytest.mark.parametrize("name", _CASES)
def test_a_kept_back_reply_is_judged_as_its_server_means_it(name: str, outcomes: dict[str, ProbeOutcome]) -> None:
    want, outcome = _CASES[name]["want"], outcomes[name]
    reasons = [want["reason"]] if isinstance(want["reason"], str) else want["reason"]
    assert outcome.verdict.value == want["verdict"], outcome.summary()
    assert outcome.reason.value in reasons, outcome.summary()
    assert outcome.severity.value == want.get("severity", outcome.severity.value)
