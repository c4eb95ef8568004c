"""The transcripts under docs/transcripts show every planted fault with its fix, and nothing of one machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TRANSCRIPTS = Path(__file__).parents[2] / "docs" / "transcripts"
FAULTS = {
    "unknown-host": ("host_key_unknown", "ssh-keygen -lf"),
    "changed-key": ("host_key_changed", "ssh-keygen -R"),
    "refused-key": ("key_refused", "authorized_keys: restrict ssh-ed25519 "),
    "no-journal-group": ("no_permission", "sudo usermod -aG systemd-journal"),
    "wrong-port": ("refused", "`port`"),
    "silent-port": ("silent", "console"),
    "wrong-model": ("unknown_model", "Set `model: "),
    "wrong-api-key": ("auth", "api_key"),
    "typo-in-a-receiver-url": ("did you mean", "appriseit.com"),
    "clock-10-minutes-off": ("clock_offset", "timedatectl set-ntp true"),
}


def test_there_is_a_transcript_for_each_of_the_ten_faults() -> None:
    assert {path.stem.removeprefix("fault-") for path in TRANSCRIPTS.glob("fault-*.txt")} == set(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_repaired_by_both_commands(name: str) -> None:
    text = (TRANSCRIPTS / f"fault-{name}.txt").read_text(encoding="utf-8")
    slug, fix = FAULTS[name]
    init, doctor = text.split("$ inference-watchdog doctor")
    assert "PROBLEM " in init
    assert slug in init
    assert re.search(r"^fail  ", doctor, re.MULTILINE)
    assert fix in text
    assert init.count("→") == 1
    assert "→" in doctor


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.name)
def test_a_transcript_names_no_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"/tmp/|pytest|127\.0\.0\.1|/root\b|\bwatch@|\bplain\b", text) == []
