"""Server-sent events, read as LLM servers send them and not only as the standard asks.

Taken as they come: CRLF and bare CR, characters split across packets, `data:` without a space, comments, events not
closed by an empty line, a stream without `[DONE]`. Source: WHATWG HTML §9.2.6, and the engines' own deviations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from watchdog.json_values import loads_untrusted
from watchdog.model import Json

_MATTERS = re.compile(rb'^error:|"finish_reason"\s*:\s*["{]|"error"\s*:\s*["{\[]|"usage"\s*:\s*\{|\[DONE\]')
_MOST_LINES = 32
"""Of one event. Real events are one line; without a bound, joining them again and again would cost quadratic time."""

_ERROR_FIELD = (b"error:{", b"error: {")
"""Older llama.cpp names the field itself `error`."""

_BARE_ERROR = b'{"error"'
"""Ollama and some proxies write the JSON of an error into the open stream as it is, without `data:`."""

_FIELDS = (b"data:", b":", b"event:", b"id:", b"retry:", *_ERROR_FIELD)


def looks_like_events(start: bytes) -> bool:
    """Whether a body that starts so is an event stream, whatever its content type claims."""
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_FIELDS)


class Broken:
    """An event whose data is no JSON."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Done:
    """The `[DONE]` event."""

    __slots__ = ()


Event = Json | Broken | Done


class EventReader:
    """Turns bytes into events. The same bytes give the same events, however they are split.

    `comments` counts comments. Set `skimming` when enough text has been seen: from then on only events that can end a
    stream or fail it are given.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[str] = []
        self._name = ""
        self._skip_newline = False
        self._first = True
        self.comments = 0
        self.skimming = False

    def feed(self, chunk: bytes) -> Iterator[tuple[str, Event]]:
        """Yield `(event name, event)` for everything that `chunk` completes."""
        for line in self._lines(chunk):
            yield from self._line(line)

    def end(self) -> Iterator[tuple[str, Event]]:
        """Yield what a stream that ended without its last line break or empty line still holds, if it is whole."""
        rest, self._rest = b"".join(self._rest), []
        if rest:
            for name, event in self._line(rest):
                if not isinstance(event, Broken):
                    yield name, event
        self._data.clear()

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        if self._skip_newline and chunk:
            chunk, self._skip_newline = chunk.removeprefix(b"\n"), False
        if b"\r" in chunk:
            self._skip_newline = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            if chunk:
                self._rest.append(chunk)
            return
        *lines, rest = chunk.split(b"\n")
        if self._rest:
            lines[0] = b"".join(self._rest) + lines[0]
        self._rest = [rest] if rest else []
        yield from lines

    def _line(self, line: bytes) -> Iterator[tuple[str, Event]]:
        if self._first:
            line, self._first = line.removeprefix(b"\xef\xbb\xbf"), False
        if not line:
            yield from self._dispatch_pending()
        elif line.startswith(b":"):
            self.comments += 1
        elif self.skimming and not self._data and not _MATTERS.search(line):
            return  # text that goes on and on: only what can end it is still worth parsing
        elif line.startswith(b"data:"):
            yield from self._datum(line[5:].decode("utf-8", "replace").removeprefix(" "))
        elif line.startswith(_ERROR_FIELD):
            self._name = "error"
            yield from self._datum(line[6:].decode("utf-8", "replace"))
        elif line.startswith(_BARE_ERROR):
            yield from self._datum(line.decode("utf-8", "replace"))
        elif line.startswith(b"event:"):
            self._name = line[6:].decode("utf-8", "replace").strip()

    def _datum(self, text: str) -> Iterator[tuple[str, Event]]:
        # Nearly every event is one line: parse it at once, so that a token counts when it arrives, not when the
        # empty line behind it does, and so that servers which forget the empty line are read too.
        whole = "\n".join([*self._data, text]) if self._data else text
        if whole.strip() == "[DONE]":
            yield self._take(Done())
            return
        if not whole.strip():
            return
        try:
            event = loads_untrusted(whole)
        except ValueError:
            self._data.append(text)
            if len(self._data) >= _MOST_LINES:
                yield self._take(Broken(whole))
            return
        yield self._take(event)

    def _dispatch_pending(self) -> Iterator[tuple[str, Event]]:
        if self._data:
            yield self._take(Broken("\n".join(self._data)))
        self._name = ""

    def _take(self, event: Event) -> tuple[str, Event]:
        self._data.clear()
        name, self._name = self._name, ""
        return name, event
