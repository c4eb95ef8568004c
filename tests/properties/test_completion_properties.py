"""Whatever bytes come, in whatever pieces: one verdict, never an exception, never more than 1 MiB."""

from __future__ import annotations

import itertools
import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.llm_server import RESPONSES, expectation, recorded_names
from watchdog.completion.error_body import error_body_of, reason_of
from watchdog.completion.reply import BODY_LIMIT_BYTES, Reply
from watchdog.completion.sse import Broken, Done, EventReader
from watchdog.completion.verdict import End, Judgement
from watchdog.engines.metrics import from_json, read_metrics, to_json
from watchdog.engines.movement import compare
from watchdog.reasons import PASSING, ServerReason

_ENDS = {"complete": End.COMPLETE, "eof": End.CUT, "hang": End.DEADLINE}
_KEYS = st.sampled_from(
    ["choices", "delta", "message", "content", "reasoning", "error", "usage", "completion_tokens", "finish_reason",
     "detail", "object", "type", "code", "text", "tool_calls", "function", "name", "refusal", "id", "model"]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=20,
)

_TEXTS = ["ok", "4", "The answer is four.", "日本", "<think>Hm", "<think>Hm</think>four", "0000", "\ufffd"]
_BLANKS = [None, "", " ", "\n\n", "\u200b", "\x00"]
_FIELDS = st.sampled_from(_TEXTS) | st.sampled_from(_BLANKS)
_MESSAGES = st.fixed_dictionaries(
    {"role": st.just("assistant")},
    optional=dict.fromkeys(("content", "reasoning", "reasoning_content", "refusal"), _FIELDS),
)
_COUNTS = st.none() | st.fixed_dictionaries({"completion_tokens": st.integers(0, 9)})
_FINISHES = st.sampled_from(["stop", "length", None])


def _reply(message: object, finish: str | None = "stop", usage: object = None) -> dict[str, object]:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}


_REPLIES = st.builds(_reply, _MESSAGES, _FINISHES, _COUNTS)


def _judge(status: int, content_type: str, pieces: list[bytes], end: End) -> Judgement:
    reply = Reply(status, content_type)
    for piece in pieces:
        reply.feed(1.0, piece)
    return reply.close(2.0, end)


@st.composite
def _splits(draw: st.DrawFn) -> tuple[str, list[bytes], bool]:
    name = draw(st.sampled_from(recorded_names()))
    meta = json.loads((RESPONSES / f"{name}.meta.json").read_text())
    body = (RESPONSES / meta["file"]).read_bytes()
    crlf = draw(st.booleans()) and meta["file"].endswith(".sse")
    if crlf:
        body = body.replace(b"\n", b"\r\n")
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=30)))
    return name, [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)], crlf


@given(_splits())
@settings(max_examples=300, deadline=None)
def test_any_split_of_any_recorded_reply_gives_the_same_judgement(case: tuple[str, list[bytes], bool]) -> None:
    name, pieces, _ = case
    meta = json.loads((RESPONSES / f"{name}.meta.json").read_text())
    content_type, end = meta["headers"].get("Content-Type", ""), _ENDS[meta["end"]]
    whole = _judge(meta["status"], content_type, [b"".join(pieces)], end)
    assert _judge(meta["status"], content_type, pieces, end) == whole
    expect = expectation(name)
    assert (whole.text, whole.reasoning, whole.alive) == (expect["text"], expect["reasoning"], expect["alive"])


@given(st.binary(max_size=400), st.integers(100, 599), st.sampled_from(list(End)), st.integers(0, 400))
@settings(max_examples=400, deadline=None)
def test_any_bytes_give_a_judgement_that_does_not_depend_on_the_split(
    body: bytes, status: int, end: End, cut: int
) -> None:
    for content_type in ("application/json", "text/event-stream", ""):
        whole = _judge(status, content_type, [body], end)
        assert _judge(status, content_type, [body[:cut], body[cut:]], end) == whole
        assert whole.reason not in PASSING


@given(st.lists(st.one_of(st.binary(max_size=60), _JSON.map(lambda v: b"data: " + json.dumps(v).encode())), max_size=8))
@settings(max_examples=400, deadline=None)
def test_any_events_give_the_same_judgement_byte_by_byte(events: list[bytes]) -> None:
    body = b"data: {}\n\n" + b"\n\n".join(events)
    whole = _judge(200, "text/event-stream", [body], End.COMPLETE)
    assert _judge(200, "text/event-stream", [bytes([b]) for b in body], End.COMPLETE) == whole


@given(_JSON | _REPLIES | st.builds(_reply, _JSON), st.integers(200, 299) | st.integers(200, 599))
@example(_reply({"content": "ok"}), 200)
@example(_reply({"content": "ok"}), 500)
@settings(max_examples=400, deadline=None)
def test_any_json_gives_a_judgement_and_passes_only_with_text(value: object, status: int) -> None:
    judged = _judge(status, "application/json", [json.dumps(value).encode()], End.COMPLETE)
    assert isinstance(judged.reason, ServerReason)
    if judged.reason in PASSING:
        assert judged.alive
        assert status < 300
        assert isinstance(value, dict)
        assert judged.text or judged.reasoning or "call" in json.dumps(value)


@given(_MESSAGES, _FINISHES, _COUNTS, st.booleans())
@example({"role": "assistant", "content": "ok"}, "stop", None, True)
@example({"role": "assistant", "content": ""}, "stop", None, True)
@settings(max_examples=100, deadline=None)
def test_a_whole_reply_passes_if_and_only_if_it_holds_text(
    message: dict[str, object], finish: str | None, usage: object, streamed: bool
) -> None:
    body = json.dumps(_reply(message, finish, usage)).encode()
    if streamed:
        body = b"data: " + body.replace(b'"message"', b'"delta"') + b"\n\ndata: [DONE]\n\n"
    judged = _judge(200, "text/event-stream" if streamed else "application/json", [body], End.COMPLETE)
    has_text = any(value in _TEXTS for value in message.values())
    assert (judged.reason in PASSING) is has_text
    assert bool(judged.text or judged.reasoning) is has_text
    assert judged.alive or not has_text


@given(st.binary(max_size=300), st.integers(300, 599))
@settings(max_examples=300, deadline=None)
def test_any_error_body_gives_a_reason_that_is_no_pass(body: bytes, status: int) -> None:
    error = error_body_of(body)
    assert reason_of(status, error) not in PASSING
    assert error.words.isprintable()


@given(
    st.integers(1, 70000),
    st.sampled_from([b"a", b"data: x\n", b"\n", b"data: {\n", b": c\n", b"data: 1\n\n", b"[", b"\r"]),
)
@settings(max_examples=30, deadline=2000)
def test_a_reply_of_unlimited_size_is_cut_at_the_limit(size: int, unit: bytes) -> None:
    reply = Reply(200, "text/event-stream")
    piece = (unit * (size // len(unit) + 1))[:size]
    fed = 0
    while not reply.enough and fed < 3 * BODY_LIMIT_BYTES:
        piece_now = piece * max(1, 16384 // len(piece))
        reply.feed(1.0, piece_now)
        fed += len(piece_now)
    assert reply.enough
    assert fed <= BODY_LIMIT_BYTES + 2 * max(16384, size)
    assert reply.close(2.0, End.DEADLINE).reason is ServerReason.MALFORMED


_EVENT_PIECES = st.lists(
    st.sampled_from(
        [b"data: {\n" * 31, b"data: {", b"data:1", b"data:", b"event: error", b'{"error":1}', b"\n", b"\r", b"x"]
    )
).map(b"".join)


@given(st.binary(max_size=300) | _EVENT_PIECES)
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_as_events_without_an_exception(data: bytes) -> None:
    reader = EventReader()
    events, last = list(reader.feed(data)), list(reader.end())
    assert (len(events) + len(last)) * len(b"data:1") <= len(data), "no event is shorter"
    assert not any(isinstance(event, Broken) for _, event in last), "what breaks off is no broken event"
    assert list(reader.end()) == []


_EVENTS = st.lists(
    st.sampled_from(
        ['data: {"n": 1}', "event: error\ndata: \"boom\"", 'data: {"n":\ndata: 2}', ": comment", "data: no JSON",
         'id: 7\ndata: "id"', "data: [DONE]"]
    ),
    min_size=1,
    max_size=5,
)  # fmt: skip


def _read(pieces: list[bytes]) -> list[tuple[str, str]]:
    reader = EventReader()
    found = [event for piece in pieces for event in reader.feed(piece)] + list(reader.end())
    return [(name, event.text if isinstance(event, Broken) else _said(event)) for name, event in found]


def _said(event: object) -> str:
    return "done" if isinstance(event, Done) else repr(event)


@given(_EVENTS, st.sampled_from(["\r\n", "\r", "\n"]), st.sets(st.integers(0, 200)))
@example(['event: error\ndata: {"n":\ndata: 2}'], "\r\n", set(range(200)))
@settings(max_examples=100, deadline=None)
def test_events_are_the_same_whatever_ends_their_lines_and_wherever_they_are_split(
    events: list[str], line_end: str, cuts: set[int]
) -> None:
    text = "\n\n".join(events) + "\n\n"
    body = text.replace("\n", line_end).encode()
    at = sorted(cut for cut in {*cuts, 0, len(body)} if cut <= len(body))
    assert _read([body[a:b] for a, b in itertools.pairwise(at)]) == _read([text.encode()])


_LINES = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.builds(
            lambda name, label, value: f"{name}{label} {value}",
            st.sampled_from(["vllm:num_requests_running", "vllm:generation_tokens_total", "tgi_queue_size", "x:y"]),
            st.sampled_from(["", '{engine="0"}', '{engine="1",model_name="m"}', "{", '{a="b}', "{}"]),
            st.sampled_from(["1", "1.2e+06", "nan", "-Inf", "", "x", "9" * 5000, "1e999", "0"]),
        ),
    ),
    max_size=8,
)


@given(_LINES, _LINES)
@settings(max_examples=300, deadline=None)
def test_any_scrapes_can_be_read_compared_and_remembered(first: list[str], second: list[str]) -> None:
    samples = [read_metrics("\n".join(lines).encode()) for lines in (first, second)]
    change = compare(*samples)
    assert change.movement.value in ("busy", "frozen", "lost", "reset", "partial", "unknown")
    if samples[0] is not None:
        again = from_json(json.loads(json.dumps(to_json(samples[0]))))
        assert again is not None
        assert compare(again, samples[1]).movement is change.movement
