"""Judges launchd property lists without a Mac: syntax, keys, kinds of values, paths. Exit status 1 on any fault.

    python packaging/macos/check_plist.py FILE...

Apple's own `plutil -lint` looks at the syntax alone, and launchd ignores what it does not know: a typo in a key starts
a daemon that is never kept alive. Source of the keys: launchd.plist(5).
"""

from __future__ import annotations

import itertools
import plistlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

Fault = str
Judge = Callable[[Any], Iterator[Fault]]

LIMITS = frozenset(
    {"Core", "CPU", "Data", "FileSize", "MemoryLock", "NumberOfFiles", "NumberOfProcesses", "ResidentSetSize", "Stack"}
)
PROCESS_TYPES = ("Background", "Standard", "Adaptive", "Interactive")
KEEP_ALIVE = {"SuccessfulExit": bool, "Crashed": bool, "PathState": dict, "OtherJobEnabled": dict}
"""NetworkState is left out: launchd.plist(5) says that it is no longer implemented."""
LABEL = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
TELLING = re.compile(r"token|secret|passw|api_?key|credential", re.IGNORECASE)
URL_WITH_SECRET = re.compile(r"[a-z][a-z0-9+.-]*://\S", re.IGNORECASE)


def is_kind(value: object, kind: type) -> bool:
    """Whether `value` is of `kind`; true and false are no integers."""
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def a(kind: type, words: str) -> Judge:
    """A judge of the kind of value alone."""

    def judge(value: Any) -> Iterator[Fault]:
        if not is_kind(value, kind):
            yield f"must be {words}, is {type(value).__name__}"

    return judge


def number(least: int, most: int) -> Judge:
    """A judge of whole numbers within limits."""

    def judge(value: Any) -> Iterator[Fault]:
        if not is_kind(value, int):
            yield f"must be an integer, is {type(value).__name__}"
        elif not least <= value <= most:
            yield f"must be within {least} and {most}, is {value}"

    return judge


def path(value: Any) -> Iterator[Fault]:
    """A path must be absolute and complete: launchd fills in neither ~ nor variables."""
    if not is_kind(value, str):
        yield f"must be a path, is {type(value).__name__}"
    elif not value.startswith("/"):
        yield f"must be an absolute path, is {value!r}"
    elif "$" in value or "/../" in f"{value}/" or "\0" in value:
        yield f"must be the path itself: launchd expands nothing in {value!r}"


def arguments(value: Any) -> Iterator[Fault]:
    """The program and its arguments."""
    if not is_kind(value, list) or not value:
        yield "must be a list of at least the program"
        return
    for word in value:
        if not is_kind(word, str) or not word:
            yield f"holds {word!r}: every argument must be text"
        elif word.startswith("~") or "$HOME" in word:
            yield f"launchd expands nothing in {word!r}"
        elif URL_WITH_SECRET.match(word):
            yield "holds an address: everybody can read this file, so it belongs into the configuration"
    if is_kind(value[0], str):
        yield from path(value[0])
    for option, given in itertools.pairwise(value):
        if option in ("--config", "--state-dir", "--log-file"):
            yield from (f"{option} {fault}" for fault in path(given))


def environment(value: Any) -> Iterator[Fault]:
    """Variables are texts, and no secrets."""
    if not is_kind(value, dict):
        yield f"must be a dictionary, is {type(value).__name__}"
        return
    for name, text in value.items():
        if not is_kind(text, str):
            yield f"{name} must be text"
        if TELLING.search(name):
            yield f"{name} looks like a secret: everybody can read this file"


def keep_alive(value: Any) -> Iterator[Fault]:
    """True, or conditions that launchd still implements."""
    if isinstance(value, bool):
        return
    if not is_kind(value, dict) or not value:
        yield "must be true, false or a dictionary of conditions"
        return
    for name, inner in value.items():
        if name not in KEEP_ALIVE:
            yield f"{name} is no condition of launchd"
        elif not is_kind(inner, KEEP_ALIVE[name]):
            yield f"{name} is of the wrong kind"


def text_like(pattern: re.Pattern[str], what: str) -> Judge:
    """A judge of texts of one form."""

    def judge(value: Any) -> Iterator[Fault]:
        if not is_kind(value, str) or not pattern.fullmatch(value):
            yield f"must be {what}, is {value!r}"

    return judge


def process_type(value: Any) -> Iterator[Fault]:
    """One of Apple's words."""
    if value not in PROCESS_TYPES:
        yield f"must be one of {', '.join(PROCESS_TYPES)}"


def limits(value: Any) -> Iterator[Fault]:
    """Limits of launchd by name, each a number from 1 up."""
    if not is_kind(value, dict) or not value:
        yield "must be a dictionary of limits"
        return
    for name, inner in value.items():
        if name not in LIMITS:
            yield f"{name} is no limit of launchd"
        else:
            yield from (f"{name} {fault}" for fault in number(1, 2**31)(inner))


KEYS: Mapping[str, Judge] = {
    "Label": text_like(LABEL, "a reverse-domain name"),
    "Program": path,
    "ProgramArguments": arguments,
    "UserName": text_like(ACCOUNT, "an account"),
    "GroupName": text_like(ACCOUNT, "a group"),
    "InitGroups": a(bool, "true or false"),
    "WorkingDirectory": path,
    "Umask": number(0, 0o777),
    "RunAtLoad": a(bool, "true or false"),
    "KeepAlive": keep_alive,
    "ThrottleInterval": number(1, 3600),
    "ExitTimeOut": number(1, 3600),
    "ProcessType": process_type,
    "Nice": number(-20, 20),
    "LowPriorityIO": a(bool, "true or false"),
    "LegacyTimers": a(bool, "true or false"),
    "EnvironmentVariables": environment,
    "StandardInPath": path,
    "StandardOutPath": path,
    "StandardErrorPath": path,
    "SoftResourceLimits": limits,
    "HardResourceLimits": limits,
    "AbandonProcessGroup": a(bool, "true or false"),
    "SessionCreate": a(bool, "true or false"),
}
"""What a daemon that is kept alive may need. Not here, so unknown: what starts it by time, path or socket."""
NEEDED = ("Label", "ProgramArguments", "RunAtLoad", "KeepAlive")


def faults(data: bytes, name: str) -> list[Fault]:
    """Everything wrong with the property list `data` of the file called `name`."""
    try:
        plist = plistlib.loads(data, fmt=plistlib.FMT_XML)
    except (ExpatError, plistlib.InvalidFileException, ValueError, TypeError, AttributeError, IndexError) as error:
        return [f"is no XML property list: {error}"]
    if not isinstance(plist, dict):
        return ["must be a dictionary"]
    found = [f"{key} is missing" for key in NEEDED if key not in plist]
    # plistlib keeps the last of two equal keys and says nothing.
    written = re.findall(r"<key>([^<]*)</key>", re.sub(r"(?s)<!--.*?-->", "", data.decode("utf-8", "replace")))
    found += [f"{key} is given twice" for key in plist if written.count(key) > 1]
    for key, value in plist.items():
        found += [f"{key} {fault}" for fault in KEYS[key](value)] if key in KEYS else [f"{key} is no key we know"]
    if f"{plist.get('Label')}.plist" != name:
        found.append(f"Label {plist.get('Label')!r} is not the file's name")
    if plist.get("KeepAlive") is False:
        found.append("KeepAlive is false: nothing starts the daemon again")
    return found


def main(names: list[str]) -> int:
    """Judge every file; print its faults."""
    status = 0
    for name in names:
        for fault in faults(Path(name).read_bytes(), Path(name).name):
            print(f"{name}: {fault}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
