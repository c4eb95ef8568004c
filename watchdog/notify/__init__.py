"""Handing one message to one receiver: any apprise service, or Alertmanager. It sends; it decides nothing.

`apprise` is imported on first need only, in the thread of the receiver that needs it.
"""

from watchdog.notify.alertmanager import AlertmanagerReceiver
from watchdog.notify.apprise_receiver import AppriseReceiver, manner_words, phone_words
from watchdog.notify.receiver import Receiver, build
from watchdog.notify.urls import url_problem

__all__ = ["AlertmanagerReceiver", "AppriseReceiver", "Receiver", "build", "manner_words", "phone_words", "url_problem"]
