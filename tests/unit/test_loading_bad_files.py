"""Every bad configuration under `tests/fixtures/config/bad` gives exactly the messages that stand next to it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.support.config_files import ENVIRON, FIXTURES, SECRETS, accepting, asking_apprise, lay_out
from watchdog.errors import ConfigError
from watchdog.loading import load, read, yaml_tree

BAD = sorted((FIXTURES / "bad").glob("*.yaml"))
OPEN_TO_ALL = ("world-readable-config-with-a-secret",)
"""Fixtures that are read with mode 0644; all others with 0600."""


def problems_of(path: Path) -> str:
    """All that is wrong with the configuration at `path`, with its folder left out."""
    with pytest.raises(ConfigError) as caught:
        load(path, environ=ENVIRON, check_urls=asking_apprise)
    text = str(caught.value)
    for secret in SECRETS:
        assert secret not in text
    return text.replace(str(path) + ":", "config.yaml:").replace(str(path.parent), "{folder}")


@pytest.mark.parametrize("bad", BAD, ids=[path.stem for path in BAD])
def test_a_bad_file_gives_its_expected_messages(bad: Path, tmp_path: Path) -> None:
    """All problems, in file order, each with file, line, column, path and what to do."""
    path = lay_out(tmp_path, bad, mode=0o644 if bad.stem in OPEN_TO_ALL else 0o600)
    assert problems_of(path) == bad.with_suffix(".expect.txt").read_text().rstrip("\n")


def test_the_corpus_is_complete() -> None:
    """At least 35 cases, each with its messages, and no message file without its case."""
    assert len(BAD) >= 35
    assert {path.stem for path in BAD} == {
        path.name.removesuffix(".expect.txt") for path in (FIXTURES / "bad").glob("*.txt")
    }


@pytest.mark.alone
def test_a_file_of_50_mb_is_refused_at_once(tmp_path: Path) -> None:
    """By its size, without reading it."""
    path = tmp_path / "config.yaml"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    began = time.perf_counter()
    assert problems_of(path) == "config.yaml: file '{folder}/config.yaml' is larger than 1024 KiB"
    assert time.perf_counter() - began < 0.5


def test_a_directory_is_no_configuration(tmp_path: Path) -> None:
    assert "is a directory, not a file" in problems_of(tmp_path)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    expected = "config.yaml: file '{folder}/config.yaml' does not exist (check the path)"
    assert problems_of(tmp_path / "config.yaml") == expected


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    os.mkfifo(path)
    assert "is not a regular file" in problems_of(path)


def test_a_path_with_a_null_byte_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a usable path"):
        load("config\0.yaml")


def test_a_byte_that_is_not_utf_8_is_placed_rightly_after_a_byte_order_mark() -> None:
    for before, place in (("", "1:1"), ("ab", "1:3"), ("a: é\nb", "2:2")):
        data = b"\xef\xbb\xbf" + before.encode() + b"\xff"
        with pytest.raises(ConfigError, match=f"config.yaml:{place}: is not UTF-8: byte 0xFF"):
            read(data, "config.yaml", environ={}, check_urls=accepting)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    """As another user, because root may read everything."""
    path = tmp_path / "config.yaml"
    path.write_text("servers: []\n")
    path.chmod(0)
    program = (
        "import os, sys\n"
        "from watchdog.errors import ConfigError\n"
        "from watchdog.loading import load\n"
        "os.geteuid() or os.seteuid(65534)\n"
        "try: load(sys.argv[1])\n"
        "except ConfigError as error: print(error)\n"
    )
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents[:2]:
        folder.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert "cannot be read by this user" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "[" * 500_000,
        "a: " * 100_000,
        "- " * 300_000,
        "? " * 300_000,
        "&a " * 100_000,
        "k: 1\n" * 60_000,
        "servers:\n" + "- {name_: a}\n" * 60_000,
        "".join(f"a{number}: &a{number} {{<<: *a{number - 1}, k{number}: 1}}\n" for number in range(1, 3000)),
        "'" + "x" * 900_000,
        "servers: [" + "{name: deepseek, base_url: 'http://192.0.2.1/v1'}," * 15_000 + "]",
        "servers: " + "x" * 900_000,
        "${" * 300_000,
        "servers: [{name: a, api_key: '" + "${env:A}" * 100_000 + "'}]",
    ],
    ids=range(13),
)
@pytest.mark.alone
def test_a_hostile_file_is_refused_quickly(text: str) -> None:
    """Whatever the file does: a ConfigError, soon, and not a megabyte of messages."""
    began = time.perf_counter()
    with pytest.raises(ConfigError) as caught:
        read(text.encode(), "config.yaml", environ=ENVIRON, check_urls=accepting)
    assert time.perf_counter() - began < 6.0
    assert len(str(caught.value)) < 50_000


def test_both_parsers_refuse_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyYAML was built without libyaml its pure parser does the work; places may differ, secrets stay hidden."""
    monkeypatch.setattr(yaml_tree, "PARSER", yaml.SafeLoader)
    for bad in BAD:
        path = lay_out(tmp_path, bad, mode=0o644 if bad.stem in OPEN_TO_ALL else 0o600)
        assert problems_of(path)
