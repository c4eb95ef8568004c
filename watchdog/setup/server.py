"""Servers: from an address to settings that are proven by a real probe."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit, urlunsplit

from watchdog.chat import ChatClient
from watchdog.checks.examination import Offer, fix_for, listed, offer_of, probe, thought_only
from watchdog.checks.generation_report import ProbeOutcome
from watchdog.clock import SystemClock
from watchdog.config import ProbeSettings, Secret, ServerSettings
from watchdog.errors import WatchdogError
from watchdog.loading.host_checks import is_host
from watchdog.loading.server_checks import web_url_parts
from watchdog.model import Verdict
from watchdog.reasons import ServerReason
from watchdog.setup.prompts import Prompter

NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
ADDRESS = re.compile(r"[0-9.:]+|localhost")
LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class NewServer:
    """One server as it will be configured. `key_reference` stands in the file for the key."""

    settings: ServerSettings
    engine: str | None = None
    thinks: bool = False
    key_reference: str | None = None


StoreKey = Callable[[str, str], str]
"""Takes a server's name and its key, stores the key, and returns the reference to it."""


def usable_url(text: str) -> str:
    """`text` as a base URL, with `http://` where it has no scheme. Raises WatchdogError for what is not an address."""
    url = text.strip()
    if "://" not in url:
        url = f"http://{url}"
    url = url.rstrip("/").removesuffix("/chat/completions")
    parts, problem, _ = web_url_parts(url)
    if parts is None or not is_host((parts.hostname or "").partition("%")[0]):
        why = f" ({problem})" if problem else ""
        raise WatchdogError(f"{text} is not a server address{why}; write it like http://192.0.2.10:8000/v1")
    return urlunsplit(parts)


def set_up(
    url: str,
    model: str | None,
    key: tuple[Secret, str] | None,
    prompter: Prompter,
    store_key: StoreKey,
    timeout_s: float,
) -> NewServer:
    """Find out about the server at `url` and prove it with one probe; problems are printed, with what to do.

    `model` and `key` (with its reference) are what is already known. A key that is typed in goes to `store_key`.
    """
    return asyncio.run(_Finder(prompter, store_key, timeout_s).find(url, model, key))


class _Finder:
    def __init__(self, prompter: Prompter, store_key: StoreKey, timeout_s: float) -> None:
        self._prompter = prompter
        self._store_key = store_key
        self._timeout_s = timeout_s

    async def find(self, url: str, model: str | None, key: tuple[Secret, str] | None) -> NewServer:
        settings = ServerSettings(
            name=_name_from(model or "", url),
            base_url=url,
            model=model,
            api_key=key[0] if key else None,
            probe=ProbeSettings(timeout_s=self._timeout_s),
        )
        reference = key[1] if key else None
        async with ChatClient() as chat:
            while True:
                settings, offer = await self._address(settings, chat)
                settings, reference = self._key(settings, offer, reference)
                if reference and offer.models is None:
                    offer = await offer_of(settings, chat)
                settings = self._model(settings, offer)
                settings = replace(settings, on_demand=offer.on_demand)
                outcome = await self._prove(settings, offer, chat)
                if outcome.verdict is not Verdict.FAIL or not self._prompter.confirm_retry("Try again?"):
                    break
                settings, reference = self._corrected(settings, outcome, reference)
        return NewServer(
            settings=settings,
            engine=offer.engine,
            thinks=thought_only(outcome),
            key_reference=reference,
        )

    async def _address(self, settings: ServerSettings, chat: ChatClient) -> tuple[ServerSettings, Offer]:
        """The address as given, or with /v1 where only that answers."""
        offer = await offer_of(settings, chat)
        if offer.status is None and not urlsplit(settings.base_url).path:
            self._prompter.note("Nothing answers there yet; adding /v1, where most servers have their API.")
            return replace(settings, base_url=f"{settings.base_url}/v1"), offer
        if offer.status is None or offer.models is not None or offer.status in (401, 403):
            return settings, offer
        if not settings.base_url.endswith("/v1"):
            longer = replace(settings, base_url=f"{settings.base_url}/v1")
            other = await offer_of(longer, chat)
            if other.models is not None or other.status in (401, 403):
                self._prompter.note(f"The API is at {longer.base_url}; using that.")
                return longer, other
        return settings, offer

    def _key(self, settings: ServerSettings, offer: Offer, reference: str | None) -> tuple[ServerSettings, str | None]:
        if offer.status not in (401, 403) or settings.api_key is not None:
            return settings, reference
        self._prompter.note("The server requires an API key.")
        typed = self._prompter.ask("API key (not shown; Enter for none)", hidden=True)
        if not typed:
            return settings, None
        return replace(settings, api_key=Secret(typed)), self._store_key(settings.name, typed)

    def _model(self, settings: ServerSettings, offer: Offer) -> ServerSettings:
        models = offer.models or ()
        if settings.model is not None or len(models) < 2:
            only = settings.model or (models[0] if models else "")
            return replace(settings, name=_name_from(only, settings.base_url))
        self._prompter.note(f"It serves {len(models)} models: {listed(models)}.")
        default = (offer.loaded or models)[0]
        chosen = self._prompter.ask("Which one should be probed?", default)
        if self._prompter.unattended:
            self._prompter.note(f"Using {chosen}; --model selects another.")
        return replace(settings, model=chosen, name=_name_from(chosen, settings.base_url))

    async def _prove(self, settings: ServerSettings, offer: Offer, chat: ChatClient) -> ProbeOutcome:
        about = f"server {settings.name}"
        self._prompter.clear(about)
        if offer.models is not None:
            engine = f", engine {offer.engine}" if offer.engine else ""
            self._prompter.ok(f"{settings.base_url} serves {listed(offer.models) or 'no model'}{engine}.")
        if settings.on_demand:
            self._prompter.note("It loads models on demand: a probe never loads one (on_demand: true).")
        outcome = await probe(settings, chat, SystemClock().wall())
        if outcome.verdict is Verdict.PASS:
            self._prompter.ok(f"It generates text: {outcome.summary()}.")
            if thought_only(outcome):
                self._prompter.note("A thinking model: its five tokens are spent on thinking. That counts as alive.")
        elif outcome.reason is ServerReason.ASLEEP and not offer.lacks(settings.model):
            self._prompter.note(f"{outcome.summary()}: not proven, but not a problem.")
        else:
            fix = fix_for(settings, outcome, offer.models) or "Look at the server's log."
            reason = ServerReason.UNKNOWN_MODEL if outcome.reason is ServerReason.ASLEEP else outcome.reason
            self._prompter.problem(f"{outcome.summary()} ({reason.value})", fix, about=about)
        return outcome

    def _corrected(
        self, settings: ServerSettings, outcome: ProbeOutcome, reference: str | None
    ) -> tuple[ServerSettings, str | None]:
        """The settings after a person could correct what made the probe fail."""
        if outcome.reason is ServerReason.UNKNOWN_MODEL:
            model = self._prompter.ask("Model (Enter: the one it serves)")
            return replace(settings, model=model or None), reference
        if outcome.reason is ServerReason.AUTH:
            typed = self._prompter.ask("API key (not shown)", hidden=True)
            if typed:
                return replace(settings, api_key=Secret(typed)), self._store_key(settings.name, typed)
            return settings, reference
        url = self._prompter.ask("Address of the server", settings.base_url)
        try:
            return replace(settings, base_url=usable_url(url)), reference
        except WatchdogError as error:
            self._prompter.note(str(error))
            return settings, reference


def _name_from(model: str, url: str) -> str:
    """A short name: the model's last part, or the machine's."""
    last = model.rstrip("/").rpartition("/")[2].partition(":")[0]
    short = NOT_A_NAME.sub("-", last).strip("-._").lower()
    if not short:
        host = urlsplit(url).hostname or "server"
        short = "llm" if ADDRESS.fullmatch(host) else host.partition(".")[0]
    return short[:LONGEST_NAME].rstrip("-._") or "llm"
