"""`init`: writes a working configuration from a base URL and host names."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import platformdirs

from watchdog.cli import EXIT_OK, EXIT_WARNING
from watchdog.cli.options import FiniteRange
from watchdog.config import Secret
from watchdog.errors import WatchdogError
from watchdog.setup import host, receiver, server
from watchdog.text import clean_line

if TYPE_CHECKING:
    from watchdog.config import Config, HostSettings
    from watchdog.setup.files import Files
    from watchdog.setup.prompts import Prompter
    from watchdog.setup.receiver import NewReceiver
    from watchdog.setup.server import NewServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    urls: tuple[str, ...]
    model: str | None
    api_key_env: str | None
    hosts: tuple[str, ...]
    identity: str | None
    no_ssh: bool
    receiver: str | None
    receiver_env: str | None
    no_test: bool
    force: bool
    timeout_s: float

    def check(self, *, unattended: bool) -> None:
        """Raises WatchdogError for the first flag that cannot be used. Writes nothing."""
        if not self.urls and unattended:
            raise WatchdogError("--url is needed: the base URL of the server, like http://192.0.2.10:8000/v1")
        for url in self.urls:
            server.usable_url(url)
        if self.model is not None and (not self.model or clean_line(self.model) != self.model):
            raise WatchdogError("--model: that is not a model name")
        self.api_key()
        host.check_hosts(self.hosts, self.identity)
        receiver.check(self.receiver, self.receiver_env, self.receiver_value(), unattended=unattended)

    def api_key(self) -> tuple[Secret, str] | None:
        """The API key and the reference to it. Raises WatchdogError for a variable that is not set."""
        if self.api_key_env is None:
            return None
        value = os.environ.get(self.api_key_env, "").strip()
        if not value:
            raise WatchdogError(f"--api-key-env: the environment variable {self.api_key_env} is not set or empty")
        return Secret(value), f"${{env:{self.api_key_env}}}"

    def receiver_value(self) -> str | None:
        """The receiver's URL from the environment; None when no variable is named."""
        return os.environ.get(self.receiver_env, "").strip() if self.receiver_env else None


TEST_S = 60.0


@click.command(
    epilog=(
        "Unattended: inference-watchdog init --url http://192.0.2.10:8000/v1 --host head=monitor@192.0.2.10 "
        "--host worker=monitor@192.0.2.11 --receiver-env PHONE_URL --yes. Compare the host keys it prints."
    )
)
@click.option("--url", "urls", multiple=True, metavar="URL", help="Base URL of a server; repeatable.")
@click.option("--model", help="Model to probe, where the server lists several.")
@click.option("--api-key-env", metavar="V", help="Environment variable that holds the server's API key.")
@click.option(
    "--host", "hosts", multiple=True, metavar="[NAME=]USER@ADDRESS[:PORT]",
    help="Machine whose kernel log is read; repeatable.",
)  # fmt: skip
@click.option(
    "--identity", metavar="FILE", help="SSH key to use. [default: a key of the watchdog's own, created if missing]"
)
@click.option("--no-ssh", is_flag=True, help="Do not connect to hosts now, and do not ask for any.")
@click.option(
    "--receiver", metavar="URL", help="Where alerts go: any apprise URL. Visible in `ps`; prefer the next option."
)
@click.option("--receiver-env", metavar="V", help="Environment variable that holds the receiver's URL.")
@click.option("--no-test", is_flag=True, help="Do not send a test alert.")
@click.option("--output", metavar="FILE", help="Configuration file to write. [default: where `run` looks for it]")
@click.option("--force", is_flag=True, help="Replace an existing configuration.")
@click.option("--yes", is_flag=True, help="Ask nothing and answer yes to everything, including new host keys.")
@click.option(
    "--timeout", "timeout_s", default=60.0, show_default=True, type=FiniteRange(min=1, max=3600), metavar="S",
    help="Time limit for a server's first text and (at most 10 s) for a login, in seconds.",
)  # fmt: skip
def command(output: str | None, yes: bool, **flags: object) -> int:
    """Ask for a server and its machines, test everything, and write a working configuration.

    Detects the model and the engine, shows host keys and trusts them only after a yes, creates an SSH key and prints
    the line that authorizes it, tests whether the kernel log can be read, sets up a receiver and sends a test alert.
    Nothing is changed on a watched machine: what has to be done there is printed. Nothing is overwritten without
    asking.

    Exit code: 0 everything works, 1 written, but something is left to do, 64 nothing could be written.
    """
    from watchdog.cli.service import SYSTEM_CONFIG
    from watchdog.setup.files import Files
    from watchdog.setup.prompts import Prompter

    prompter = Prompter(unattended=yes or not sys.stdin.isatty(), yes=yes)
    path = Path(output).expanduser().absolute() if output else _usual_place()
    files = Files(path, credentials=str(path) == SYSTEM_CONFIG and sys.platform != "darwin")
    return _Init(prompter, files, Flags(**flags)).run()  # type: ignore[arg-type]  # click gives the types of the options


def _usual_place() -> Path:
    """Where `run` will look: the system's configuration for root on Linux, else our own."""
    from watchdog.cli.service import SYSTEM_CONFIG

    if os.geteuid() == 0 and sys.platform != "darwin":
        return Path(SYSTEM_CONFIG)
    return Path(platformdirs.user_config_dir("inference-watchdog")) / "config.yaml"


class _Init:
    """One run of `init`, step by step."""

    def __init__(self, prompter: Prompter, files: Files, flags: Flags) -> None:
        self._prompter = prompter
        self._files = files
        self._flags = flags
        self._replace = False

    def run(self) -> int:
        self._may_write()
        self._flags.check(unattended=self._prompter.unattended)
        servers = self._servers()
        hosts, key = self._hosts()
        url = self._receiver()
        config = self._write(servers, hosts, key, url)
        self._test(config)
        return self._end()

    def _may_write(self) -> None:
        path = self._files.config
        if not os.path.lexists(path):
            return
        if self._flags.force:
            self._replace = True
        elif self._prompter.unattended:
            raise click.UsageError(f"{path} already exists; --force replaces it, --output writes another file")
        elif not click.confirm(f"{path} already exists. Replace it?", default=False):
            raise click.UsageError(f"{path} was not changed; --output writes another file")
        else:
            self._replace = True

    def _servers(self) -> list[NewServer]:
        from watchdog.setup import server

        self._prompter.heading("Server")
        urls = list(self._flags.urls) or [self._asked_url()]
        found: list[NewServer] = []
        for url in urls:
            new = server.set_up(
                server.usable_url(url),
                self._flags.model,
                self._flags.api_key(),
                self._prompter,
                self._store_key,
                self._flags.timeout_s,
            )
            found.append(_renamed(new, {other.settings.name for other in found}))
        return found

    def _asked_url(self) -> str:
        from watchdog.errors import WatchdogError
        from watchdog.setup.server import usable_url

        while True:
            try:
                return usable_url(self._prompter.ask("Base URL of your LLM server", "http://127.0.0.1:8000/v1"))
            except WatchdogError as error:
                self._prompter.note(str(error))

    def _store_key(self, name: str, key: str) -> str:
        from watchdog.setup.receiver import store_secret

        return store_secret(f"{name}_api_key", key, self._files, self._prompter, replace=self._replace)

    def _hosts(self) -> tuple[list[HostSettings], str]:
        from watchdog.setup import host
        from watchdog.setup.files import append_line

        texts = list(self._flags.hosts)
        self._prompter.heading("Machines")
        if not texts and not self._flags.no_ssh:
            texts = self._asked_hosts()
        if not texts:
            self._prompter.note("No kernel log will be read. Run this again to add machines.")
            return [], ""
        host.check_hosts(texts, self._flags.identity)
        key, public = host.prepare_key(self._prompter, self._files, self._flags.identity)
        known = self._files.known_hosts
        elsewhere = (Path.home() / ".ssh" / "known_hosts", Path("/etc/ssh/ssh_known_hosts"))
        access = host.Access(key, public, known, elsewhere, min(10.0, self._flags.timeout_s))
        hosts = [host.parse_host(text, access) for text in texts]
        if self._flags.no_ssh:
            host.show_key_lines(hosts[0].user, public, self._prompter)
        else:
            hosts = [host.set_up(one, access, self._prompter) for one in hosts]
        if not known.exists():
            append_line(
                known, "# Host keys of the watched machines; `inference-watchdog doctor` shows which are missing."
            )
        return [replace(one, known_hosts=known.name) for one in hosts], self._key_reference(key)

    def _asked_hosts(self) -> list[str]:
        from watchdog.errors import WatchdogError
        from watchdog.setup.host import Access, parse_host

        texts: list[str] = []
        nowhere = Access(Path(), "", Path())
        while True:
            more = "Another machine" if texts else "A machine whose kernel log should be read, like monitor@192.0.2.10"
            text = self._prompter.ask(f"{more} (Enter to finish)")
            if not text:
                return texts
            try:
                parse_host(text, nowhere)
            except WatchdogError as error:
                self._prompter.note(str(error))
            else:
                texts.append(text)

    def _key_reference(self, key: Path) -> str:
        if key == self._files.key:
            return f"${{credential:secret_{key.name}}}" if self._files.credentials else key.name
        return str(key)

    def _receiver(self) -> Secret:
        from watchdog.setup import receiver

        self._prompter.heading("Receiver")
        return receiver.choose_url(
            self._flags.receiver, self._flags.receiver_env, self._flags.receiver_value(), self._prompter
        )

    def _write(self, servers: Sequence[NewServer], hosts: Sequence[HostSettings], key: str, url: Secret) -> Config:
        from watchdog.loading import load
        from watchdog.setup.config_text import render
        from watchdog.setup.files import PRIVATE, write
        from watchdog.setup.receiver import store_url

        kept: NewReceiver = store_url(url, self._flags.receiver_env, self._files, self._prompter, replace=self._replace)
        self._prompter.heading("Configuration")
        path = self._files.config
        mode = (
            0o644 if self._files.credentials else PRIVATE
        )  # it contains no secret, and the service's account must read it
        write(path, render(servers, hosts, [kept], key), mode, replace=self._replace)
        self._prompter.ok(f"Written: {path}")
        with self._environment() as environ:
            loaded = load(path, environ=environ)
        for warning in loaded.warnings:
            self._prompter.note(str(warning))
        self._prompter.ok("It is valid.")
        return loaded.config

    def _environment(self) -> AbstractContextManager[dict[str, str]]:
        from watchdog.cli.options import service_environment

        return service_environment(self._files.folder) if self._files.credentials else nullcontext(dict(os.environ))

    def _test(self, config: Config) -> None:
        from watchdog import logs
        from watchdog.cli.test_alert import send_test
        from watchdog.errors import NotReloadedError

        self._prompter.heading("Test alert")
        if self._flags.no_test or not self._prompter.confirm("Send a test alert now?", default=True):
            self._prompter.note("Not sent; `inference-watchdog test-alert` sends one.")
            return
        logs.configure(secrets=config.secrets, level="ERROR")
        names = tuple(receiver.name for receiver in config.receivers)
        with self._state(config) as state_dir:
            try:
                views = asyncio.run(send_test(config, Path(state_dir), names, TEST_S))
            except NotReloadedError as error:
                fix = "Reload the daemon, then run `inference-watchdog test-alert`."
                self._prompter.problem(str(error), fix, about="receiver phone")
                return
        if len(views) == 2 * len(names) and all(view.state.value == "delivered" for view in views):
            self._prompter.ok("Accepted. Now check that two messages arrived.")
            return
        why = next((view.detail for view in views if view.detail), "it was not accepted in time")
        self._prompter.problem(
            f"the test alert did not arrive: {why}",
            "Correct the receiver's address, then run `inference-watchdog test-alert`.",
            about="receiver phone",
        )

    def _state(self, config: Config) -> AbstractContextManager[str | Path]:
        """Where the test keeps its outbox: the daemon's state, or a temporary one where that is the service's."""
        import tempfile

        from watchdog.cli.options import state_dir_of

        if self._files.credentials:
            return tempfile.TemporaryDirectory(prefix="inference-watchdog-")
        return nullcontext(state_dir_of(None, config.state_dir))

    def _end(self) -> int:
        prompter, path = self._prompter, self._files.config
        prompter.heading("What is left to do" if prompter.remaining else "Done")
        for number, problem in enumerate(prompter.remaining, 1):
            click.echo(f"{number}. {problem.about}: {problem.text}\n    → {problem.fix}")
        usual = "" if path == _usual_place() else f" --config {path}"
        prompter.verbatim(
            f"inference-watchdog doctor{usual}            # examines everything, with the fix for each problem"
        )
        if not self._files.credentials:  # only systemd passes the secrets on
            prompter.verbatim(f"inference-watchdog run{usual}               # runs it here, now")
        prompter.verbatim(f"inference-watchdog service install{usual}   # runs it under systemd or launchd")
        return EXIT_WARNING if prompter.remaining else EXIT_OK


def _renamed(new: NewServer, taken: set[str]) -> NewServer:
    """`new` with a name that no other server has."""
    name, number = new.settings.name, 2
    while name in taken:
        name, number = f"{new.settings.name}-{number}", number + 1
    return replace(new, settings=replace(new.settings, name=name))
