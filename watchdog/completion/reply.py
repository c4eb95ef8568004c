"""One HTTP reply to a chat completion, fed as it arrives and judged when it ends. Streamed and plain replies alike."""

from __future__ import annotations

from dataclasses import replace

from watchdog.completion.accumulator import ReplyAccumulator
from watchdog.completion.error_body import ErrorBody, error_body_in
from watchdog.completion.sse import Broken, Done, EventReader, looks_like_events
from watchdog.completion.verdict import (
    End,
    Judgement,
    StreamFacts,
    judge_endless,
    judge_error_event,
    judge_plain,
    judge_status,
    judge_stream,
)
from watchdog.model import Json
from watchdog.reasons import ServerReason
from watchdog.text import one_line

BODY_LIMIT_BYTES = 1 << 20
"""Nothing that long answers a request for a handful of tokens; nothing beyond it is read."""

_BLANK = b"\xef\xbb\xbf \t\r\n"
_SNIFF_BYTES = 8
_MANY_CHUNKS, _MANY_EVENTS, _MANY_BROKEN = 256, 1024, 8
"""Enough to judge by. A server that ignores max_tokens, or talks nonsense, must not cost us the parsing of it all."""


class Reply:
    """Judges one reply. Feed the body as it arrives, in any chunks; the judgement does not depend on the split.

    Never raises for anything a server may send. Holds at most `BODY_LIMIT_BYTES` of body.
    """

    def __init__(self, status: int, content_type: str = "", *, location: str = "") -> None:
        self._status = status
        self._content_type = content_type.lower()
        self._location = location
        self._last_at_s = 0.0
        self._size = 0
        self._body: list[bytes] = []
        self._start = b""
        self._sniffed = not 200 <= status < 300
        self._reader: EventReader | None = None
        self._facts = StreamFacts()
        self._broken = 0
        self._accumulator = ReplyAccumulator()
        self._error_body: ErrorBody | None = None

    @property
    def enough(self) -> bool:
        """Whether nothing that could still come would change the judgement: stop reading."""
        return self._facts.done or self._error_body is not None or self._size > BODY_LIMIT_BYTES

    @property
    def settled(self) -> bool:
        """Whether the finish has been seen, so that only a usage event or `[DONE]` may still come: do not wait long."""
        return self._accumulator.finish_reason is not None

    def feed(self, at_s: float, data: bytes) -> None:
        """Take the next bytes of the body, arrived `at_s` seconds after the request started."""
        if self.enough:
            return
        data = data[: BODY_LIMIT_BYTES + 1 - self._size]
        self._size += len(data)
        self._last_at_s = at_s
        if not self._sniffed:
            data = self._sniff(data)
        if self._reader is None:
            self._body.append(data)
            return
        self._take_all(at_s, self._reader, data)

    def _sniff(self, data: bytes, *, last: bool = False) -> bytes:
        # The first bytes that say something decide between stream and plain reply: content types lie.
        self._start += (data if self._start else data.lstrip(_BLANK))[:_SNIFF_BYTES]
        first = self._start[:1]
        if (
            not last
            and len(self._start) < _SNIFF_BYTES
            and b"\n" not in self._start
            and first not in (b"{", b"[", b"<")
        ):
            return data
        self._sniffed = True
        claimed = "event-stream" in self._content_type and first not in (b"{", b"[", b"<", b"")
        if claimed or looks_like_events(self._start):
            self._reader = EventReader()
            data, self._body = b"".join(self._body) + data, []
        return data

    def _take_all(self, at_s: float, reader: EventReader, data: bytes) -> None:
        for name, event in reader.feed(data):
            self._take(at_s, name, event)
            if self._facts.done or self._error_body is not None:
                return

    def _take(self, at_s: float, name: str, event: Json | Broken | Done) -> None:
        facts = self._facts
        facts.events += 1
        many = self._accumulator.chunks >= _MANY_CHUNKS or facts.events >= _MANY_EVENTS or self._broken >= _MANY_BROKEN
        if many and self._reader is not None:
            self._reader.skimming = True
        if isinstance(event, Done):
            facts.done = True
        elif isinstance(event, Broken):
            facts.broken = facts.broken or one_line(event.text, 120)
            self._broken += 1
            if name == "error":
                self._error_body = ErrorBody(event.text, form="text")
        elif isinstance(event, dict):
            self._error_body = error_body_in(event) or (error_body_in({"error": event}) if name == "error" else None)
            self._accumulator.add(at_s, event, streamed=True)
        else:
            if isinstance(event, str) and event.strip():
                facts.broken = facts.broken or one_line(event, 120)
            facts.wrong_type = facts.wrong_type or type(event).__name__
            if name == "error":
                self._error_body = ErrorBody(str(event), form="text")

    def close(self, at_s: float, end: End) -> Judgement:
        """The judgement of everything fed. `at_s` is when it ended, in seconds since the request started."""
        judged = self._close(end)
        if judged.reason is ServerReason.STALLED and self._accumulator.still_flows(at_s):
            judged = replace(judged, reason=ServerReason.SLOW)
        accumulator, streamed = self._accumulator, self._reader is not None
        text, reasoning = accumulator.text_and_reasoning()
        return replace(
            judged,
            http_status=self._status,
            text=text,
            reasoning=reasoning,
            finish_reason=accumulator.finish_reason,
            completion_tokens=accumulator.completion_tokens,
            model=accumulator.model,
            ttft_s=accumulator.first_at_s if streamed else None,
            tokens_per_s=accumulator.tokens_per_s if streamed else None,
            duration_s=at_s,
        )

    def _close(self, end: End) -> Judgement:
        if not 200 <= self._status < 300:
            return judge_status(self._status, b"".join(self._body), self._location)
        if not self._sniffed and self._size <= BODY_LIMIT_BYTES:
            rest = self._sniff(b"", last=True)
            if self._reader is not None:
                self._take_all(self._last_at_s, self._reader, rest)
        if self._reader is not None and not self.enough:
            for name, event in self._reader.end():
                self._take(self._last_at_s, name, event)
        if self._error_body is not None:
            return judge_error_event(self._error_body, self._accumulator, in_stream=self._reader is not None)
        if self._size > BODY_LIMIT_BYTES and not self._facts.done:
            return judge_endless(self._accumulator)
        if self._reader is not None:
            return judge_stream(self._accumulator, self._facts, self._reader.comments, end)
        return judge_plain(b"".join(self._body), self._content_type, end, self._accumulator, self._last_at_s)
