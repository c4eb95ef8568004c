"""Prometheus Alertmanager as a receiver: its v2 API, refreshed while something is firing.

An alert is identified by its labels there, so `severity` changing makes a new one: the old one is ended along with it.
https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from watchdog.config import ReceiverSettings
from watchdog.http_call import http_call
from watchdog.kinds import TEST
from watchdog.message.redaction import Redactor
from watchdog.model import Delivery, Incident, Outcome, OutcomeReason, Severity, Text
from watchdog.notify.ack_channels import AckChannel
from watchdog.policy import Grouping
from watchdog.text import clean_line

REFRESH_S = 60.0
"""How often what is firing is posted again."""
VALID_S = 1800.0
"""How long Alertmanager believes a firing alert without a refresh: longer than a restart of ours may take."""
_PATH = "/api/v2/alerts"
_BATCH = 200
_DETAIL = 200
_READ_BYTES = 2000


class AlertmanagerReceiver:
    """Posts to every address; one that accepts is enough (they tell each other), as Prometheus does it."""

    refresh_s: float | None = REFRESH_S
    ack_channel: AckChannel | None = None
    grouping = Grouping.NONE

    def __init__(self, settings: ReceiverSettings, redactor: Redactor) -> None:
        self.name = settings.name
        self._addresses = tuple(secret.reveal().rstrip("/") for secret in settings.alertmanager)
        self._timeout_s = settings.timeout_s
        self._hide = redactor

    async def send(self, delivery: Delivery, text: Text, now: float) -> Outcome:
        """Post the alert of one message: firing until further notice, or ended."""
        if delivery.incident is None:
            alerts = [_test_alert(delivery, text, now)]
        else:
            over = delivery.kind.is_end
            alerts = [alert_of(delivery.incident, delivery.severity, text, ends_at=None if over else now + VALID_S)]
            alerts += _lower(delivery.incident, delivery.severity, text, now)
        return await self._post(alerts)

    async def refresh(self, firing: Iterable[Incident], now: float) -> Outcome:
        """Post again what is still firing: Alertmanager resolves what is not repeated within its `resolve_timeout`."""
        alerts = [
            alert_of(incident, incident.severity, Text(incident.statement, incident.statement), ends_at=now + VALID_S)
            for incident in firing
        ]
        outcome = Outcome(OutcomeReason.DELIVERED)
        for start in range(0, len(alerts), _BATCH):
            outcome = await self._post(alerts[start : start + _BATCH])
        return outcome

    async def close(self) -> None:
        """Nothing to close: every post has a connection of its own."""

    async def _post(self, alerts: list[dict[str, Any]]) -> Outcome:
        answers = await asyncio.gather(*(self._post_to(base, alerts) for base in self._addresses))
        accepted = next((answer for answer in answers if answer.delivered), None)
        return accepted or answers[0]

    async def _post_to(self, base: str, alerts: list[dict[str, Any]]) -> Outcome:
        reply = await http_call("POST", base + _PATH, timeout_s=self._timeout_s, json=alerts, read_bytes=_READ_BYTES)
        if reply.status is None:
            reason = OutcomeReason.TIMEOUT if reply.timed_out else OutcomeReason.UNREACHABLE
            return Outcome(reason, self._plain(reply.problem))
        if reply.status == 200:
            return Outcome(OutcomeReason.DELIVERED)
        why = self._plain(f"HTTP {reply.status}: {reply.body}")
        return Outcome(OutcomeReason.REFUSED, why, answered=True, retry_after_s=reply.retry_after_s)

    def _plain(self, text: str) -> str:
        return clean_line(self._hide(text))[:_DETAIL]


def alert_of(incident: Incident, severity: Severity, text: Text, *, ends_at: float | None) -> dict[str, Any]:
    """One alert in the v2 form. `ends_at` in Unix seconds; None: it ended when the incident did."""
    labels = {
        "alertname": _alert_name(incident.key),
        "check": incident.key,
        "severity": severity.value,
        **{name: incident.labels[name] for name in ("server", "host", "kind", "device") if incident.labels.get(name)},
    }
    end = ends_at if ends_at is not None else incident.closed_at or incident.last_at
    return {
        "labels": labels,
        "annotations": {"summary": text.title, "description": text.body, "incident": incident.id},
        "startsAt": _stamp(min(incident.since, end)),
        "endsAt": _stamp(end),
    }


def _lower(incident: Incident, severity: Severity, text: Text, now: float) -> list[dict[str, Any]]:
    """The same incident under the severity it had before it was raised: over, for it goes on under the new one."""
    if incident.opened_severity.rank >= severity.rank:
        return []
    return [alert_of(incident, incident.opened_severity, text, ends_at=now)]


def _alert_name(key: str) -> str:
    """`generation/…` → `InferenceWatchdogGeneration`."""
    kind = key.partition("/")[0]
    return "InferenceWatchdog" + "".join(part.capitalize() for part in kind.split("_"))


def _test_alert(delivery: Delivery, text: Text, now: float) -> dict[str, Any]:
    return {
        "labels": {"alertname": "InferenceWatchdogTest", "severity": delivery.severity.value, "check": TEST.key()},
        "annotations": {"summary": text.title, "description": text.body, "incident": delivery.incident_id},
        "startsAt": _stamp(delivery.created_at),
        "endsAt": _stamp(now if delivery.kind.is_end else now + VALID_S),
    }


def _stamp(at: float) -> str:
    """RFC 3339 in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
