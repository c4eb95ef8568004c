"""Rules about names: what a name may look like, that it is unique, and that a name that is referred to exists."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from watchdog.loading.problems import Problems
from watchdog.loading.records import Record

NAME = re.compile(r"[^\W_][\w.@:+-]{0,63}")
"""Names end up in check keys (`generation/deepseek`), command lines and titles of 80 characters."""


def check_names(root: Record, problems: Problems) -> None:
    """Every server, host, receiver and maintenance window has a sane name of its own."""
    for section in ("servers", "hosts", "receivers", "maintenance"):
        first: dict[str, Record] = {}
        for record in root.sections(section):
            name = record.get("name")
            if name is None:
                continue
            if NAME.fullmatch(name) is None:
                _refuse(record, name, problems)
            elif name in first:
                line = first[name].at("name").mark.line
                quoted = record.quoted("name", name)
                problems.error(record.at("name"), f"{quoted} is used twice in {section}", f"first on line {line}")
            else:
                first[name] = record


def _refuse(record: Record, name: str, problems: Problems) -> None:
    quoted = record.quoted("name", name)
    better = re.sub(r"[^\w.@:+-]+", "-", unicodedata.normalize("NFC", name)).strip("-._@:+")[:64]
    problems.error(
        record.at("name"),
        f"{quoted} is no usable name: letters, digits and . _ - @ : + only, at most 64 of them, "
        "a letter or digit first",
        record.hint("name", f"did you mean {better}?" if NAME.fullmatch(better) and name in quoted else ""),
    )


def names_of(root: Record, section: str) -> list[str] | None:
    """The names given in a section, good or bad, in file order; None when the section could not be read."""
    if root.get(section) is None or section in root.meant:
        return None
    return [name for record in root.sections(section) if (name := record.get("name")) is not None]


def check_mentions(root: Record, problems: Problems) -> None:
    """Hosts, receivers and fallbacks that are mentioned exist; none is mentioned twice in one list."""
    hosts, receivers = names_of(root, "hosts"), names_of(root, "receivers")
    for server in root.sections("servers"):
        _mentions(server, "hosts", "host", hosts, problems)
        _mentions(server, "receivers", "receiver", receivers, problems)
    for host in root.sections("hosts"):
        _mentions(host, "receivers", "receiver", receivers, problems)
    for receiver in root.sections("receivers"):
        fallback = receiver.get("fallback")
        if fallback is not None and receivers is not None and fallback not in receivers:
            _no_such(receiver, "fallback", "receiver", fallback, receivers, problems)
    _check_fallback_rings(root, problems)


def _mentions(record: Record, field: str, what: str, known: list[str] | None, problems: Problems) -> None:
    if known is None:
        return
    seen: set[str] = set()
    for number, name in enumerate(record.get(field) or ()):
        if not isinstance(name, str):
            continue
        if name in seen:
            where = f"{field}[{number}]"
            problems.error(record.at(where), f"{record.quoted(where, name)} is named twice", "remove one")
        elif name not in known:
            _no_such(record, f"{field}[{number}]", what, name, known, problems)
        seen.add(name)


def _no_such(record: Record, where: str, what: str, name: str, known: Iterable[str], problems: Problems) -> None:
    hint = problems.suggest(name, known) or f"add it under `{what}s`"
    quoted = record.quoted(where, name)
    problems.error(record.at(where), f"there is no {what} named {quoted}", record.hint(where, hint))


def _check_fallback_rings(root: Record, problems: Problems) -> None:
    follows = {receiver.get("name"): receiver.get("fallback") for receiver in root.sections("receivers")}
    for receiver in root.sections("receivers"):
        start = receiver.get("name")
        if start is None:
            continue
        passed, name = {start}, follows[start]
        while name in follows and name not in passed:
            passed.add(name)
            name = follows[name]
        if name == start:
            problems.error(receiver.at("fallback"), "falls back to itself", "name another receiver")
