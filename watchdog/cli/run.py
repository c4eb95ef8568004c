"""`run`: the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from watchdog.cli import EXIT_OK, EXIT_USAGE
from watchdog.cli.places import config_option, state_dir_of, state_dir_option

if TYPE_CHECKING:
    from watchdog.config import Config

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@click.command()
@config_option
@state_dir_option
@click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False), default="INFO", show_default=True)
def command(config_file: str | None, state_dir: str | None, log_level: str) -> int:
    """Run the daemon: probe, scan, count to three, alert.

    Logs go to standard error, as JSON lines unless that is a terminal. SIGTERM stops it within 5 seconds, SIGHUP
    reloads the configuration; a bad file is refused and the old configuration goes on.

    Exit code 64: the configuration or the state directory cannot be used, nothing was started.
    """
    import asyncio
    import sys

    # structlog loads rich whenever it is installed, for tracebacks we do not print: 5 MiB the daemon can do without.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    from watchdog import logs
    from watchdog.errors import ConfigError, StoreError
    from watchdog.loading import load as load_file
    from watchdog.loading import locate

    def import_daemon() -> None:
        # While apprise judges the receivers in a process of its own: together this takes no longer than either.
        import watchdog.daemon  # noqa: F401 - imported for its time only

    def load() -> Config:
        loaded = load_file(locate(config_file), meanwhile=import_daemon)
        logs.configure(secrets=loaded.config.secrets, level=log_level)
        logs.warn_of(loaded.warnings)
        return loaded.config

    try:
        first = load()
        from watchdog.daemon import Daemon, handle_signals

        loads = iter([first])
        daemon_state = state_dir_of(state_dir, first.state_dir)

        async def main() -> None:
            daemon = Daemon(lambda: next(loads, None) or load(), daemon_state)
            handle_signals(daemon)
            await daemon.run()

        asyncio.run(main())
    except ConfigError as error:
        click.echo(str(error), err=True)
        click.echo("Nothing was started. `inference-watchdog validate` shows the same and the plan.", err=True)
        return EXIT_USAGE
    except StoreError as error:
        click.echo(f"Nothing was started: {error}", err=True)
        return EXIT_USAGE
    return EXIT_OK
