"""One word for one thing (docs/glossary.md): words that were given up do not come back."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "watchdog"
SOURCES = sorted(PACKAGE.rglob("*.py"))
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
RETIRED_NAMES = frozenset(
    [
        "aftermath",
        "board",
        "complaint",
        "door",
        "doors",
        "draft",
        "excuse",
        "excused",
        "excuses",
        "fate",
        "fold",
        "folded",
        "folds",
        "gathered",
        "hasten",
        "knock",
        "knocks",
        "lanes",
        "moment",
        "moments",
        "monitor",
        "neighbourhood",
        "offered",
        "pieces",
        "presence",
        "reach",
        "refuge",
        "refusal",
        "road",
        "roads",
        "scene",
        "scenery",
        "sight",
        "spoken",
        "stranger",
        "strangers",
        "talk",
        "told",
        "wish",
        "wishes",
    ]
)
"""Parts of names that no module, class or function has any more."""
RETIRED_PHRASES = (
    r"\bSo looks\b",
    r"\bnever said a word\b",
    r"\bwell again\b",
    r"\bcomes and goes\b",
    r"\bis no (?:usable )?[a-z]+ ?name\b",
    r"\bfor want of\b",
    r"\banew\b",
    r"\bone sign repeated\b",
    r"\bdoes not come back\b",
    r"\bnot told\b",
    r"\bcounts from the next login\b",
    r"\bstands by for nobody\b",
    r"\bjumps over itself\b",
    r"\bnothing bears\b",
    r"\bout of files\b",
    r"\bhanded over\b",
    r"\bNothing was to be delivered\b",
    r"\b1 lines\b",
    r"\bkin\b",
    r"\bno more are taken\b",
)
"""Phrases that read as translated; the glossary's or the field's words stand in their place."""


def _words(name: str) -> set[str]:
    """`SshRoad`, `OWN_ROAD` → {"ssh", "road"}, {"own", "road"}."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_name_uses_a_retired_word(path: Path) -> None:
    names = {path.parent.name if path.stem == "__init__" else path.stem}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):  # members of an enum
            names |= {
                name.id
                for row in node.body
                if isinstance(row, ast.Assign)
                for name in ast.walk(row.targets[0])
                if isinstance(name, ast.Name)
            }
    assert {name for name in names if _words(name) & RETIRED_NAMES} == set(), "docs/glossary.md has the word to use"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_text_uses_a_retired_phrase(path: Path) -> None:
    said = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    found = [(phrase, text[:80]) for text in said for phrase in RETIRED_PHRASES if re.search(phrase, text)]
    assert found == [], "plain, idiomatic English: docs/glossary.md"


def test_the_glossary_defines_no_word_twice() -> None:
    rows = re.findall(r"^\| ([^|]+?) \|", GLOSSARY, re.MULTILINE)
    words = [word.strip() for row in rows if row not in ("word", "---") for word in row.split(",")]
    assert len(words) > 40
    assert sorted({word for word in words if words.count(word) > 1}) == []


def test_the_glossary_names_the_words_of_the_design() -> None:
    """The words of the contract: each has its row."""
    rows = " ".join(re.findall(r"^\| ([^|]+?) \|", GLOSSARY, re.MULTILINE))
    wanted = [
        "target",
        "host",
        "server",
        "check",
        "probe",
        "observation",
        "verdict",
        "reason",
        "evidence",
        "severity",
        "incident",
        "notification",
        "receiver",
        "outbox",
        "silence",
        "acknowledge",
        "maintenance",
        "reminder",
        "heartbeat",
        "blind",
    ]
    assert [word for word in wanted if word not in rows] == []
