"""`run`: the daemon."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchdog.cli import EXIT_OK, EXIT_TRY_AGAIN, EXIT_USAGE
from watchdog.cli.options import config_option, state_dir_of, state_dir_option

if TYPE_CHECKING:
    from watchdog.cli.start_guard import StartGuard
    from watchdog.config import Config

M_ARENA_MAX = -8
"""Of glibc's mallopt(3)."""
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@click.command()
@config_option
@state_dir_option
@click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False), default="INFO", show_default=True)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Log to FILE instead of standard error, in at most 4 files of 5 MiB: for launchd, which rotates nothing.",
)
def command(config_file: str | None, state_dir: str | None, log_level: str, log_file: Path | None) -> int:
    """Run the daemon: probe, scan, alert after three failures in a row.

    Logs go to standard error, as JSON lines unless that is a terminal. SIGTERM stops it within 5 seconds, SIGHUP
    reloads the configuration; a bad file is refused and the old configuration stays in force.

    Where no unit of ours does it (launchd, a container), the receivers hear of a refused configuration at once, of any
    other start that fails at the third in a row, and of the end of it; not when standard error is a terminal.

    Exit code 64: the configuration is invalid, another daemon uses this state, or a newer version wrote it; nothing
    was started.
    75: the state directory cannot be used now, or the program was upgraded meanwhile; trying again may help.
    """
    from watchdog.cli.start_guard import StartGuard

    hang_ups = keep_hang_ups()
    guard = StartGuard.of(config_file, state_dir)
    guard.begin()
    try:
        code, why = _run(config_file, state_dir, log_level, log_file, hang_ups, guard)
    except Exception as error:
        guard.ended(EXIT_TRY_AGAIN, f"it crashed ({type(error).__name__})")
        raise
    guard.ended(code, why)
    return code


def _run(
    config_file: str | None,
    state_dir: str | None,
    log_level: str,
    log_file: Path | None,
    hang_ups: list[int],
    guard: StartGuard,
) -> tuple[int, str]:
    """The exit code of the daemon, and why it did not start."""
    import asyncio

    share_one_heap()

    from watchdog import logs
    from watchdog.errors import ConfigError, StateLockedError, StateVersionError, StoreError
    from watchdog.loading import load as load_file
    from watchdog.loading import locate

    def load() -> Config:
        loaded = load_file(locate(config_file))
        logs.configure(secrets=loaded.config.secrets, level=log_level, file=log_file)
        logs.log_warnings(loaded.warnings)
        return loaded.config

    def complain(*lines: str) -> None:
        for line in lines:
            click.echo(line, err=True)

    try:
        if log_file is not None:
            logs.configure(level=log_level, file=log_file)
            complain = logs.log_crashes()
        first = load()
        if first.hosts:
            from watchdog.checks.matcher_trial import matcher_problem

            if problem := matcher_problem(first.rules):
                complain(f"Nothing was started: {problem}", "Install inference-watchdog again, or correct `rules`.")
                return EXIT_USAGE, problem
        from watchdog.daemon import Daemon, handle_signals

        loads = iter([first])
        daemon_state = state_dir_of(state_dir, first.state_dir)

        async def main() -> bool:
            daemon = Daemon(lambda: next(loads, None) or load(), daemon_state, on_ready=guard.ready)
            handle_signals(daemon)
            if hang_ups:
                daemon.reload()
            await daemon.run()
            return daemon.outdated

        return _ended(asyncio.run(main()), guard)
    except ConfigError as error:
        complain(str(error), "Nothing was started. `inference-watchdog validate` shows the same, and the plan.")
        return EXIT_USAGE, "the configuration is refused"
    except StoreError as error:
        complain(f"Nothing was started: {error}")
        if isinstance(error, StateLockedError):
            guard.dismiss()
        return EXIT_USAGE if isinstance(error, StateLockedError | StateVersionError) else EXIT_TRY_AGAIN, str(error)


def _ended(outdated: bool, guard: StartGuard) -> tuple[int, str]:
    """The exit code after a run. If our files were replaced: for the service manager; without one we become them."""
    if not outdated:
        return EXIT_OK, ""
    guard.dismiss()
    if not os.environ.get("INVOCATION_ID") and os.environ.get("XPC_SERVICE_NAME", "0") == "0":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the new start notes them
        with suppress(OSError):  # what cannot be started is left to whoever started us
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - as we were started
    return EXIT_TRY_AGAIN, "its files were replaced"


def share_one_heap() -> None:
    """Let all threads take memory from one heap; before the first thread is started.

    glibc gives each a heap of its own, and none gives back what another could use: with the dozen threads that wait for
    disk, names and receivers here that was 4 MiB more in half an hour, and rising (docs/benchmarks.md).
    """
    import ctypes  # asyncssh needs it as well

    with suppress(OSError, AttributeError):  # not glibc: macOS and musl have one heap anyway
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def keep_hang_ups() -> list[int]:
    """From now on SIGHUP is only noted in the returned list: it must not kill us while we start.

    A reload that was requested before the daemon could handle it is then made up for. Child processes are not affected.
    """
    noted: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, _frame: noted.append(number))
    return noted
