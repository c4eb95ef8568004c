"""The command line: one module per command, imported only when that command runs, so `--help` stays fast."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, NamedTuple

import click

from watchdog.cli.output import Output
from watchdog.errors import WatchdogError

EXIT_OK, EXIT_WARNING, EXIT_CRITICAL, EXIT_UNKNOWN = 0, 1, 2, 3
"""Exit codes of `probe`, `scan` and `check`: the monitoring-plugin convention (design §8)."""
EXIT_USAGE = 64
"""Wrong usage or a configuration that must not be started with (sysexits.h, EX_USAGE)."""

EXIT_TRY_AGAIN = 75
"""The daemon could not start for a reason that may pass, such as a full disk (sysexits.h, EX_TEMPFAIL)."""


class Entry(NamedTuple):
    """Where a command lives (`watchdog.cli.<module>`, under which name there), and its line in the overview."""

    module: str
    attribute: str
    summary: str


COMMANDS = {
    "init": Entry("init", "command", "from a URL and host names to a working installation, step by step"),
    "run": Entry("run", "command", "run the daemon"),
    "check": Entry("check", "command", "run every check once, now, and show what it found"),
    "probe": Entry("probe", "command", "ask one server for text, without any configuration"),
    "wait": Entry("wait", "command", "until a server gives real text, or until nothing runs there; for scripts"),
    "scan": Entry("scan", "command", "classify a saved kernel log"),
    "validate": Entry("validate", "command", "check the configuration and show who is alerted about what, and when"),
    "doctor": Entry(
        "doctor", "command", "examine servers, hosts, keys, receivers and this machine, with a fix for each"
    ),
    "test-alert": Entry("test_alert", "command", "send a trigger and a resolve to your receivers"),
    "service": Entry(
        "service", "command", "run the daemon under systemd or launchd: `service install`, `service remove`"
    ),
    "notify-failure": Entry(
        "notify_failure", "command", "tell the receivers that the daemon itself has failed; for service managers"
    ),
    "status": Entry("status", "command", "what is firing, pending and healthy now"),
    "history": Entry("history", "history", "incidents and observations of the past"),
    "report": Entry("history", "report", "how the last days were: availability, times, incidents, deliveries"),
    "replay": Entry(
        "replay", "command", "recorded observations through the real rules: when would you have been paged?"
    ),
    "silence": Entry("silence", "silence", "no new alerts about something for a while, with a reason and an end"),
    "unsilence": Entry("silence", "unsilence", "end a silence now"),
    "ack": Entry("silence", "ack", "acknowledge an incident: no more reminders until it ends"),
    "demo": Entry("demo", "command", "see the whole story in under two minutes, nothing to set up"),
}


class LazyCommands(click.Group):
    """Lists commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of `cmd_name` and return its command; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        entry = COMMANDS[cmd_name]
        command = getattr(import_module(f"watchdog.cli.{entry.module}"), entry.attribute)
        assert isinstance(command, click.Command)  # noqa: S101 - a module of ours without its command is a bug
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from `COMMANDS`, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


@click.command(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `inference-watchdog demo`, then `inference-watchdog validate`.",
)
@click.version_option(None, "-V", "--version", package_name="inference-watchdog", prog_name="inference-watchdog")
def cli() -> None:
    """Wake me when my LLM server stops generating, or its machines are about to lock up.

    It asks each server for real text every 2 minutes, reads the hosts' kernel logs over SSH, and alerts after three
    consecutive failures, or at the first kernel line that precedes a hard lock. It only alerts: nothing on a watched
    machine is ever changed.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit the process.

    A person's mistake ends with 64 and no traceback, output that cannot be written with one line (`cli.output`).
    """
    given = sys.argv[1:] if arguments is None else arguments
    output = Output(given[0] if given else "")
    try:
        code = _run(arguments)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else EXIT_OK
    sys.exit(output.finish(code))


def _run(arguments: list[str] | None) -> int:
    """The exit code of a command line."""
    try:
        result: Any = cli.main(args=arguments, prog_name="inference-watchdog", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Stopped.", err=True)
        return 130
    except click.UsageError as error:
        error.show()
        return EXIT_USAGE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except WatchdogError as error:
        click.echo(str(error), err=True)
        return EXIT_USAGE
    return result if isinstance(result, int) else EXIT_OK
