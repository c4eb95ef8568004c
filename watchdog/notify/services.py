"""What each service can do beyond taking a text: how loud it rings, how an incident there is opened once and closed;
and what it would take for markup.

`services.yaml` is the table. This module imports no apprise: `validate` explains a receiver with it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, quote

import yaml

from watchdog.message.shortening import Limits
from watchdog.model import Delivery, Severity

END = "end"
"""Beside the severities: a RESOLVED or a QUIET."""
LEVELS = (Severity.PAGE.value, Severity.WARN.value, Severity.INFO.value, END)


class Loudness(StrEnum):
    """Who decides how loud a message rings."""

    OURS = "ours"
    URL = "the URL"
    SERVICE = "the service's own rule"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One row of the table.

    `loudness` maps a level to the value of `attribute`, `words` to what it is called. `key` ties the messages of one
    incident together; `open` and `end` are the plugin's `action` for each. `room`: where 0, as the plugin says.
    """

    name: str
    schemes: tuple[str, ...]
    attribute: str = ""
    loudness: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    query: tuple[str, ...] = ()
    follows: bool = False
    key: str = ""
    open: str = ""
    end: str = ""
    room: Limits = field(default_factory=Limits)
    phone: str = ""


@cache
def services() -> Mapping[str, Service]:
    """Every row by each of its schemes."""
    text = resources.files("watchdog.notify").joinpath("services.yaml").read_text("utf-8")
    return {scheme: row for row in map(_service, yaml.safe_load(text)) for scheme in row.schemes}


def _service(row: dict[str, Any]) -> Service:
    given = dict(row)
    loudness = given.pop("loudness", {})
    attribute = loudness.get("attribute", "")
    values = {level: next(iter(loudness[level].items())) for level in LEVELS if attribute}
    return Service(
        attribute=attribute,
        loudness={level: value for level, (_word, value) in values.items()},
        words={level: str(word) for level, (word, _value) in values.items()},
        schemes=tuple(given.pop("schemes")),
        query=tuple(given.pop("query", ())),
        room=Limits(**given.pop("room", {})),
        **given,
    )


@dataclass(frozen=True, slots=True)
class Manner:
    """How messages to one receiver are sent: its service, and what its URL already decides."""

    service: Service | None
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the URL, their names in lower case."""

    @classmethod
    def of(cls, url: str) -> Manner:
        """The manner of an apprise URL."""
        scheme, _, rest = url.strip().partition("://")  # not urlsplit: apprise takes addresses that it refuses
        query = rest.partition("?")[2].partition("#")[0]
        chosen = {name.lower(): value for name, value in parse_qsl(query, keep_blank_values=True)}
        return cls(services().get(scheme.lower()), chosen)

    @property
    def loudness(self) -> Loudness:
        """Who decides how loud a message rings."""
        row = self.service
        if row is not None and not self.chosen.keys().isdisjoint(row.query):
            return Loudness.URL
        if row is not None and row.attribute:
            return Loudness.OURS
        return Loudness.SERVICE if row is not None and (row.follows or row.key) else Loudness.NONE

    @property
    def has_own_key(self) -> bool:
        """Whether the URL ties all messages together by a key of its own."""
        return self.service is not None and bool(self.service.key) and not self.chosen.keys().isdisjoint(_KEYS)

    @property
    def opens_and_closes(self) -> bool:
        """Whether an incident is opened there once and closed at its end."""
        keyed = self.service is not None and bool(self.service.key)
        return keyed and not self.has_own_key and self.chosen.get("action", "map").lower() == "map"

    @property
    def closes_by_alias(self) -> bool:
        """Whether an end is a request of our own: apprise closes only what it remembers, and we keep nothing there."""
        return self.service is not None and self.service.end == "by_alias" and self.opens_and_closes

    def prepare(self, plugin: Any, delivery: Delivery) -> None:
        """Set loudness, key and action of the message that `plugin` sends next."""
        row = self.service
        if row is None:
            return
        if self.loudness is Loudness.OURS:
            level = END if delivery.kind.is_end else delivery.severity.value
            setattr(plugin, row.attribute, _as_kept(plugin, row.attribute, row.loudness[level]))
        if self.opens_and_closes:
            setattr(plugin, row.key, delivery.key)
            if not (delivery.kind.is_end and self.closes_by_alias):
                plugin.action = row.end if delivery.kind.is_end else row.open

    def words(self, limits: Limits) -> str:
        """For `validate`: how loud each level rings, what becomes of an incident there, and how much text it takes."""
        row = self.service
        loud = "this service knows no loudness: a page looks like any message"
        if self.loudness is Loudness.OURS and row is not None:
            loud = " · ".join(f"{level}: {row.words[level]}" for level in LEVELS)
        elif self.loudness is not Loudness.NONE:
            loud = f"as loud as {self.loudness} says"
        keeps = "opens and closes incidents" if self.opens_and_closes else ""
        if row is not None and row.key and not keeps:
            keeps = "does not close incidents: the URL gives all of them one key or action"
        most = min(limits.body, limits.body_bytes or limits.body)
        room = f"room {most:,}" if most < _WIDE else ""
        return " · ".join(filter(None, [loud, keeps, room]))


_WIDE = 30_000
"""A room that no message of ours needs is not mentioned."""
_KEYS = ("dedup", "alias", "external_id", "thirdparty", "id", "entity_id")
"""Parameters of a URL that give all its messages one key."""


def _as_kept(plugin: Any, attribute: str, value: Any) -> Any:
    """`value` in the form in which the plugin keeps it: Firebase has an object that knows its mode."""
    now = getattr(plugin, attribute)
    return type(now)(plugin.mode, value) if type(now).__name__ == "FCMPriorityManager" else value


def close_by_alias(plugin: Any, key: str) -> bool:
    """Ask Opsgenie, or its heir Jira Service Management, to close what has this alias (Alert API, Close Alert)."""
    import requests  # noqa: PLC0415 - comes with apprise, only for who sends

    places: Mapping[Any, str] = getattr(sys.modules[type(plugin).__module__], _PLACES[plugin.secure_protocol])
    url = f"{places[plugin.region_name]}/{quote(key)}/close"
    good, _request = plugin._fetch(requests.post, url, {"source": plugin.app_desc}, {"identifierType": "alias"})
    return bool(good)


_PLACES = {"opsgenie": "OPSGENIE_API_LOOKUP", "jira": "JIRA_API_LOOKUP"}


def limits_of(service: Service | None, plugin: Any) -> Limits:
    """The room for one message: what the table says, else apprise's own limits."""
    room = Limits() if service is None else service.room
    title, body = max(0, int(plugin.title_maxlen)), max(0, int(plugin.body_maxlen))
    return Limits(
        title=min(title, room.title or title),
        body=min(body, room.body or body),
        body_bytes=room.body_bytes,
        lines=max(0, int(plugin.body_max_line_count)),
        joined=title == 0 or bool(plugin.overflow_amalgamate_title),
    )


# What chat services would take for markup or a mention in a kernel line or a model's reply, made plain text.

_BREAK = "\u200b"
"""A space of no width: shows nothing, and ends what would have been a mention or a link."""
_BACKSLASHED = re.compile(r"([\\*_~`|>\[\]()<#])")
_EITHER_SIDE = re.compile(r"([*_~`])")


def _without_mentions(text: str) -> str:
    """A backslash does not keep Discord from notifying whom `<@…>` names, so the sign itself is cut off."""
    for sign, cut in (("@", f"@{_BREAK}"), ("<", f"<{_BREAK}"), ("](", f"]{_BREAK}("), ("://", f":{_BREAK}//")):
        text = text.replace(sign, cut)
    return text


def _escaped(text: str) -> str:
    """For services that show a sign behind a backslash as it is."""
    return _without_mentions(_BACKSLASHED.sub(r"\\\1", text))


def _broken(text: str) -> str:
    """For a service that knows no backslash."""
    return _without_mentions(_EITHER_SIDE.sub(rf"{_BREAK}\1{_BREAK}", text))


_PLAIN = {"NotifyDiscord": _escaped, "NotifyMattermost": _escaped, "NotifyGoogleChat": _broken}


def plain_for(service: object, text: str) -> str:
    """`text` as `service`, a plugin of apprise, shows it unchanged: no mention, no link, nothing bold."""
    make = _PLAIN.get(type(service).__name__)
    return text if make is None else make(text)
