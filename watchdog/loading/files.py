"""Rules about files that settings name: they exist, can be read, and are closed to others where they hold a key."""

from __future__ import annotations

from pathlib import Path

from watchdog.loading.problems import Problems
from watchdog.loading.records import Record
from watchdog.loading.references import References, SourceError, read_regular

MAX_BYTES = 8 * 1024 * 1024


def check_file(
    record: Record, field: str, references: References, problems: Problems, *, private: bool = False
) -> bytes | None:
    """Make the path in `field` absolute and give the file's bytes; None when not given, or after noting a problem."""
    written = record.get(field)
    if written is None:
        return None
    path = absolute(record, field, references)
    try:
        return read_regular(path, MAX_BYTES, private=private)[0]
    except SourceError as fault:
        problems.error(record.at(field), fault.problem, fault.hint)
    return None


def absolute(record: Record, field: str, references: References) -> Path:
    """Replace the path in `field` by its absolute form, relative to the configuration's folder, and give it."""
    path = references.path(record.get(field))
    record.values[field] = str(path)
    return path
