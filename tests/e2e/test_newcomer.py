"""`init` and `doctor` at a real terminal, against a real sshd, a real HTTP server and a real webhook.

With INFERENCE_WATCHDOG_WRITE_TRANSCRIPTS=1 what the terminal showed is kept under docs/transcripts, with neutral names.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.journal_files import require
from tests.support.llm_server import LlmServer, Player, Request, chat_reply, reply_with
from tests.support.receivers import WebhookSink
from tests.support.scripted_ssh_hosts import raw_server
from tests.support.sshd import RealHost, free_port, make_key, real_host
from tests.support.terminal import PROMPT, Terminal

pytestmark = [pytest.mark.real, pytest.mark.slow]

TRANSCRIPTS = Path(__file__).parents[2] / "docs" / "transcripts"
WRITE = os.environ.get("INFERENCE_WATCHDOG_WRITE_TRANSCRIPTS") == "1"
MODEL = "DeepSeek-V4.1-Flash-1017"
API_KEY = "k3y-of-the-server"
CONFIG = "~/watchdog/config.yaml"


def llm(api_key: str | None = None) -> Player:
    """A server of one model that refuses other keys and other models, in the words of vLLM."""
    models = reply_with({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
    metrics = reply_with("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n", content_type="text/plain")
    refused = reply_with({"error": "Unauthorized"}, 401)
    unknown = {"object": "error", "message": "The model does not exist.", "type": "NotFoundError", "code": 404}

    async def play(request: Request, writer: asyncio.StreamWriter) -> None:
        if api_key and request.headers.get("authorization") != f"Bearer {api_key}":
            await refused(request, writer)
        elif request.path == "/v1/models":
            await models(request, writer)
        elif request.path == "/metrics":
            await metrics(request, writer)
        elif request.path == "/v1/chat/completions":
            right = request.json.get("model") == MODEL
            await (reply_with(chat_reply("Hello")) if right else reply_with(unknown, 404))(request, writer)
        else:
            await reply_with("", 404)(request, writer)

    return play


@dataclass
class Stage:
    """Everything that stands ready when the newcomer sits down."""

    home: Path
    host: RealHost
    llm: LlmServer
    sink: WebhookSink
    names: dict[str, str] = field(default_factory=dict)

    def terminal(self, **environment: str) -> Terminal:
        """A terminal in the newcomer's home."""
        return Terminal(self.home, XDG_STATE_HOME=str(self.home / ".state"), **environment)

    def neutral(self, text: str) -> str:
        """`text` with names that say nothing of this machine, and the same at every writing."""
        text = text.replace(str(self.home), "/home/you").replace(str(self.host.root), "/home/you/keys")
        for old, new in {**self.names, str(self.llm.port): "8000", str(self.sink.port): "8443"}.items():
            text = text.replace(old, new)
        text = text.replace(f"[127.0.0.1]:{self.host.port}", "192.0.2.10").replace(f":{self.host.port}", "")
        text = re.sub(rf"(port|-p) {self.host.port}\b", r"\1 22", text).replace("127.0.0.1", "192.0.2.10")
        text = re.sub(r"\b(watch|plain)(?=@|'|`|;|,|\.$|/\.ssh| exists)", "monitor", text)
        text = re.sub(r"(user |ACCOUNT=|logged in as |groups: )(watch|plain)\b", r"\1monitor", text)
        text = re.sub(r"\b0\.\d\d s\b", "0.04 s", text)
        text = re.sub(r"(?m)^~ \$ echo status=.*\nstatus=\d+\n?", "", text)
        return "\n".join(line.rstrip() for line in text.splitlines()).rstrip("~ $\n") + "\n"


@contextmanager
def machine(root: Path, clock_offset_s: int = 0) -> Iterator[RealHost]:
    """A real machine with one kernel line."""
    with real_host(root, clock_offset_s=clock_offset_s) as host:
        journal = host.journal(wall_us=int((time.time() - 100) * 1e6))
        journal.kernel(host.boot, 1_000_000, "Linux version 6.17")
        host.plant(journal)
        yield host


@asynccontextmanager
async def stage(root: Path, *, clock_offset_s: int = 0, api_key: str | None = None) -> AsyncIterator[Stage]:
    """Server, machine and webhook, running."""
    require("tmux", packages="tmux")
    home = root / "home"
    home.mkdir()
    with machine(root / "lab", clock_offset_s) as host:
        async with LlmServer(llm(api_key)) as server, WebhookSink() as sink:
            yield Stage(home, host, server, sink)


def keep(name: str, text: str) -> None:
    """Write a transcript, when asked to."""
    if WRITE:
        TRANSCRIPTS.mkdir(parents=True, exist_ok=True)
        (TRANSCRIPTS / name).write_text(text)


async def test_a_newcomer_gets_from_a_url_to_a_delivered_test_alert(tmp_path: Path) -> None:
    """Every stumble of a first day on the way: an unknown key, no permission, a typo in the receiver."""
    async with stage(tmp_path) as here, here.terminal() as terminal:
        before = len(terminal.screen())
        authorized = here.host.root / "lab" / "authorized_keys"
        authorized.write_text("")
        group = here.host.root / "etc" / "group"
        terminal.type(f"inference-watchdog init --output {CONFIG}")
        await terminal.answer("Base URL of your LLM server", f"127.0.0.1:{here.llm.port}")
        await terminal.answer("A machine whose kernel log", f"head=plain@127.0.0.1:{here.host.port}")
        await terminal.answer("Another machine", "")
        await terminal.answer("do you trust it", "y")
        screen = await terminal.wait_for("Try again when that is done")
        assert "(key_refused)" in screen
        line = re.findall(r"^ +(restrict ssh-ed25519 .*)$", screen, re.MULTILINE)[-1]
        authorized.write_text(line + "\n")
        terminal.type("")
        screen = await terminal.wait_for(r"sudo usermod -aG systemd-journal plain[\s\S]*Try again when that is done")
        with group.open("r+") as file:  # in place: the machine sees this very file
            text = re.sub(r"^(systemd-journal:.*)$", r"\1,plain", file.read(), flags=re.MULTILINE)
            file.seek(0)
            file.write(text)
        terminal.type("")
        await terminal.answer("Where should alerts go", f"jsom://127.0.0.1:{here.sink.port}/hook")
        await terminal.wait_for("did you mean `jsons?://`")
        await terminal.answer("Where should alerts go", here.sink.url())
        await terminal.answer("Send a test alert now", "")
        shown, status = await terminal.ended(before)
        assert status == 0, shown
        assert len(here.sink.arrived) == 2
        keep("init.txt", here.neutral(PROMPT + shown.lstrip().removeprefix(PROMPT)))

        shown, status = await terminal.run(f"inference-watchdog doctor --config {CONFIG}")
        assert status == 1, shown  # no daemon runs yet
        assert "fail " not in shown
        assert re.search(r"^pass +receiver +phone: accepted a message", shown, re.MULTILINE)
        keep("doctor.txt", here.neutral(PROMPT + shown.lstrip().removeprefix(PROMPT)))
        config = here.home / "watchdog"
        modes = {path.name: path.stat().st_mode & 0o777 for path in config.iterdir()}
        assert modes == {
            "config.yaml": 0o600,
            "id_ed25519": 0o600,
            "id_ed25519.pub": 0o644,
            "known_hosts": 0o644,
            "phone_url": 0o600,
        }


@dataclass(frozen=True)
class Fault:
    """One planted fault: what `init` and `doctor` must say about it, and how it is planted."""

    slug: str
    fix: str
    doctor_fix: str = ""
    user: str = "watch"
    flags: str = ""
    url: str = ""
    trust: str = "y"
    clock_offset_s: int = 0
    api_key: str | None = None
    area: str = ""


FAULTS = {
    "unknown host": Fault(
        "host_key_unknown",
        r"Compare it on the machine's console: `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`",
        r"ssh-keyscan -p \d+ 127.0.0.1",
        trust="n",
        area="key",
    ),
    "changed key": Fault(
        "host_key_changed",
        r"`ssh-keygen -R '\[127.0.0.1\]:\d+' -f ",
        r"only if it is the same, replace the line",
        area="key",
    ),
    "refused key": Fault(
        "key_refused", r"restrict,command=\"", r"add this line to ~watch/.ssh/authorized_keys: restrict ssh-ed25519 "
    ),
    "no journal group": Fault("no_permission", r"`sudo usermod -aG systemd-journal plain`", user="plain"),
    "wrong port": Fault("refused", r"Check `systemctl status ssh` there, and `port`"),
    "silent port": Fault("silent", r"Look at its console"),
    "wrong model": Fault("unknown_model", rf"Set `model: {re.escape(MODEL)}`", flags="--model DeepSeek-V4.1-Flush"),
    "wrong API key": Fault(
        "auth",
        r"Put a key this server accepts where `api_key` of server",
        flags="--api-key-env LLM_KEY",
        api_key=API_KEY,
    ),
    "typo in a receiver URL": Fault("config", r"did you mean `json", url="jsom://127.0.0.1:8443/hook", area="config"),
    "clock 10 minutes off": Fault("clock_offset", r"`sudo timedatectl set-ntp true`", clock_offset_s=600, area="clock"),
}


@asynccontextmanager
async def _port(name: str, here: Stage) -> AsyncIterator[int]:
    """The SSH port the newcomer writes."""

    async def silent(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    if name == "silent port":
        async with raw_server(silent) as port:
            yield port
    else:
        yield free_port() if name == "wrong port" else here.host.port


def _prepare(name: str, here: Stage) -> None:
    folder = here.home / "watchdog"
    folder.mkdir(mode=0o700)
    if name == "changed key":
        other = make_key(here.home / "other")
        words = other.with_suffix(".pub").read_text().split()[:2]
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{here.host.port} {' '.join(words)}\n")
    if name == "refused key":
        make_key(here.home / "id")


@pytest.mark.parametrize("name", FAULTS)
async def test_each_planted_fault_is_named_with_its_fix(tmp_path: Path, name: str) -> None:
    fault = FAULTS[name]
    async with (
        stage(tmp_path, clock_offset_s=fault.clock_offset_s, api_key=fault.api_key) as here,
        _port(name, here) as port,
    ):
        _prepare(name, here)
        key = here.home / "id" if name == "refused key" else here.host.key
        command = (
            f"inference-watchdog init --url {here.llm.url} --host head={fault.user}@127.0.0.1:{port} {fault.flags} "
            f"--identity {key} --no-test --timeout 2 --output {CONFIG}"
        )
        here.names = {str(port): "22"}
        async with here.terminal(LLM_KEY="another-key") as terminal:
            shown = await _init(terminal, command, fault, here)
            if name == "typo in a receiver URL":
                (here.home / "watchdog" / "phone_url").write_text(fault.url + "\n")
            else:
                assert re.search(rf"PROBLEM .*\({fault.slug}\)", shown), shown
            assert re.search(fault.fix, shown), shown
            config = here.home / "watchdog" / "config.yaml"
            quick = "known_hosts: known_hosts\n    kernel_log: {timeout: 2s}\n"
            config.write_text(config.read_text().replace("known_hosts: known_hosts\n", quick))
            found, status = await terminal.run(f"inference-watchdog doctor --config {CONFIG} --json")
            assert status == (64 if fault.slug == "config" else 2), found
            assert f'"reason": "{fault.slug}"' in found
            assert re.search(fault.doctor_fix or fault.fix, found.replace('\\"', '"')), found
            assert API_KEY not in shown + found
            assert "another-key" not in shown + found
            if WRITE:
                told, _ = await terminal.run(f"clear; inference-watchdog doctor --config {CONFIG}")
                keep(f"fault-{name.lower().replace(' ', '-')}.txt", _excerpt(here, name, shown, told))


async def _init(terminal: Terminal, command: str, fault: Fault, here: Stage) -> str:
    """Sit through `init`, answering no to every offer to try again."""
    before = len(terminal.screen())
    terminal.type(command)
    receivers = [fault.url, here.sink.url()] if fault.url else [here.sink.url()]
    asked = 0
    done = rf"^{re.escape(PROMPT.rstrip())}\s*\Z"
    for _ in range(8):
        screen = await terminal.wait_for(
            rf"(do you trust it|Try again|Where should alerts go)[^\n]*:\Z|{done}", after=before + len(command)
        )
        last = screen.splitlines()[-1]
        if "do you trust it" in last:
            terminal.type(fault.trust)
        elif "Try again" in last:
            terminal.type("n")
        elif "Where should alerts go" in last:
            terminal.type(receivers[asked])
            asked += 1
        else:
            break
        await asyncio.sleep(0.3)
    shown, status = await terminal.ended(before)
    assert status == (0 if fault.slug == "config" else 1), shown
    return shown


def _excerpt(here: Stage, name: str, shown: str, told: str) -> str:
    """The lines about the fault, of both commands."""
    lines = shown.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith("PROBLEM")), 0)
    end = next((n for n in range(start + 1, len(lines)) if not lines[n].startswith(" ")), start + 2)
    bad = re.findall(r"^(?:fail|warn)\??  (?!daemon|receiver).*(?:\n +→.*)*", told, re.MULTILINE)
    text = "\n".join(
        [f"# {name}", "", "$ inference-watchdog init …", *lines[start:end], "", "$ inference-watchdog doctor", *bad]
    )
    return here.neutral(text)
