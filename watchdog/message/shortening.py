"""Cuts a message to the room that a service has: the sentence, the newest evidence and the incident's id stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watchdog.model import Text
from watchdog.text import shortened

_JOINT = 2
"""What a service without titles puts between title and body."""
_EVIDENCE = "- "
_PLAIN_SENTENCE = 160


@dataclass(frozen=True, slots=True)
class Limits:
    """The room of one service: characters of title and body, bytes of the body, lines; 0: no limit.

    `joined`: title and body share the room of the body.
    """

    title: int = 0
    body: int = 0
    body_bytes: int = 0
    lines: int = 0
    joined: bool = False


def fitted(text: Text, limits: Limits) -> Text:
    """`text` within `limits`; unchanged if it fits. Its last line, which holds the incident's id, is always whole."""
    last = text.body.rpartition("\n")[2]
    title = text.title
    if limits.title:
        title = shortened(title, limits.title)
    room = limits.body
    if limits.joined and room:
        title = shortened(title, max(8, room - len(last) - _JOINT))
        room = max(len(last), room - len(title) - _JOINT)

    def fits(body: str) -> bool:
        return (
            (not room or len(body) <= room)
            and (not limits.body_bytes or len(body.encode()) <= limits.body_bytes)
            and (not limits.lines or body.count("\n") + 1 + limits.joined <= limits.lines)
        )

    return Text(title, text.body if fits(text.body) else _body(text.body.split("\n"), fits))


def _body(lines: Sequence[str], fits: Callable[[str], bool]) -> str:
    """As many of `lines` as fit, the most telling first, in their order."""
    kept: dict[int, str] = {}

    def joined(with_line: dict[int, str]) -> str:
        return "\n".join(with_line[number] for number in sorted(with_line))

    for number in _by_weight(lines):
        longer = kept | {number: lines[number]}
        if fits(joined(longer)) or not kept:
            kept = longer
        elif number == 0:  # the sentence: as much of it as there is room
            for length in range(len(lines[0]) - 1, 20, -1):
                cut = kept | {0: shortened(lines[0], length)}
                if fits(joined(cut)):
                    kept = cut
                    break
    return joined(kept)


def _by_weight(lines: Sequence[str]) -> list[int]:
    """Line numbers: the id, the sentence, the newest evidence, the likely cause, then the rest as they stand."""
    evidence = [number for number, line in enumerate(lines) if line.startswith(_EVIDENCE)]
    first = [len(lines) - 1, 0, *evidence[-1:], *([1] if len(lines) > 2 else [])]
    rest = [number for number in range(len(lines)) if number not in first]
    others = [number for number in rest if number not in evidence]
    return list(dict.fromkeys([*first, *others, *reversed(evidence)]))


def plain(text: Text) -> Text:
    """The same in its shortest, plainest form, for a service that does not take it otherwise."""
    lines = text.body.split("\n")
    sentence = shortened(lines[0], _PLAIN_SENTENCE)
    return Text(_ascii(text.title), _ascii("\n".join([sentence, *lines[-1:]] if len(lines) > 1 else [sentence])))


def _ascii(text: str) -> str:
    """`text` without what a narrow service may choke on."""
    spelled = text.replace("·", "-").replace("…", "...").replace("→", "->").replace("“", '"').replace("”", '"')
    return spelled.encode("ascii", "replace").decode("ascii")
