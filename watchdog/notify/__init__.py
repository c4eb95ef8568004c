"""Handing one message to one receiver: any apprise service, or Alertmanager. It sends; it decides nothing.

`apprise` is imported on first need only, in the thread of the receiver that needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from watchdog.config import ReceiverSettings
from watchdog.message.redaction import Redactor
from watchdog.model import Delivery, Incident, Outcome, Text
from watchdog.notify.ack_channels import AckChannel
from watchdog.notify.alertmanager import AlertmanagerReceiver
from watchdog.notify.apprise_receiver import AppriseReceiver, manner_words, phone_words
from watchdog.notify.urls import url_problem
from watchdog.policy import Grouping


class Receiver(Protocol):
    """One place alerts go to. `send` never raises for what the other side does; it always ends within its time."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        ...

    @property
    def refresh_s(self) -> float | None:
        """How often it wants to be told what is still firing; None: never."""
        ...

    @property
    def ack_channel(self) -> AckChannel | None:
        """How a page there is acknowledged on the phone; None: not there."""
        ...

    @property
    def grouping(self) -> Grouping:
        """What it makes of several incidents in one message."""
        ...

    async def send(self, delivery: Delivery, text: Text, now: float) -> Outcome:
        """Hand over one message. `now` is Unix seconds."""
        ...

    async def refresh(self, firing: Iterable[Incident], now: float) -> Outcome:
        """Repeat what is still firing."""
        ...

    async def close(self) -> None:
        """Let go of connections, without waiting for a send that is stuck."""
        ...


def build(settings: ReceiverSettings, redactor: Redactor | None = None) -> Receiver:
    """The receiver of `settings`. `redactor` cleans what the other side says before it is stored or logged."""
    hide = redactor or Redactor([secret for secret in (settings.url, *settings.alertmanager) if secret])
    if settings.alertmanager:
        return AlertmanagerReceiver(settings, hide)
    return AppriseReceiver(settings, hide)


__all__ = ["AlertmanagerReceiver", "AppriseReceiver", "Receiver", "build", "manner_words", "phone_words", "url_problem"]
