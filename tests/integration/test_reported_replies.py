"""Replies of public reports on which the verdict was once wrong, played over a real socket.

A file of `tests/fixtures/replies` holds the steps that answer each chat request, the pages beside it, and in `want`
what is right. All are probed at the same time, once, because each hanging one takes its whole deadline.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.reply_cases import probe_case
from watchdog.checks.generation_report import ProbeOutcome

_CASES = {
    path.stem: json.loads(path.read_text()) for path in (Path(__file__).parents[1] / "fixtures/replies").iterdir()
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, ProbeOutcome]:
    """What each case was judged as."""

    async def all_of_them() -> list[ProbeOutcome]:
        return await asyncio.gather(*map(probe_case, _CASES.values()))

    return dict(zip(_CASES, asyncio.run(all_of_them()), strict=True))


@pytest.mark.parametrize("name", sorted(_CASES))
def test_a_reply_of_a_public_report_is_judged_as_it_should_have_been(
    name: str, outcomes: dict[str, ProbeOutcome]
) -> None:
    want, outcome = _CASES[name]["want"], outcomes[name]
    assert outcome.verdict.value == want["verdict"]
    reasons = want.get("reason", outcome.reason.value)
    assert outcome.reason.value in ([reasons] if isinstance(reasons, str) else reasons)
    assert outcome.severity.value == want.get("severity", outcome.severity.value)


_QUOTED = {
    "b03-mistralrs-1874": "Number of choices must be greater than 0.",
    "b03v-plain-text-errors_a_end": "Number of choices must be greater than 0.",
    "b03v-plain-text-errors_b_end": "Model worker crashed: CUDA error 700",
    "b03v-plain-text-errors_c_end": "Error: engine thread panicked",
    "b03v-plain-text-errors_d_end": "Internal Server Error",
    "b03v-plain-text-errors_e_end": "upstream model is gone",
    "b03v-plain-text-errors_f_after_text": "Error: engine thread panicked",
}


@pytest.mark.parametrize("name", sorted(_QUOTED))
def test_an_error_in_plain_words_inside_a_stream_is_quoted(name: str, outcomes: dict[str, ProbeOutcome]) -> None:
    assert _QUOTED[name] in outcomes[name].summary()
