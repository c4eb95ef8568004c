"""What can be read from a configuration that is not valid: its receivers, its state directory.

A broken configuration still has somebody to alert; a command about the state needs no receiver and no secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from watchdog.config import ReceiverSettings, Secret
from watchdog.loading.records import Place, Problems, Record
from watchdog.loading.references import References
from watchdog.loading.walk import Walk
from watchdog.loading.yaml_tree import DocumentError, Entries, Items, Node, Scalar, is_nothing, read_document

TOP_LEVEL_KEY = re.compile(rb"^(?=[^\s#-])", re.MULTILINE)
ENTRY = re.compile(rb"^(?=[ \t]*- )", re.MULTILINE)


def salvage_receivers(data: bytes, file: str, environ: Mapping[str, str] = os.environ) -> tuple[ReceiverSettings, ...]:
    """Every receiver in the bytes of `file` whose address can be read, whatever else is wrong; never raises.

    A file that is not YAML as a whole is tried section by section, and its `receivers:` entry by entry.
    """
    walk = Walk(Problems(file), References(environ, Path(file).absolute().parent))
    found: dict[str, ReceiverSettings] = {}
    for number, node in enumerate(_entries(data), start=1):
        record = walk.section(node, ReceiverSettings, Place(node.mark))
        settings = _settings(record, f"receiver {number}") if isinstance(record, Record) else None
        if settings is not None:
            found.setdefault(settings.name, settings)
    return tuple(found.values())


def salvage_state_dir(data: bytes, file: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The `state_dir` in the bytes of `file`, as an absolute path; None if it has none that can be read."""
    references = References(environ, Path(file).absolute().parent)
    for key, value in _pairs(data):
        if isinstance(key, Scalar) and key.text == "state_dir" and isinstance(value, Scalar) and not is_nothing(value):
            expanded = references.expand(value.text, secret=False)
            return None if expanded.faults else str(references.path(expanded.text))
    return None


def _settings(record: Record, name: str) -> ReceiverSettings | None:
    """The receiver with its address only: a fault in another setting must not silence it."""
    name = record.get("name") or name
    url = record.get("url")
    if isinstance(url, Secret):
        return ReceiverSettings(name=name, url=url)
    addresses = tuple(one for one in record.get("alertmanager") or () if isinstance(one, Secret))
    return ReceiverSettings(name=name, alertmanager=addresses) if addresses else None


def _entries(data: bytes) -> Iterator[Node]:
    """The entries of `receivers`, from the first reading of the file that gives any."""
    whole = list(_listed(data))
    if whole:
        yield from whole
        return
    for section in TOP_LEVEL_KEY.split(data):
        if not section.startswith(b"receivers"):
            continue
        alone = list(_listed(section))
        pieces = [piece for piece in ENTRY.split(section) if piece.lstrip().startswith(b"- ")]
        yield from alone or _listed_each(pieces)


def _listed_each(pieces: Iterable[bytes]) -> Iterator[Node]:
    for piece in pieces:
        yield from _listed(b"receivers:\n" + piece)


def _listed(data: bytes) -> Iterator[Node]:
    """The entries of the list under the key `receivers`; none if this is not readable YAML."""
    for key, value in _pairs(data):
        if isinstance(key, Scalar) and key.text == "receivers" and isinstance(value, Items):
            yield from value.items


def _pairs(data: bytes) -> tuple[tuple[Node, Node], ...]:
    try:
        root = read_document(data)
    except DocumentError:
        return ()
    return root.pairs if isinstance(root, Entries) else ()
