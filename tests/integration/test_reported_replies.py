"""Replies of public reports on which the verdict was once wrong, played over a real socket.

A file of `tests/fixtures/replies`, in the folder of its engine, holds the steps that answer each chat request, the
pages beside it, and in `want` what is right. All are probed at the same time, once, because each hanging one takes its
whole deadline.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.reply_cases import probe_case
from watchdog.checks.generation_report import ProbeOutcome

_REPLIES = Path(__file__).parents[1] / "fixtures/replies"
_CASES = {
    str(path.relative_to(_REPLIES).with_suffix("")): json.loads(path.read_text()) for path in _REPLIES.glob("*/*.json")
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
    "mistral.rs/plain-text-error-then-silence": "Number of choices must be greater than 0.",
    "mistral.rs/plain-text-error": "Number of choices must be greater than 0.",
    "any-engine/plain-text-error-event": "Model worker crashed: CUDA error 700",
    "any-engine/plain-text-error": "Error: engine thread panicked",
    "any-engine/plain-text-error-then-done": "Internal Server Error",
    "any-engine/json-string-error": "upstream model is gone",
    "any-engine/plain-text-error-after-text": "Error: engine thread panicked",
}


@pytest.mark.parametrize("name", sorted(_QUOTED))
def test_an_error_in_plain_words_inside_a_stream_is_quoted(name: str, outcomes: dict[str, ProbeOutcome]) -> None:
    assert _QUOTED[name] in outcomes[name].summary()
