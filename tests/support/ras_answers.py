"""The recorded answers of NCCL's RAS service (`tests/fixtures/nccl`), look by look."""

from __future__ import annotations

import re
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures/nccl"
FORMATS = ("text", "json")


def recorded(kind: str) -> dict[str, bytes]:
    """State → what was answered, in the order of the recording; `kind` is one of `FORMATS`."""
    text = (FIXTURES / f"ras-2.28.9-{kind}.txt").read_text(encoding="utf-8")
    parts = re.split(r"^##### (\S+) · .*\n", text, flags=re.MULTILINE)
    return {state: body.encode() for state, body in zip(parts[1::2], parts[2::2], strict=True)}


def lines_of(answer: bytes) -> list[bytes]:
    """A recorded answer as the data lines that the reader makes of it."""
    if answer.startswith(b"<TimeoutError"):
        return [b"nccl_rc=hangs"]
    if answer.startswith(b"<ConnectionRefused"):
        return [b"nccl_rc=nobody"]
    return [*(b"| " + line for line in answer.splitlines()), b"nccl_rc=done"]
