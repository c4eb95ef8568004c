"""Taking secrets out of a text before anybody sees it, also when only a part of the secret shows up in it."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from watchdog.config import Secret

REDACTED = "[secret]"
_SHORTEST_WHOLE = 4
_SHORTEST_PART = 8
_COMMON = frozenset({"localhost", "services", "workflows", "webhooks", "incoming", "messages", "notifications"})
"""Path words and hosts of well-known services: no secrets, and masking them would garble ordinary text."""


def _parts(secret: str) -> set[str]:
    """What of `secret` may appear alone in an error text: credentials, tokens in a path, values of a query.

    apprise URLs carry tokens anywhere, even where a host would stand; a dotted name there is taken for a host.
    """
    if "://" not in secret:
        return set()
    scheme, _, rest = secret.partition("://")
    try:
        split = urlsplit("//" + rest, scheme=scheme)
    except ValueError:  # brackets that are no IPv6 address: then only the whole is known
        return set()
    parts = {split.username or "", split.password or "", split.fragment, *split.path.split("/")}
    parts |= {value for _name, value in parse_qsl(split.query)}
    credentials, _, place = split.netloc.rpartition("@")
    parts |= {credentials, *credentials.split(":")}
    parts |= {part for part in (place, *place.split(":")) if "." not in part and not part.startswith("localhost")}
    parts |= {unquote(part) for part in parts}
    return {part for part in parts if len(part) >= _SHORTEST_PART and part.lower() not in _COMMON}


def _encoded(text: str) -> set[str]:
    """`text` as it stands in a URL, in JSON, and in base64, also amid other bytes (a password behind a user name)."""
    forms = {quote(text, safe=""), quote(text), quote_plus(text), json.dumps(text)[1:-1]}
    data = text.encode("utf-8", "replace")
    for before in range(3):  # base64 writes three bytes as four letters: what shares some with a neighbour is left out
        for encode in (b64encode, urlsafe_b64encode):
            first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
            form = encode(bytes(before) + data).decode()[first:last]
            forms |= {form} if len(form) >= _SHORTEST_PART else set()
    return forms


class Redactor:
    """Replaces every secret, its telling parts and their encoded forms in a text with `[secret]`.

    `known_words` are names that must stay readable (servers, hosts, receivers), even if a URL happens to hold them.
    """

    __slots__ = ("_pattern",)

    def __init__(self, secrets: Iterable[Secret | str], known_words: Iterable[str] = ()) -> None:
        """Prepare for `secrets`; those shorter than four characters cannot be told from ordinary text."""
        known = frozenset(known_words)
        texts: set[str] = set()
        for secret in secrets:
            whole = secret.reveal() if isinstance(secret, Secret) else secret
            texts |= {part for part in _parts(whole) if part not in known}
            if len(whole.strip()) >= _SHORTEST_WHOLE:
                texts |= {whole, whole.strip()}
        texts |= {form for text in texts for form in _encoded(text)}
        ordered = sorted(texts, key=lambda text: (-len(text), text))
        self._pattern = re.compile("|".join(re.escape(text) for text in ordered)) if ordered else None

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def __repr__(self) -> str:
        return "Redactor(…)"
