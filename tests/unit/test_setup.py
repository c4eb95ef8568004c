"""The pure and the small parts of `init`: addresses, hosts, files, and the configuration it writes."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import asyncssh
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watchdog.config import HostSettings, Secret, ServerSettings
from watchdog.errors import WatchdogError
from watchdog.loading import read
from watchdog.setup.config_text import render, scalar
from watchdog.setup.files import PRIVATE, Files, append_line, write
from watchdog.setup.host import Access, parse_host
from watchdog.setup.prompts import Prompter
from watchdog.setup.receiver import NewReceiver, choose_url, store_secret
from watchdog.setup.server import NewServer, usable_url
from watchdog.ssh.host_key import KeyStatus, host_key_of, key_status
from watchdog.ssh.login import bound_line, new_private_key, open_line, public_line

ACCESS = Access(Path("/k"), "ssh-ed25519 AAAA inference-watchdog", Path("/kh"))


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("192.0.2.10:8000", "http://192.0.2.10:8000"),
        (" https://llm.example.org/v1/ ", "https://llm.example.org/v1"),
        ("http://192.0.2.10:8000/v1/chat/completions", "http://192.0.2.10:8000/v1"),
        ("[2001:db8::1]:8000", "http://[2001:db8::1]:8000"),
    ],
)
def test_an_address_is_completed(typed: str, url: str) -> None:
    assert usable_url(typed) == url


@pytest.mark.parametrize(
    "typed",
    ["", "ftp://192.0.2.10", "http://", "http://[::1", "http://a:99999", "http://-x/v1", "a b:1", "http://a_-..b/"],
)
def test_what_is_no_address_is_refused_with_an_example(typed: str) -> None:
    with pytest.raises(WatchdogError, match="http://192"):
        usable_url(typed)


@pytest.mark.parametrize(
    ("typed", "name", "user", "address", "port"),
    [
        ("monitor@192.0.2.10", "192.0.2.10", "monitor", "192.0.2.10", 22),
        ("head=monitor@192.0.2.10:2222", "head", "monitor", "192.0.2.10", 2222),
        ("monitor@spark-1.example.org", "spark-1", "monitor", "spark-1.example.org", 22),
        ("monitor@[2001:db8::1]:22", "2001-db8--1", "monitor", "2001:db8::1", 22),
    ],
)
def test_a_host_is_taken_apart(typed: str, name: str, user: str, address: str, port: int) -> None:
    host = parse_host(typed, ACCESS)
    assert (host.name, host.user, host.address, host.port) == (name, user, address, port)


@pytest.mark.parametrize("typed", ["192.0.2.10", "a b@c", "m@", "m@h:0", "m@h:99999", "m@-x y", "=m@h"])
def test_what_is_no_host_is_refused(typed: str) -> None:
    with pytest.raises(WatchdogError, match="write it like"):
        parse_host(typed, ACCESS)


@pytest.mark.parametrize(
    "typed",
    ["-oProxyCommand=x@y", "-l@h", "n=-oProxyCommand@h", "m@-oProxyCommand", ".n=m@h", "_n=m@h", f"{'n' * 65}=m@h"],
)
def test_what_a_command_could_take_for_an_option_is_refused(typed: str) -> None:
    with pytest.raises(WatchdogError, match="is not"):
        parse_host(typed, ACCESS)


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.@:+-]{0,20}", fullmatch=True)
models = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=30).filter(
    lambda text: "$" not in text
)


@example(name="0", model="~", host_name="0", port=1, forced=False)
@given(name=names, model=st.none() | models, host_name=names, port=st.integers(1, 65535), forced=st.booleans())
def test_whatever_was_found_the_written_configuration_says_exactly_that(
    name: str, model: str | None, host_name: str, port: int, forced: bool
) -> None:
    settings = ServerSettings(name=name, base_url="http://192.0.2.10:8000/v1", model=model)
    host = HostSettings(
        name=host_name,
        address="192.0.2.10",
        user="monitor",
        port=port,
        known_hosts="known_hosts",
        forced_command=forced,
    )
    receiver = NewReceiver("phone", "${env:PHONE_URL}", Secret("json://127.0.0.1:9/x"))
    text = render([NewServer(settings, engine="vllm", thinks=True)], [host], [receiver], "${env:KEY}")
    environ = {"PHONE_URL": "json://127.0.0.1:9/x", "KEY": new_key()}
    folder = _folder()
    config = read(
        text.encode(), str(folder / "c.yaml"), environ=environ, check_urls=lambda urls: [None] * len(urls)
    ).config
    assert config.servers == (replace(settings, hosts=(host_name,)),)
    (loaded,) = config.hosts
    assert (loaded.name, loaded.port, loaded.forced_command) == (host_name, port, forced)
    assert config.receivers[0].name == "phone"


_KEY: list[str] = []


def new_key() -> str:
    """One private key for all examples."""
    if not _KEY:
        _KEY.append(new_private_key())
    return _KEY[0]


_FOLDER: list[Path] = []


@pytest.fixture(autouse=True)
def _known_hosts(tmp_path_factory: pytest.TempPathFactory) -> None:
    if not _FOLDER:
        _FOLDER.append(tmp_path_factory.mktemp("setup"))
        (_FOLDER[0] / "known_hosts").write_text("192.0.2.10 ssh-ed25519 AAAA\n")


def _folder() -> Path:
    return _FOLDER[0]


def test_words_that_mean_something_in_yaml_are_quoted() -> None:
    assert [scalar(text) for text in ("yes", "null", "1e3", "a: b", "#x", "192.0.2.10", "a/b:c")] == [
        '"yes"', '"null"', '"1e3"', '"a: b"', '"#x"', "192.0.2.10", "a/b:c",
    ]  # fmt: skip


def test_a_file_is_written_closed_whole_and_never_over_another(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write(path, "one", PRIVATE)
    assert (path.read_text(), path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == ("one", 0o600, 0o700)
    with pytest.raises(WatchdogError, match="already exists"):
        write(path, "two", PRIVATE)
    assert path.read_text() == "one"
    write(path, "two", PRIVATE, replace=True)
    assert path.read_text() == "two"
    assert [file.name for file in path.parent.iterdir()] == ["file"]


def test_a_place_that_cannot_be_written_is_told_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WatchdogError, match="cannot be written"):
        write(tmp_path / "file" / "below", "x", PRIVATE)
    with pytest.raises(WatchdogError, match="cannot be written"):
        append_line(tmp_path / "file" / "below", "x")


def test_a_line_is_added_behind_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("first")
    append_line(path, "second")
    append_line(path, "third")
    assert path.read_text() == "first\nsecond\nthird\n"


def test_a_secret_is_kept_apart_and_another_one_is_never_replaced_unasked(tmp_path: Path) -> None:
    files, prompter = Files(tmp_path / "config.yaml"), Prompter(unattended=True, yes=False)
    assert store_secret("phone_url", "json://h/x", files, prompter, replace=False) == "${file:phone_url}"
    assert (tmp_path / "phone_url").stat().st_mode & 0o777 == 0o600
    assert store_secret("phone_url", "json://h/x", files, prompter, replace=False) == "${file:phone_url}"
    with pytest.raises(WatchdogError, match="was not changed"):
        store_secret("phone_url", "json://other/x", files, prompter, replace=False)


def test_the_system_service_gets_its_secrets_as_credentials(tmp_path: Path) -> None:
    files = Files(tmp_path / "config.yaml", credentials=True)
    assert files.secret("phone_url") == (tmp_path / "credentials" / "phone_url", "${credential:secret_phone_url}")
    assert files.key == tmp_path / "credentials" / "id_ed25519"


def test_nobody_at_the_terminal_agrees_to_nothing_without_yes(capsys: pytest.CaptureFixture[str]) -> None:
    assert not Prompter(unattended=True, yes=False).confirm("Trust it?", default=True)
    assert Prompter(unattended=True, yes=True).confirm("Trust it?", default=False)
    assert not Prompter(unattended=True, yes=True).confirm_retry("Try again?")
    assert "no (unattended" in capsys.readouterr().out


def test_a_problem_that_was_solved_is_not_left_to_do() -> None:
    prompter = Prompter(unattended=True, yes=True)
    prompter.problem("x", "do y", about="host a")
    prompter.problem("x", "do y", about="host ab")
    prompter.clear("host a")
    assert len(prompter.remaining) == 1


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp521", "ssh-rsa"])
def test_a_host_key_is_described_as_ssh_keygen_does(tmp_path: Path, kind: str) -> None:
    key = asyncssh.generate_private_key(kind)
    key.write_public_key(tmp_path / "key.pub")
    said = subprocess.run(
        ["ssh-keygen", "-lf", tmp_path / "key.pub"], capture_output=True, text=True, check=True
    ).stdout
    bits, fingerprint, *_, shown = said.split()
    offered = host_key_of(key.convert_to_public())
    assert (str(offered.bits), offered.fingerprint, f"({offered.kind})") == (bits, fingerprint, shown)


def test_a_known_hosts_file_knows_an_offered_key_another_one_or_none() -> None:
    host = parse_host("monitor@192.0.2.10:2222", ACCESS)
    offered, other = (host_key_of(asyncssh.generate_private_key("ssh-ed25519").convert_to_public()) for _ in range(2))
    assert key_status(host, offered, f"{offered.line(host)}\n".encode()) is KeyStatus.KNOWN
    assert key_status(host, offered, f"{other.line(host)}\n".encode()) is KeyStatus.CHANGED
    assert key_status(host, offered, b"") is KeyStatus.NEW
    assert offered.line(host).startswith("[192.0.2.10]:2222 ssh-ed25519 ")


def test_our_own_key_gives_the_two_lines_for_authorized_keys(tmp_path: Path) -> None:
    write(tmp_path / "id", new_private_key(), PRIVATE)
    public = public_line(tmp_path / "id")
    assert public.startswith("ssh-ed25519 AAAA")
    assert open_line(public) == f"restrict {public}"
    assert bound_line(public) == f'restrict,command="/usr/local/libexec/inference-watchdog-reader" {public}'
    readme = Path(__file__).parents[2] / "packaging" / "host" / "README.md"
    assert bound_line("ssh-ed25519 AAAA… inference-watchdog") in readme.read_text(encoding="utf-8")


@dataclass
class Scripted(Prompter):
    """A person whose answers are known beforehand."""

    answers: list[str] = field(default_factory=list)

    def ask(self, question: str, default: str = "", *, hidden: bool = False) -> str:
        return self.answers.pop(0)


TOKEN = "123456789:abcdefghijklmnopqrstuvwxyzABCDEFGHI"


@pytest.mark.parametrize(
    ("answers", "url", "on_the_phone"),
    [
        (["1"], r"ntfys://ntfy\.sh/iw-[0-9a-f]{16}", "time-sensitive"),
        (["2", "u" * 30, "a" * 30], f"pover://{'u' * 30}@{'a' * 30}", "critical alerts"),
        (["3", TOKEN, "4711"], f"tgram://{TOKEN}/4711", "Do Not Disturb"),
        (["3", "no token", "4711", "json://192.0.2.1/hook"], "json://192.0.2.1/hook", "a page looks like any message"),
    ],
)
def test_the_usual_ways_become_a_url_and_say_what_to_switch_on_at_the_phone(
    answers: list[str], url: str, on_the_phone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = choose_url(None, None, None, Scripted(unattended=False, yes=False, answers=answers))
    assert re.fullmatch(url, chosen.reveal())
    assert on_the_phone in capsys.readouterr().out
