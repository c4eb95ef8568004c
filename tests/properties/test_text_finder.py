"""The small finder finds exactly what `in` finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from watchdog.kernlog.matcher import TextFinder
from watchdog.rulebook import load_rules

TEXTS = sorted({text for rule in load_rules().rules for branch in rule.branches for text in branch.texts})
FINDER = TextFinder(TEXTS)
PIECES = st.lists(st.one_of(st.sampled_from(TEXTS), st.text(max_size=8), st.sampled_from(TEXTS).map(lambda t: t[:-1])))


@given(PIECES)
def test_the_finder_sees_exactly_the_texts_that_stand_in_the_line(pieces: list[str]) -> None:
    line = "".join(pieces).encode("utf-8", "surrogatepass")
    assert FINDER.seen(line) == {number for number, text in enumerate(TEXTS) if text.encode() in line}


@given(st.lists(st.text(alphabet="ab", min_size=3, max_size=5), max_size=8), st.text(alphabet="ab", max_size=40))
def test_the_finder_sees_texts_that_overlap(texts: list[str], line: str) -> None:
    assert TextFinder(texts).seen(line.encode()) == {number for number, text in enumerate(texts) if text in line}
