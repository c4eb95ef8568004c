"""Checks across sections: names are unique, what is referred to exists, every check reaches a receiver."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from watchdog.config import ACKNOWLEDGE_ON, Secret
from watchdog.errors import RuleError
from watchdog.kinds import GENERATION, KERNEL_LOG, CheckKind
from watchdog.loading.problems import Problems, Record, shown
from watchdog.model import Severity, matches_value
from watchdog.policy import LABELS
from watchdog.policy.plan import Listener, listeners

NAME = re.compile(r"[^\W_][\w.@:+-]{0,63}")
"""Names appear in check keys (`generation/deepseek`), command lines and titles of 80 characters."""


def check_across_sections(root: Record, problems: Problems) -> None:
    check_names(root, problems)
    check_references(root, problems)
    check_seats(root, problems)
    check_kernel_rules(root, problems)
    check_maintenance(root, problems)
    check_reachability(root, problems)


def check_names(root: Record, problems: Problems) -> None:
    """Every server, seat, host, receiver and maintenance window has a valid, unique name."""
    for section in ("servers", "seats", "hosts", "receivers", "maintenance"):
        first: dict[str, Record] = {}
        for record in root.sections(section):
            name = record.get("name")
            if name is None:
                continue
            if NAME.fullmatch(name) is None:
                _invalid_name(record, name, problems)
            elif name in first:
                line = first[name].at("name").mark.line
                quoted = record.quoted("name", name)
                problems.error(record.at("name"), f"{quoted} is used twice in {section}", f"first on line {line}")
            else:
                first[name] = record


def _invalid_name(record: Record, name: str, problems: Problems) -> None:
    quoted = record.quoted("name", name)
    better = re.sub(r"[^\w.@:+-]+", "-", unicodedata.normalize("NFC", name)).strip("-._@:+")[:64]
    problems.error(
        record.at("name"),
        f"{quoted} is not a valid name: at most 64 letters, digits and . _ - @ : +, starting with a letter or digit",
        record.hint("name", f"did you mean {better}?" if NAME.fullmatch(better) and name in quoted else ""),
    )


def names_of(root: Record, section: str) -> list[str] | None:
    """The names given in a section, good or bad, in file order; None when the section could not be read."""
    if root.get(section) is None or section in root.misspelled:
        return None
    return [name for record in root.sections(section) if (name := record.get("name")) is not None]


def check_references(root: Record, problems: Problems) -> None:
    """Hosts, receivers and fallbacks that are referred to exist; none is listed twice."""
    hosts, receivers = names_of(root, "hosts"), names_of(root, "receivers")
    for server in root.sections("servers"):
        _check_list(server, "hosts", "host", hosts, problems)
        _check_list(server, "receivers", "receiver", receivers, problems)
    for host in root.sections("hosts"):
        _check_list(host, "receivers", "receiver", receivers, problems)
    for receiver in root.sections("receivers"):
        fallback = receiver.get("fallback")
        if fallback is not None and receivers is not None and fallback not in receivers:
            _unknown_name(receiver, "fallback", "receiver", fallback, receivers, problems)
        _check_acknowledge(receiver, problems)
        escalate = receiver.section("escalate")
        _check_list(escalate, "to", "receiver", receivers, problems)
        if receiver.get("name") in (escalate.get("to") or ()):
            problems.error(escalate.at("to"), "escalates to itself", "it is repeated here anyway: name others")
    _check_fallback_loops(root, problems)


def check_seats(root: Record, problems: Problems) -> None:
    """A seat has two servers or more, which exist; no server has two seats, or is left asleep as well."""
    servers = names_of(root, "servers")
    on_demand = {server.get("name") for server in root.sections("servers") if server.get("on_demand")}
    first: dict[str, Record] = {}
    for seat in root.sections("seats"):
        _check_list(seat, "servers", "server", servers, problems)
        named = [name for name in seat.get("servers") or () if isinstance(name, str)]
        if len(named) == 1:
            problems.error(seat.at("servers"), "has only one server, so nobody takes turns", "name another, or no seat")
        for number, name in enumerate(named):
            where = f"servers[{number}]"
            if first.setdefault(name, seat) is not seat:
                line = first[name].at("servers").mark.line
                problems.error(seat.at(where), f"{seat.quoted(where, name)} has a seat already", f"on line {line}")
            elif name in on_demand:
                problem = f"{seat.quoted(where, name)} is `on_demand`, so it is never known to be gone"
                problems.error(seat.at(where), problem, "remove `on_demand`, or take it out of the seat")


def _check_acknowledge(receiver: Record, problems: Problems) -> None:
    url = receiver.get("url")
    scheme = url.reveal().strip().partition("://")[0].lower() if isinstance(url, Secret) else ""
    if receiver.get("acknowledge") and scheme not in ACKNOWLEDGE_ON:
        known = ", ".join(f"{one}://" for one in ACKNOWLEDGE_ON)
        problems.error(
            receiver.at("acknowledge"),
            "a page cannot be acknowledged on the phone with this service",
            f"this works with {known}; elsewhere use `inference-watchdog ack`",
        )


def _check_list(record: Record, field: str, what: str, known: list[str] | None, problems: Problems) -> None:
    if known is None:
        return
    seen: set[str] = set()
    for number, name in enumerate(record.get(field) or ()):
        if not isinstance(name, str):
            continue
        if name in seen:
            where = f"{field}[{number}]"
            problems.error(record.at(where), f"{record.quoted(where, name)} is listed twice", "remove one")
        elif name not in known:
            _unknown_name(record, f"{field}[{number}]", what, name, known, problems)
        seen.add(name)


def _unknown_name(record: Record, where: str, what: str, name: str, known: Iterable[str], problems: Problems) -> None:
    hint = problems.suggest(name, known) or f"add it under `{what}s`"
    quoted = record.quoted(where, name)
    problems.error(record.at(where), f"there is no {what} named {quoted}", record.hint(where, hint))


def _check_fallback_loops(root: Record, problems: Problems) -> None:
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


# Reach: there is something to watch, and every check alerts somebody (design §2, invariant 8).

SHOWN_CHECKS = 3
KINDS = {"servers": GENERATION, "hosts": KERNEL_LOG}


def check_reachability(root: Record, problems: Problems) -> None:
    """Every check reaches a receiver; a check whose warnings reach nobody is a warning."""
    if root.misspelled & {*KINDS, "receivers"}:
        return
    if not any(root.given(section) and root.values[section] != () for section in KINDS):
        problems.error(
            root.place, "there is nothing to watch: neither a server nor a host", "start from config/minimal.yaml"
        )
        return
    if root.given("receivers") and root.get("receivers") is None:
        return
    checks = [(record, kind) for section, kind in KINDS.items() for record in root.sections(section)]
    if root.get("receivers"):
        everyone = tuple(_listeners(root))
        missed = [_check_key(record, kind) for record, kind in checks if _misses_warnings(record, everyone)]
        if missed:
            hint = "add a receiver with min_severity: warn, for example a mail address"
            problems.warn(root.at("receivers"), f"warnings reach no receiver, only pages do: {_some(missed)}", hint)
    elif checks:
        names = _some([_check_key(record, kind) for record, kind in checks])
        problem = f"there is no receiver: nobody would be alerted about {names}"
        problems.error(root.at("receivers"), problem, "add one under `receivers`")


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - SHOWN_CHECKS} more" if len(names) > SHOWN_CHECKS else ""
    return ", ".join(names[:SHOWN_CHECKS]) + rest


def _check_key(record: Record, kind: CheckKind) -> str:
    name = record.get("name")
    return kind.key(name) if name else record.place.path


def _listeners(root: Record) -> Iterator[Listener]:
    for receiver in root.sections("receivers"):
        name, severity = receiver.get("name"), receiver.get("min_severity")
        if name is not None and severity is not None:
            yield Listener(name, severity)


def _misses_warnings(record: Record, everyone: tuple[Listener, ...]) -> bool:
    heard_by = listeners([name for name in record.get("receivers") or () if isinstance(name, str)], everyone)
    return bool(heard_by) and all(one.min_severity.rank > Severity.WARN.rank for one in heard_by)


# Maintenance: what it matches exists, and its times are unambiguous.

WEEKLY = ("days", "start", "duration_s", "time_zone")
ONCE = ("begins", "ends")
_MAINTENANCE_EXAMPLE = "write days, start, duration and time_zone for every week, or begins and ends for one time"
NAMED_IN = {"server": "servers", "host": "hosts", "receiver": "receivers"}


def check_maintenance(root: Record, problems: Problems) -> None:
    """Each window matches something that exists, and is either weekly with a time zone or one-time."""
    for window in root.sections("maintenance"):
        _check_matcher(root, window, problems)
        _check_times(window, problems)


def _check_matcher(root: Record, window: Record, problems: Problems) -> None:
    matcher = window.get("match")
    if matcher is None:
        return
    if not matcher:
        problems.error(
            window.at("match"),
            "is empty, so it matches nothing",
            'name a label, for example {server: NAME} or {host: "*"}',
        )
    for label, wanted in matcher.items():
        where = f"match.{label}"
        if label not in LABELS:
            hint = problems.suggest(label, LABELS) or f"labels are: {', '.join(LABELS)}"
            problems.error(
                window.at(where), f"there is no label {label!r}" if label.isidentifier() else "no label", hint
            )
        elif label in NAMED_IN:
            known = names_of(root, NAMED_IN[label])
            if known is not None and not any(matches_value(wanted, name) for name in known):
                quoted = window.quoted(where, wanted)
                hint = window.hint(where, problems.suggest(wanted, known))
                problems.error(window.at(where), f"no {label} is named {quoted}", hint)


def _check_times(window: Record, problems: Problems) -> None:
    weekly = [name for name in WEEKLY if window.given(name)]
    once = [name for name in ONCE if window.given(name)]
    if weekly and once:
        problems.error(window.at(once[0]), "is for a one-time window, but this one is weekly", _MAINTENANCE_EXAMPLE)
    elif not weekly and not once:
        problems.error(window.place, "does not say when it applies", _MAINTENANCE_EXAMPLE)
    elif once:
        _check_once(window, once, problems)
    else:
        for name in ("days", "start", "time_zone"):
            if name not in weekly and name not in window.misspelled:
                problems.error(window.place, f"`{name}` is missing", _MAINTENANCE_EXAMPLE)


def _check_once(window: Record, given: list[str], problems: Problems) -> None:
    for name in ONCE:
        if name not in given and name not in window.misspelled:
            problems.error(window.place, f"`{name}` is missing", _MAINTENANCE_EXAMPLE)
    begins, ends = window.get("begins"), window.get("ends")
    if begins is not None and ends is not None and not ends > begins:
        problems.error(window.at("ends"), "is not after `begins`", "")


# Kernel rules: the files are valid, and the ids that are changed exist.


def check_kernel_rules(root: Record, problems: Problems) -> None:
    """Read the user's rule files and look up every id under `disable` and `severity`."""
    settings = root.section("rules")
    if not any(settings.get(name) for name in ("files", "disable", "severity")):
        return
    # Only a configuration that changes the rules pays for reading them here.
    from watchdog import rulebook  # noqa: PLC0415 - see above

    known = {rule.id for rule in rulebook.packaged_rules()}
    for number, path in enumerate(settings.get("files") or ()):
        if isinstance(path, str):
            try:
                known.update(rule.id for rule in rulebook.read_rule_file(Path(path)))
            except RuleError as error:
                problems.error(settings.at(f"files[{number}]"), str(error))
    changed = [(f"disable[{number}]", rule) for number, rule in enumerate(settings.get("disable") or ())]
    changed += [(f"severity.{rule}", rule) for rule in settings.get("severity") or {}]
    for where, rule in changed:
        if isinstance(rule, str) and rule not in known:
            hint = problems.suggest(rule, known)
            problems.error(settings.at(where), f"there is no kernel rule {shown(rule)}", hint)
