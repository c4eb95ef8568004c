"""What is wrong with a receiver's URL, in words that never repeat the URL itself: it holds secrets.

This file is also run by itself in another process (`watchdog.loading.receiver_checks`), so it imports nothing of ours.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LOCAL_SCHEMES = frozenset({"windows", "macosx", "gnome", "dbus", "kde", "qt", "glib", "syslog", "growl"})
_TALKATIVE = ("apprise", "urllib3", "requests_oauthlib", "oauthlib", "paho", "markdown")
"""Loggers of apprise and of what it sends with."""


def mute_loggers() -> None:
    """Keep apprise out of our logs: below WARNING it writes payloads, tokens and URLs, and even its warnings about a
    URL hold the token (seen in 2.3). What it says about one send is read from the result of that send.
    """
    for name in _TALKATIVE:
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


def leave_deleted_directory() -> None:
    """Go to / if our working directory is gone: apprise asks for it when it is imported. Nothing relative is lost."""
    try:
        Path.cwd()
    except OSError:
        os.chdir("/")


def url_problem(url: str) -> str | None:
    """What is wrong with an apprise URL, or None if it can be used. For checking a configuration.

    Imports apprise (a quarter of a second). Besides what apprise rejects it finds what apprise accepts though it could
    never arrive: no topic, no target, an id that cannot be one, two URLs in one.
    """
    found = _SCHEME.match(url.strip())
    if not found:
        return "not a URL: it must begin with a service such as `tgram://`, `mailtos://` or `ntfys://`"
    mute_loggers()
    leave_deleted_directory()
    import apprise  # noqa: PLC0415 - only for who checks a receiver

    scheme = found.group(1).lower()
    service = apprise.Apprise(asset=apprise.AppriseAsset(storage_mode=apprise.PersistentStoreMode.MEMORY))
    if scheme in _LOCAL_SCHEMES or not service.add(url):
        return _why_not(scheme, _schemas(apprise.Apprise()))  # describing every service takes longer than taking a URL
    if len(service) != 1:
        return f"these are {len(service)} URLs in one; give each its own receiver, so that each is retried on its own"
    return _never_arrives(scheme, url, service[0])


def _why_not(scheme: str, schemas: dict[str, dict[str, Any]]) -> str:
    """Why apprise does not take a URL of this scheme, or we do not."""
    if scheme not in schemas:
        return _unknown(scheme, schemas)
    missing = _missing_library(scheme, schemas[scheme])
    if missing:
        return missing
    forms = ", ".join(_forms(scheme, schemas[scheme])[:3])
    return f"apprise does not accept this {scheme}:// URL; it must look like {forms}"


def _schemas(known: Any) -> dict[str, dict[str, Any]]:
    """Every scheme apprise knows, with its description; services of this machine's desktop are left out."""
    schemas = {}
    for row in known.details(show_requirements=True, show_disabled=True)["schemas"]:
        for scheme in (*(row["protocols"] or ()), *(row["secure_protocols"] or ())):
            if scheme not in _LOCAL_SCHEMES:
                schemas[str(scheme)] = row
    return schemas


def _unknown(scheme: str, schemas: dict[str, dict[str, Any]]) -> str:
    if scheme in _LOCAL_SCHEMES:
        return f"{scheme}:// shows messages on this machine's own screen or log, where no daemon should alert"
    webhook = {"http": ["json"], "https": ["jsons"]}  # who writes http:// means a webhook
    close = webhook.get(scheme) or difflib.get_close_matches(scheme, sorted(schemas), n=1, cutoff=0.6)
    hint = f"; did you mean `{close[0]}://`?" if close else ""
    return f"apprise knows no service `{scheme}://`{hint}"


def _missing_library(scheme: str, row: dict[str, Any]) -> str | None:
    if row.get("enabled", True):
        return None
    needed = [str(name) for name in row.get("requirements", {}).get("packages_required", ())]
    what = " and ".join(needed) if needed else "a library that is not installed"
    return f"{scheme}:// needs {what}; install it into the environment of inference-watchdog"


def _forms(scheme: str, row: dict[str, Any]) -> list[str]:
    return [template.replace("{schema}", scheme) for template in row["details"]["templates"]]


def _bad_recipient(url: str, service: Any) -> str | None:
    """apprise drops an address that it does not take for one, without a word."""
    asked = [value for name, value in parse_qsl(urlsplit(url.strip()).query) if name.lower() == "to"]
    wanted = [one for value in asked for one in re.split(r"[,;\s]+", value) if one]
    if not service.targets or len(service.targets) < len(wanted):
        return "an address in `to=` is not an e-mail address; write it like to=oncall@example.org"
    return None


def _never_arrives(scheme: str, url: str, service: Any) -> str | None:
    """What apprise 2.3 accepts though nothing could ever arrive."""
    if len(service) == 0:
        return f"this {scheme}:// URL names nobody to send to"
    if scheme in ("ntfy", "ntfys") and not getattr(service, "topics", True):
        return f"this {scheme}:// URL has no topic; it must look like {scheme}://TOPIC or {scheme}://HOST/TOPIC"
    if scheme in ("mailto", "mailtos"):
        return _bad_recipient(url, service)
    if scheme == "discord" and not str(getattr(service, "webhook_id", "0")).isdigit():
        return "the first part of a discord:// URL must be the webhook's number; copy it from the webhook's address"
    return None


def address_problem(url: str) -> str | None:
    """What is wrong with an Alertmanager address, or None: it is a plain `http://host:9093`, perhaps with a path."""
    split = urlsplit(url.strip())
    if split.scheme not in ("http", "https"):
        return "an Alertmanager address begins with http:// or https://"
    try:
        usable = bool(split.hostname) and (split.port is None or split.port > 0)
    except ValueError:
        usable = False
    if not usable:
        return "an Alertmanager address needs a host, and a port from 1 to 65535 if it has one"
    if split.path.rstrip("/").endswith("/api/v2/alerts"):
        return "give the address without /api/v2/alerts; that part is added"
    if split.query or split.fragment:
        return "an Alertmanager address has no ? and no # part"
    return None
