"""The labelled kernel lines and excerpts: the copied corpus, and the one that may only be read where it lies."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

COPIED = Path(__file__).parents[1] / "fixtures" / "corpus"
HELD_OUT = Path(__file__).parents[1] / "fixtures" / "kernel" / "heldout.jsonl"
IN_PLACE = Path(
    os.environ.get("INFERENCE_WATCHDOG_CORPUS_IN_PLACE", Path(__file__).parents[3] / "shared" / "corpus-in-place")
)


@dataclass(frozen=True, slots=True)
class Labelled:
    """One labelled line, as README-kernel-lines.md describes it."""

    line: str
    raw: str
    label: str
    kind: str
    alt: tuple[str, ...]
    core: bool
    role: str

    @property
    def accepted(self) -> tuple[str, ...]:
        """Every label a reasonable person could give."""
        return (self.label, *self.alt)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A multi-line piece of a real log with what must and must not come out."""

    name: str
    data: bytes
    expected_kinds: tuple[str, ...]
    worst: str
    must_not: tuple[str, ...]


def copied_lines() -> list[Labelled]:
    """The corpus that belongs to the project."""
    return _lines(COPIED / "kernel-lines.dev.jsonl")


def held_out_lines() -> list[Labelled]:
    """Lines gathered and labelled without a look at the rules (tests/fixtures/kernel/README.md)."""
    return _lines(HELD_OUT)


def in_place_lines() -> list[Labelled]:
    """The corpus beside the checkout; the test is skipped, loudly, where it is missing."""
    return _lines(_beside("kernel-lines.jsonl"))


def copied_excerpts() -> list[Excerpt]:
    """The excerpts that belong to the project."""
    return _excerpts(COPIED / "excerpts")


def in_place_excerpts() -> list[Excerpt]:
    """The excerpts beside the checkout; the test is skipped, loudly, where they are missing."""
    return _excerpts(_beside("excerpts"))


def _beside(name: str) -> Path:
    path = IN_PLACE / name
    if not path.exists():
        pytest.skip(f"NOT SCORED: no {name} in the corpus beside the checkout; set INFERENCE_WATCHDOG_CORPUS_IN_PLACE")
    return path


def _lines(path: Path) -> list[Labelled]:
    entries: list[dict[str, Any]] = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        Labelled(
            line=entry["line"],
            raw=entry["raw"],
            label=entry["label"],
            kind=entry["kind"],
            alt=tuple(entry.get("alt") or ()),
            core=bool(entry.get("core")),
            role=entry.get("role", ""),
        )
        for entry in entries
    ]


def _excerpts(folder: Path) -> list[Excerpt]:
    found = []
    for path in sorted(folder.glob("*.json")):
        about = json.loads(path.read_text("utf-8"))
        found.append(
            Excerpt(
                name=path.stem,
                data=path.with_suffix(".txt").read_bytes(),
                expected_kinds=tuple(about["expected_kinds"]),
                worst=about["worst"],
                must_not=tuple(about["must_not"]),
            )
        )
    return found
