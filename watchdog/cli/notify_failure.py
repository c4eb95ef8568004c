"""`notify-failure`: what a service manager runs when the daemon cannot start, or keeps crashing."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchdog.cli import EXIT_CRITICAL, EXIT_OK, EXIT_USAGE
from watchdog.cli.options import config_option
from watchdog.kinds import SERVICE
from watchdog.model import NotificationKind
from watchdog.reasons import OwnReason

if TYPE_CHECKING:
    from watchdog.config import ReceiverSettings
    from watchdog.model import Incident, Text

PAUSES_S = (2.0, 5.0, 15.0, 30.0, 60.0, 120.0)
"""Waits between attempts at one receiver: at boot the network may come up after us."""
FALLBACK = "INFERENCE_WATCHDOG_FALLBACK_URL"
FALLBACK_CREDENTIALS = ("secret_fallback_url", "fallback_url")
PROBLEMS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ServiceResult:
    """How the service ended, in systemd's words; all empty if unknown."""

    result: str
    code: str
    status: str

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> ServiceResult:
        """From `$SERVICE_RESULT` (ExecStopPost=) or `$MONITOR_SERVICE_RESULT` (OnFailure=, systemd 251 and newer)."""
        for prefix in ("", "MONITOR_"):
            if result := environ.get(f"{prefix}SERVICE_RESULT"):
                return cls(result, environ.get(f"{prefix}EXIT_CODE", ""), environ.get(f"{prefix}EXIT_STATUS", ""))
        return cls("", "", "")

    def __str__(self) -> str:
        return f"{self.result} ({self.code} {self.status})" if self.code else self.result


@click.command()
@config_option
@click.option(
    "--count", "only_count", is_flag=True, help="Count a failed start and notify nobody: for ExecStopPost= of systemd."
)
@click.option(
    "--if-repeated",
    is_flag=True,
    help="Notify after the third counted start in a row, then once an hour: for ExecStartPre= of systemd.",
)
@click.argument("unit", default="inference-watchdog.service")
def command(config_file: str | None, only_count: bool, if_repeated: bool, unit: str) -> int:
    """Notify the receivers that the daemon itself has failed. For service managers.

    Uses every receiver whose address can be read, even from a configuration that is invalid otherwise. If none accepts
    the message, it goes to the apprise URL in $INFERENCE_WATCHDOG_FALLBACK_URL or in the credential fallback_url.

    The units that come with inference-watchdog call it from OnFailure=, when systemd has given up (an invalid
    configuration); and, because a service that is always restarted never fails, with --count after each exit and with
    --if-repeated before each start.

    Exit code 0: somebody was notified, or nobody had to be; 2: nobody could be notified.
    """
    from watchdog.clock import SystemClock
    from watchdog.systemd import FailedStarts

    starts, ending, now = FailedStarts.of_this_service(), ServiceResult.from_environ(os.environ), SystemClock().wall()
    try:
        if only_count:
            # A requested stop is not a failure, and OnFailure= reports a refused configuration.
            if ending.result not in ("", "success") and ending.status != str(EXIT_USAGE):
                starts.note(str(ending))
            return EXIT_OK
        if not if_repeated:
            return EXIT_OK if _notify(config_file, unit, str(ending), now, pauses_s=PAUSES_S) else EXIT_CRITICAL
        due = starts.due(now)
        if due is None:
            return EXIT_OK
        # The start waits for us: one attempt; the next start tries again.
        if not _notify(config_file, unit, due[1], now, times=due[0]):
            return EXIT_CRITICAL
        starts.mark_notified(now)
    except OSError as error:
        raise click.ClickException(f"the count of failed starts cannot be kept: {error}") from error
    return EXIT_OK


def _notify(
    config_file: str | None, unit: str, ending: str, now: float, *, times: int = 1, pauses_s: tuple[float, ...] = ()
) -> bool:
    path, problems = _config_problems(config_file)
    text = failure_text(unit, ending, problems, times)
    return bool(asyncio.run(_send_to_all(_receivers(path), text, _incident(text, now), pauses_s)))


async def tell_of_start(config_file: str | None, ending: str, times: int, now: float) -> tuple[str, tuple[str, ...]]:
    """Tell of a start that failed, one attempt each; returns the incident's id and the receivers that accepted."""
    path, problems = _config_problems(config_file)
    text = failure_text("inference-watchdog", ending, problems, times, NotificationKind.FIRING)
    incident = _incident(text, now)
    return incident.id, await _send_to_all(_receivers(path), text, incident, (), NotificationKind.FIRING)


async def send_end(receivers: list[ReceiverSettings], incident_id: str, since: float) -> bool:
    """Tell those who heard of failed starts that the daemon runs again; returns whether all of them accepted."""
    from watchdog.clock import SystemClock
    from watchdog.model import IncidentStatus, Text
    from watchdog.text import timestamp

    now = SystemClock().wall()
    body = f"It could not start at {timestamp(since, now, None)}; it watches again.\npage · inference-watchdog"
    text = Text(f"RESOLVED inference-watchdog runs again on {platform.node()}", body)
    incident = replace(
        _incident(text, since), id=incident_id, closed_at=now, status=IncidentStatus.RESOLVED, last_at=now
    )
    sent = (_send_to(one, text, incident, PAUSES_S, NotificationKind.RESOLVED) for one in receivers)
    return all(await asyncio.gather(*sent))


def _config_problems(config_file: str | None) -> tuple[Path | None, tuple[str, ...]]:
    """Where the configuration is, if anywhere, and what is wrong with it."""
    from watchdog.errors import ConfigError
    from watchdog.loading import load, locate

    path = None
    try:
        path = locate(config_file)
        load(path)
    except ConfigError as error:
        return path, tuple(str(problem) for problem in error.problems)
    return path, ()


def _receivers(path: Path | None) -> list[ReceiverSettings]:
    from watchdog.loading import salvage_receivers

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


def failure_text(
    unit: str,
    ending: str,
    problems: tuple[str, ...],
    times: int,
    kind: NotificationKind = NotificationKind.NEW,
) -> Text:
    """The message: what failed, why as far as is known, and what to do.

    NEW, an occurrence, where nobody can promise a resolve.
    """
    from watchdog.model import Text

    what = "cannot start" if problems else "keeps failing" if times > 1 else "has failed"
    why = f": {problems[0]}" if problems else f": {ending}" if ending else ""
    log = f"journalctl -u {unit}" if unit.endswith(".service") else "its log"
    shown = [f"- {problem}" for problem in problems[:PROBLEMS_SHOWN]]
    more = len(problems) - len(shown)
    lines = [
        f"page · {unit} on {platform.node()}",
        f"ended: {ending or 'unknown'}" + (f", {times} starts in a row" if times > 1 else ""),
        *shown,
        *([f"- and {more} more"] if more > 0 else []),
        "Nothing is watched until this is fixed."
        if problems or times == 1
        else "It keeps restarting; nothing is watched meanwhile.",
        f"look at: {log}, and `inference-watchdog validate`",
    ]
    return Text(f"{kind} inference-watchdog {what}{why}", "\n".join(lines))


def _incident(text: Text, now: float) -> Incident:
    """The failure as an incident: it is in no store, as the daemon is what failed."""
    from watchdog.model import Cause, Incident, Nature, Severity
    from watchdog.policy import incident_id

    return Incident(
        id=incident_id(now, "", os.getpid() % 1024),
        key=SERVICE.key(),
        nature=Nature.OCCURRENCE,
        cause=Cause.OCCURRENCE,
        severity=Severity.PAGE,
        opened_severity=Severity.PAGE,
        reason=OwnReason.FAILED,
        summary=text.title,
        since=now,
        opened_at=now,
        last_at=now,
    )


async def _send_to_all(
    receivers: list[ReceiverSettings],
    text: Text,
    incident: Incident,
    pauses_s: tuple[float, ...],
    kind: NotificationKind = NotificationKind.NEW,
) -> tuple[str, ...]:
    """Send to all receivers at once, then to the fallback if none of them accepted; returns the names of who did."""
    accepted = await asyncio.gather(*(_send_to(one, text, incident, pauses_s, kind) for one in receivers))
    names = tuple(one.name for one, good in zip(receivers, accepted, strict=True) if good)
    if names:
        return names
    last = fallback(os.environ)
    if last is None:
        click.echo(f"Nobody could be notified: no receiver accepted the message, and ${FALLBACK} is not set.", err=True)
        return ()
    return (last.name,) if await _send_to(last, text, incident, pauses_s, kind) else ()


async def _send_to(
    settings: ReceiverSettings, text: Text, incident: Incident, pauses_s: tuple[float, ...], kind: NotificationKind
) -> bool:
    """Send to one receiver until it accepts, `pauses_s` between the attempts; returns whether it did."""
    from watchdog.clock import SystemClock
    from watchdog.message import finish
    from watchdog.message.redaction import Redactor
    from watchdog.model import Delivery
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
                kind=kind,
                severity=incident.severity,
                title=hide(text.title),
                body=hide(text.body),
                created_at=incident.opened_at if incident.closed_at is None else incident.closed_at,
                attempt=attempt,
                incident=incident,
            )
            outcome = await receiver.send(delivery, finish(delivery, now=clock.wall(), zone=None), clock.wall())
            if outcome.delivered:
                click.echo(f"notified {settings.name}")
                return True
            click.echo(f"{settings.name}: {outcome.reason.value}: {outcome.detail}", err=True)
            if pause_s is None:
                break
            await clock.sleep(pause_s)
        return False
    finally:
        await receiver.close()
