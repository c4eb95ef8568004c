"""`notify-failure`: what a service manager runs when the daemon cannot start, or keeps crashing."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_USAGE
from watchdog.cli.places import config_option, state_dir_of, state_dir_option

if TYPE_CHECKING:
    from watchdog.config import ReceiverSettings
    from watchdog.model import Incident, Text

PAUSES_S = (2.0, 5.0, 15.0, 30.0, 60.0, 120.0)
"""Waits between attempts at a receiver: at boot the network may come up after us."""
FALLBACK = "INFERENCE_WATCHDOG_FALLBACK_URL"
FALLBACK_CREDENTIALS = ("secret_fallback_url", "fallback_url")
PROBLEMS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Ending:
    """How the service ended, in systemd's words; all empty when nobody says."""

    result: str
    code: str
    status: str

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Ending:
        """From `$SERVICE_RESULT` (ExecStopPost=) or `$MONITOR_SERVICE_RESULT` (OnFailure=, systemd 251 and newer)."""
        for prefix in ("", "MONITOR_"):
            if result := environ.get(f"{prefix}SERVICE_RESULT"):
                return cls(result, environ.get(f"{prefix}EXIT_CODE", ""), environ.get(f"{prefix}EXIT_STATUS", ""))
        return cls("", "", "")

    def __str__(self) -> str:
        return f"{self.result} ({self.code} {self.status})" if self.code else self.result or "unknown"


@click.command()
@config_option
@state_dir_option
@click.option(
    "--if-repeated",
    is_flag=True,
    help="Speak at the third start in a row that did not become ready, then once an hour.",
)
@click.argument("unit", default="inference-watchdog.service")
def command(config_file: str | None, state_dir: str | None, if_repeated: bool, unit: str) -> int:
    """Tell the receivers that the daemon itself has failed. For service managers.

    Takes every receiver whose address can be read, also from a configuration that is broken otherwise. If none takes
    the message, it goes to the apprise URL in $INFERENCE_WATCHDOG_FALLBACK_URL or in the credential fallback_url.

    The units that come with inference-watchdog call it twice: OnFailure= when systemd has given up (a configuration
    that cannot be used), and ExecStopPost= with --if-repeated, as a service that is always restarted never fails.

    Exit code 0: somebody was told, or nobody had to be; 2: nobody could be told.
    """
    from watchdog.clock import SystemClock
    from watchdog.errors import StoreError
    from watchdog.service_manager import FailedStarts

    ending = Ending.read(os.environ)
    now = SystemClock().wall()
    if not if_repeated:
        return EXIT_OK if _speak(_look_at(config_file), unit, ending, now=now, pauses_s=PAUSES_S) else EXIT_CRITICAL
    if ending.result in ("", "success") or ending.status == str(EXIT_USAGE):
        return EXIT_OK  # a wanted stop, or one that OnFailure= speaks about
    found = _look_at(config_file)
    starts = FailedStarts(state_dir_of(state_dir, found.state_dir))
    try:
        times = starts.note(now)
        if times is None:
            return EXIT_OK
        # The restart waits for us: one attempt, and the next failed start tries again.
        if not _speak(found, unit, ending, times=times, now=now):
            return EXIT_CRITICAL
        starts.told(now)
    except OSError as error:
        raise StoreError(f"the count of failed starts cannot be kept: {error}") from error
    return EXIT_OK


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the configuration is, if anywhere, what is wrong with it, and the state directory it names."""

    path: Path | None
    problems: tuple[str, ...] = ()
    state_dir: str | None = None


def _look_at(config_file: str | None) -> _Found:
    from watchdog.errors import ConfigError
    from watchdog.loading import load, locate

    path = None
    try:
        path = locate(config_file)
        return _Found(path, state_dir=load(path).config.state_dir)
    except ConfigError as error:
        return _Found(path, tuple(str(problem) for problem in error.problems))


def _speak(
    found: _Found, unit: str, ending: Ending, *, now: float, times: int = 1, pauses_s: tuple[float, ...] = ()
) -> bool:
    text = failure_text(unit, ending, found.problems, times)
    return asyncio.run(_tell(_receivers(found.path), text, now, pauses_s))


def _receivers(path: Path | None) -> list[ReceiverSettings]:
    from watchdog.loading.salvage import salvage_receivers

    try:
        data = path.read_bytes() if path else b""
    except OSError:
        data = b""
    return list(salvage_receivers(data, str(path)))


def fallback(environ: Mapping[str, str]) -> ReceiverSettings | None:
    """The receiver of last resort, from the environment or from systemd's credentials."""
    from watchdog.config import ReceiverSettings, Secret

    url = environ.get(FALLBACK, "")
    folder = environ.get("CREDENTIALS_DIRECTORY")
    for name in FALLBACK_CREDENTIALS if folder and not url else ():
        try:
            url = url or (Path(folder or "") / name).read_text().strip()
        except (OSError, UnicodeDecodeError):
            continue
    return ReceiverSettings(name="fallback", url=Secret(url)) if url else None


def failure_text(unit: str, ending: Ending, problems: tuple[str, ...], times: int) -> Text:
    """The message: what failed, why as far as is known, and what to do.

    It is an occurrence (NEW): this process cannot promise a resolve.
    """
    from watchdog.model import Text

    what = "cannot start" if problems else "keeps failing" if times > 1 else "has failed"
    why = f": {problems[0]}" if problems else f": {ending.result}" if ending.result else ""
    shown = [f"- {problem}" for problem in problems[:PROBLEMS_SHOWN]]
    more = len(problems) - len(shown)
    lines = [
        f"page · {unit} on {platform.node()}",
        f"ended: {ending}" + (f", {times} starts in a row" if times > 1 else ""),
        *shown,
        *([f"- and {more} more"] if more > 0 else []),
        "Nothing is watched until this is corrected."
        if problems or times == 1
        else "It is started again and again; nothing is watched meanwhile.",
        f"look at: journalctl -u {unit}, and `inference-watchdog validate`",
    ]
    return Text(f"NEW inference-watchdog {what}{why}", "\n".join(lines))


async def _tell(receivers: list[ReceiverSettings], text: Text, now: float, pauses_s: tuple[float, ...]) -> bool:
    """Send to all receivers at once; to the fallback as well if none of them took it. Whether anybody did."""
    from watchdog.model import Cause, Incident, Nature, Severity
    from watchdog.policy import incident_id

    incident = Incident(
        id=incident_id(now, "", os.getpid() % 1024),
        key="self/service",
        nature=Nature.OCCURRENCE,
        cause=Cause.OCCURRENCE,
        severity=Severity.PAGE,
        opened_severity=Severity.PAGE,
        reason="failed",
        summary=text.title,
        since=now,
        opened_at=now,
        last_at=now,
    )
    told = await asyncio.gather(*(_tell_one(one, text, incident, pauses_s) for one in receivers))
    if any(told):
        return True
    last = fallback(os.environ)
    if last is None:
        click.echo(f"Nobody could be told: no receiver took it, and ${FALLBACK} is not set.", err=True)
        return False
    return await _tell_one(last, text, incident, pauses_s)


async def _tell_one(settings: ReceiverSettings, text: Text, incident: Incident, pauses_s: tuple[float, ...]) -> bool:
    """Send to one receiver until it takes it, `pauses_s` between the attempts."""
    from watchdog.clock import SystemClock
    from watchdog.message import Redactor, finish
    from watchdog.model import Delivery, NotificationKind
    from watchdog.notify import build

    clock = SystemClock()
    hide = Redactor([secret for secret in (settings.url, *settings.alertmanager) if secret])
    receiver = build(settings, hide)
    try:
        for attempt, pause_s in enumerate((*pauses_s, None), start=1):
            delivery = Delivery(
                row=attempt,
                receiver=settings.name,
                incident_id=incident.id,
                kind=NotificationKind.NEW,
                severity=incident.severity,
                title=hide(text.title),
                body=hide(text.body),
                created_at=incident.opened_at,
                attempt=attempt,
                incident=incident,
            )
            outcome = await receiver.send(delivery, finish(delivery, now=clock.wall(), zone=None), clock.wall())
            if outcome.delivered:
                click.echo(f"told {settings.name}")
                return True
            click.echo(f"{settings.name}: {outcome.reason.value}: {outcome.detail}", err=True)
            if pause_s is None:
                break
            await clock.sleep(pause_s)
        return False
    finally:
        await receiver.close()
