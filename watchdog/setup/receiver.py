"""Receivers: an apprise URL, checked before it is stored, and stored outside the configuration: it is a secret."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from watchdog.config import Secret
from watchdog.errors import WatchdogError
from watchdog.notify import manner_words, phone_words, url_problem
from watchdog.setup.files import PRIVATE, Files, read, write
from watchdog.setup.prompts import Prompter

NAME = "phone"
EXAMPLE = "ntfys://ntfy.sh/a-topic-nobody-can-guess"


@dataclass(frozen=True, slots=True)
class NewReceiver:
    """One receiver as it will be configured; `reference` stands in the file for its URL."""

    name: str
    reference: str
    url: Secret


def check(given: str | None, variable: str | None, value: str | None, *, unattended: bool) -> None:
    """Raises WatchdogError for flags that cannot be used. Writes nothing."""
    if given and variable:
        raise WatchdogError("--receiver and --receiver-env cannot be used together")
    if variable and not value:
        raise WatchdogError(f"the environment variable {variable} is not set or empty")
    url = given or value
    if not url and unattended:
        raise WatchdogError(f"--receiver is needed: any apprise URL, for example {EXAMPLE}")
    problem = url_problem(url) if url and unattended else None
    if problem:
        raise WatchdogError(f"receiver: {problem}; see https://appriseit.com/services/")


def choose_url(given: str | None, variable: str | None, value: str | None, prompter: Prompter) -> Secret:
    """A receiver's URL that apprise accepts: from the flag, from the variable named `variable`, or asked for.

    Raises WatchdogError when nobody can be asked for another one.
    """
    check(given, variable, value, unattended=prompter.unattended)
    url = given or value
    while True:
        if not url:
            for line in _OFFER:
                prompter.note(line)
            url = _made(prompter.ask("Where should alerts go (1, 2, 3 or a URL)"), prompter)
            if not url:
                continue
        problem = url_problem(url)
        if problem is None:
            prompter.ok("apprise accepts this URL. Only a message that arrives proves it.")
            prompter.note(manner_words(url))
            if phone := phone_words(url):
                prompter.note(f"On the phone: {phone}.")
            return Secret(url)
        prompter.problem(problem, "Correct the URL; https://appriseit.com/services/ shows its form.", about="receiver")
        url = ""


_OFFER = (
    "1  ntfy: no account, a topic is made up for you    ntfys://ntfy.sh/TOPIC",
    "2  Pushover: bought once, rings through silence    pover://USER_KEY@API_TOKEN",
    "3  Telegram: a bot of your own                     tgram://BOT_TOKEN/CHAT_ID",
    "or any apprise URL: https://appriseit.com/services/",
)


def _ntfy(prompter: Prompter) -> str:
    topic = f"iw-{secrets.token_hex(8)}"
    prompter.note(f"Subscribe to this topic in the ntfy app (server ntfy.sh): {topic}")
    return f"ntfys://ntfy.sh/{topic}"


def _pushover(prompter: Prompter) -> str:
    user = prompter.ask("Your user key, from the dashboard of pushover.net")
    token = prompter.ask("The API token of an application you created there", hidden=True)
    return f"pover://{quote(user, '')}@{quote(token, '')}"


def _telegram(prompter: Prompter) -> str:
    token = prompter.ask("The bot's token, from @BotFather", hidden=True)
    prompter.note("Write to the bot once; then /getUpdates of your bot shows the number of your chat.")
    chat = prompter.ask("The chat's number")
    return f"tgram://{token}/{quote(chat, '')}"


_MADE: dict[str, Callable[[Prompter], str]] = {"1": _ntfy, "2": _pushover, "3": _telegram}


def _made(answer: str, prompter: Prompter) -> str:
    """The URL that a person chose: one of the usual ways by its number, or what was typed."""
    make = _MADE.get(answer)
    return answer if make is None else make(prompter)


def store_url(url: Secret, variable: str | None, files: Files, prompter: Prompter, *, replace: bool) -> NewReceiver:
    """Store the URL in a file of its own, or leave it in the environment. Raises WatchdogError."""
    prompter.clear("receiver")
    if variable:
        return NewReceiver(NAME, f"${{env:{variable}}}", url)
    reference = store_secret(f"{NAME}_url", url.reveal(), files, prompter, replace=replace)
    return NewReceiver(NAME, reference, url)


def store_secret(name: str, text: str, files: Files, prompter: Prompter, *, replace: bool) -> str:
    """Store a secret in a file of its own (0600). Returns the reference to it.

    A file with another text is replaced only after a yes, or with `replace`. Raises WatchdogError.
    """
    path, reference = files.secret(name)
    if read(path).decode("utf-8", "replace").strip() == text:
        return reference
    if (
        path.exists()
        and not replace
        and not prompter.confirm(f"{path} contains another secret. Replace it?", default=False)
    ):
        raise WatchdogError(f"{path} already exists and was not changed")
    write(path, text + "\n", PRIVATE, replace=path.exists())
    prompter.ok(f"Stored in {path} (0600), not in the configuration.")
    return reference
