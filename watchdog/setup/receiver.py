"""Receivers: an apprise URL, judged before it is kept, and kept apart from the configuration: it is a secret."""

from __future__ import annotations

from dataclasses import dataclass

from watchdog.config import Secret
from watchdog.errors import WatchdogError
from watchdog.notify import url_problem
from watchdog.setup.files import PRIVATE, Places, read, write
from watchdog.setup.prompts import Talk

NAME = "phone"
EXAMPLE = "ntfys://ntfy.sh/a-topic-nobody-can-guess"


@dataclass(frozen=True, slots=True)
class NewReceiver:
    """One receiver as it will be configured; `reference` is what stands in the file for its URL."""

    name: str
    reference: str
    url: Secret


def check(given: str | None, variable: str | None, value: str | None, *, unattended: bool) -> None:
    """What can be said of the flags before anything is touched. Raises WatchdogError in plain words."""
    if given and variable:
        raise WatchdogError("--receiver and --receiver-env are both given; one of them says where alerts go")
    if variable and not value:
        raise WatchdogError(f"the environment variable {variable} is not set or empty")
    url = given or value
    if not url and unattended:
        raise WatchdogError(f"--receiver is needed: any apprise URL, for example {EXAMPLE}")
    problem = url_problem(url) if url and unattended else None
    if problem:
        raise WatchdogError(f"receiver: {problem}; see https://appriseit.com/services/")


def find(given: str | None, variable: str | None, value: str | None, talk: Talk) -> Secret:
    """A receiver's URL that apprise takes: from the flag, from the environment `variable` (its `value`), or asked for.

    Raises WatchdogError when nobody can be asked for a better one.
    """
    check(given, variable, value, unattended=talk.unattended)
    url = given or value
    while True:
        if not url:
            talk.note(f"Any apprise URL, for example {EXAMPLE}")
            url = talk.ask("Where do alerts go")
            if not url:
                continue
        problem = url_problem(url)
        if problem is None:
            talk.well("apprise accepts this receiver's address. Only a message that arrives proves it.")
            return Secret(url)
        talk.problem(problem, "Correct the address; https://appriseit.com/services/ shows its form.", about="receiver")
        url = ""


def keep(url: Secret, variable: str | None, places: Places, talk: Talk, *, replace: bool) -> NewReceiver:
    """Keep the URL in a file of its own, or leave it in the environment. Raises WatchdogError."""
    talk.solved("receiver")
    if variable:
        return NewReceiver(NAME, f"${{env:{variable}}}", url)
    reference = keep_secret(f"{NAME}_url", url.reveal(), places, talk, replace=replace)
    return NewReceiver(NAME, reference, url)


def keep_secret(name: str, text: str, places: Places, talk: Talk, *, replace: bool) -> str:
    """Keep a secret in a file of its own (0600) and give the reference to it.

    Another text that is there already is replaced only after a yes, or with `replace`. Raises WatchdogError.
    """
    path, reference = places.secret(name)
    if read(path).decode("utf-8", "replace").strip() == text:
        return reference
    if path.exists() and not replace and not talk.agree(f"{path} holds another secret. Replace it?", default=False):
        raise WatchdogError(f"{path} exists already and was left as it is")
    write(path, text + "\n", PRIVATE, replace=path.exists())
    talk.well(f"Kept in {path} (0600), not in the configuration.")
    return reference
