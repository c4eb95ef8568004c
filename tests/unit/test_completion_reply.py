"""What counts as text, and what every other way to end means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from watchdog.completion.accumulator import split_thinking
from watchdog.completion.reply import Reply
from watchdog.completion.verdict import End, Judgement
from watchdog.model import Severity
from watchdog.reasons import ServerReason


def _plain(message: Any, finish: Any = "length", end: End = End.COMPLETE, **more: Any) -> Judgement:
    body = {"id": "c", "object": "chat.completion", "model": "m", **more}
    body["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
    reply = Reply(200, "application/json")
    reply.feed(0.5, json.dumps(body).encode())
    return reply.close(0.6, end)


def _chunk(delta: Any, finish: Any = None, **more: Any) -> bytes:
    body = {"id": "c", "object": "chat.completion.chunk", "model": "m", **more}
    body["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps(body).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
ROLE = _chunk({"role": "assistant", "content": ""})


def _stream(*events: bytes, end: End = End.COMPLETE, content_type: str = "text/event-stream") -> Judgement:
    reply = Reply(200, content_type)
    for number, event in enumerate(events):
        reply.feed(1.0 + number, event)
    return reply.close(9.0, end)


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "ok"}, "ok", ""),
        ({"content": None, "reasoning": "Hm"}, "", "Hm"),
        ({"content": "", "reasoning_content": " these"}, "", " these"),
        ({"content": None, "thinking": "Hm"}, "", "Hm"),
        ({"content": None, "reasoning": "Hm", "reasoning_content": "Hm"}, "", "Hm"),
        ({"content": None, "reasoning": "Hm", "reasoning_content": "\n"}, "", "Hm"),
        ({"content": [{"type": "text", "text": "o"}, {"type": "text", "text": "k"}]}, "ok", ""),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]}, "", "Hm"),
        ({"content": [{"type": "reasoning.text", "text": "Hm"}, {"type": "text", "text": "ok"}]}, "ok", "Hm"),
        ({"content": None, "thinking_blocks": [{"type": "thinking", "thinking": "Hm", "signature": "x"}]}, "", "Hm"),
        ({"content": None, "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]}, "", "Hm"),
        ({"content": None, "reasoning_text": "Hm"}, "", "Hm"),
        ({"content": None, "thoughts": [{"thought": "Hm"}]}, "", "Hm"),
        ({"content": None, "refusal": "I cannot."}, "I cannot.", ""),
        ({"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, "", ""),
        ({"content": None, "function_call": {"name": "f", "arguments": ""}}, "", ""),
        ({"content": "<think>\nHm\n</think>\n\nok"}, "ok", "Hm"),
        ({"content": "<think>\nHm"}, "", "Hm"),
        ({"content": "Hm\n</think>\n\nok"}, "ok", "Hm"),
        ({"content": "<think>\n\n</think>\n\n"}, "", ""),
    ],
)
def test_text_counts_wherever_an_engine_puts_it(message: Any, text: str, reasoning: str) -> None:
    judged = _plain(message)
    assert (judged.reason.value, judged.alive) == ("ok", True)
    assert (judged.text, judged.reasoning) == (text, reasoning)


@pytest.mark.parametrize("content", ["!!!!!", "/////", "\ufffd", "\ufffd\ufffd", "! ! ! ! !", "0000"])
def test_one_character_over_and_over_is_alive_but_garbage(content: str) -> None:
    judged = _plain({"content": content})
    assert (judged.reason.value, judged.alive) == ("garbage", True)


@pytest.mark.parametrize("content", ["ok", "!", "1", "...", "aab", "日本"])
def test_short_and_mixed_texts_are_no_garbage(content: str) -> None:
    assert _plain({"content": content}).reason.value == "ok"


@pytest.mark.parametrize(
    ("message", "finish", "tokens", "reason", "alive"),
    [
        ({"content": ""}, "stop", 1, "instant_stop", True),
        ({"content": None}, "stop", None, "instant_stop", True),
        ({"content": ""}, "stop", 0, "instant_stop", True),
        ({"content": ""}, "stop", 4, "empty", None),
        ({"content": ""}, "length", 5, "empty", None),
        ({"content": None}, "length", 5, "empty", None),
        ({"content": "\n\n"}, "length", 5, "empty", None),
        ({"content": None}, None, 0, "empty", False),
        ({"content": ""}, "load", 0, "loading", False),
        ({"content": None, "tool_calls": []}, "length", 5, "empty", None),
        ({}, None, None, "empty", False),
        (None, "stop", 1, "instant_stop", True),
        ({"content": ""}, "abort", 0, "server_error", False),
        ({"content": ""}, "error", None, "server_error", False),
        ({"content": 17}, "length", 5, "malformed", False),
    ],
)
def test_a_reply_without_text_is_told_apart(
    message: Any, finish: Any, tokens: int | None, reason: str, alive: bool | None
) -> None:
    usage: dict[str, Any] = {} if tokens is None else {"usage": {"completion_tokens": tokens}}
    judged = _plain(message, finish, **usage)
    assert (judged.reason.value, judged.alive) == (reason, alive)


@pytest.mark.parametrize("content", ["\u200b", "\u2060\ufeff", " \u200b\n", "\x00"])
def test_text_that_nobody_can_see_is_no_text(content: str) -> None:
    judgement = _plain({"role": "assistant", "content": content}, usage={"completion_tokens": 3})
    assert judgement.reason == "empty"


@pytest.mark.parametrize("message", [5, "text", [1], {"content": 5}, {"content": True}, {"content": {"text": "x"}}])
def test_a_message_of_a_type_that_no_server_means_is_malformed(message: Any) -> None:
    assert _plain(message).reason == "malformed"


def test_a_usage_of_zero_does_not_outweigh_text() -> None:
    """LM Studio counts 0/0/0 although there is text."""
    judged = _plain({"content": "ok"}, "stop", usage={"completion_tokens": 0})
    assert (judged.reason.value, judged.completion_tokens) == ("ok", 0)


@pytest.mark.parametrize("counted", ["5", [], {}, True, 5.0, None])
def test_a_token_count_that_is_no_whole_number_is_no_count(counted: Any) -> None:
    judged = _plain({"content": "ok"}, "stop", usage={"completion_tokens": counted})
    assert (judged.reason.value, judged.completion_tokens) == ("ok", None)


def test_a_role_chunk_alone_is_not_a_token() -> None:
    judged = _stream(ROLE, end=End.DEADLINE)
    assert (judged.reason.value, judged.alive, judged.ttft_s) == ("no_token", None, None)


def test_the_first_text_gives_the_time_to_first_token() -> None:
    judged = _stream(ROLE, _chunk({"content": "a"}), _chunk({"content": "b"}), _chunk({}, "length"), DONE)
    assert (judged.reason.value, judged.ttft_s, judged.tokens_per_s) == ("ok", 2.0, 1.0)


def test_a_stream_needs_no_done_after_its_finish() -> None:
    assert _stream(ROLE, _chunk({"content": "ok"}), _chunk({}, "stop")).reason.value == "ok"
    assert _stream(ROLE, _chunk({"content": "ok"}), _chunk({}, "stop"), end=End.CUT).reason.value == "ok"
    assert _stream(ROLE, _chunk({"content": "ok"}), _chunk({}, "stop"), end=End.DEADLINE).reason.value == "ok"


def test_a_stream_needs_no_finish_before_its_done() -> None:
    assert _stream(_chunk({"content": "ok"}), DONE).reason.value == "ok"


def test_text_and_then_silence_is_stalled_and_text_and_then_the_end_is_truncated() -> None:
    assert _stream(_chunk({"content": "a"}), end=End.DEADLINE).reason.value == "stalled"
    assert _stream(_chunk({"content": "a"}), end=End.COMPLETE).reason.value == "truncated"


def test_an_interrupted_stream_is_no_empty_answer() -> None:
    """llama-cpp-python cuts a running reply when another request comes: `[DONE]`, no content, no finish_reason."""
    judged = _stream(_chunk({"role": "assistant"}), DONE)
    assert (judged.reason.value, judged.alive) == ("no_token", False)
    assert "interrupted" in judged.detail


def test_an_instant_stop_is_seen_in_a_stream_too() -> None:
    judged = _stream(ROLE, _chunk({}, "stop", timings={"predicted_n": 1}), DONE)
    assert (judged.reason.value, judged.alive) == ("instant_stop", True)


def test_tokens_counted_without_text_are_empty_in_a_stream_too() -> None:
    judged = _stream(ROLE, _chunk({"content": ""}, "length"), DONE)
    assert (judged.reason.value, judged.alive) == ("empty", None)


def test_a_swappers_banner_is_no_token() -> None:
    banner = b'data: {"choices":[{"delta":{"reasoning_content":"llama-swap loading model: q\\n"}}]}\n\n'
    dots = b'data: {"choices":[{"delta":{"reasoning_content":"."}}]}\n\n'
    assert _stream(banner, dots, end=End.DEADLINE).reason.value == "loading"
    assert _stream(dots, dots, end=End.DEADLINE).reason.value == "no_token"
    assert _stream(banner, _chunk({"content": "ok"}, "stop"), DONE).text == "ok"


def test_a_plain_server_without_ids_still_gives_text() -> None:
    assert _stream(b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n', DONE).text == "hi"


def test_an_error_after_text_fails_but_proves_life() -> None:
    judged = _stream(_chunk({"content": "a"}), b'data: {"error":{"message":"EngineCore died","code":500}}\n\n')
    assert (judged.reason.value, judged.alive, judged.text) == ("engine_dead", True, "a")


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (b'data: {"error":"Model is overloaded","error_type":"overloaded"}\n\n', "busy"),
        (b'data: {"error":"Request failed during generation","error_type":"generation"}\n\n', "server_error"),
        (b'event: error\ndata: {"message":"boom"}\n\n', "server_error"),
        (b'event: error\ndata: "boom"\n\n', "server_error"),
        (b'data: {"object":"error","message":"bad","type":"BadRequestError","code":400}\n\n', "server_error"),
        (
            b'data: {"object":"error","message":"top_p must be in [0, 1]","type":"BadRequestError","code":400}\n\n',
            "bad_request",
        ),
    ],
)
def test_an_error_event_under_http_200_fails(event: bytes, reason: str) -> None:
    assert _stream(ROLE, event).reason.value == reason


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Engine loop has died", "engine_dead"),
        ("MQLLMEngine is already dead, unable to serve requests", "engine_dead"),
        ("RPC call to execute_model timed out.", "engine_dead"),
        ("Background loop has errored already.", "engine_dead"),
        ("CUDA out of memory. Tried to allocate 2.50 GiB", "server_error"),
        ("Decode out of memory happened when running with batch size 8", "server_error"),
        ("[Errno 111] Connection refused", "server_error"),
        ("top_k must be -1 or at least 1, got -2", "bad_request"),
        ("the request exceeds the available context size", "bad_request"),
    ],
)
def test_a_code_of_a_bad_request_in_an_opened_stream_weighs_less_than_the_words(message: str, reason: str) -> None:
    body = {"error": {"object": "error", "message": message, "type": "BadRequestError", "code": 400}}
    assert _stream(ROLE, b"data: " + json.dumps(body).encode() + b"\n\n").reason.value == reason


def test_text_that_still_comes_at_the_deadline_is_slow_and_not_stalled() -> None:
    pieces = [_chunk({"content": "ok "}) for _ in range(7)]
    assert _stream(*pieces, end=End.DEADLINE).reason.value == "slow"  # one each second, the last at 7 of 9
    assert _stream(*pieces[:3], end=End.DEADLINE).reason.value == "stalled"
    assert _stream(*pieces[:1], end=End.DEADLINE).reason.value == "stalled"


def test_plain_words_in_a_stream_that_stays_silent_are_kept() -> None:
    judged = _stream(ROLE, b"data: Error: engine thread panicked\n\n", end=End.DEADLINE)
    assert (judged.reason.value, judged.said) == ("no_token", "Error: engine thread panicked")


def test_crlf_missing_spaces_and_missing_empty_lines_are_read() -> None:
    chunks = [_chunk({"content": "ö"}), _chunk({"content": "k"}, "stop")]
    body = b"".join(chunks).replace(b"data: ", b"data:").replace(b"\n\n", b"\r\n")
    assert _stream(*(body[i : i + 1] for i in range(len(body)))).text == "ök"
    assert _stream(body.replace(b"\r\n", b"\r")).text == "ök"


def test_a_byte_order_mark_costs_a_stream_nothing() -> None:
    assert _stream(b"\xef\xbb\xbf" + _chunk({"content": "o"}), _chunk({"content": "k"}, "stop")).text == "ok"


def test_a_last_event_without_a_line_break_counts() -> None:
    assert _stream(_chunk({"content": "ok"}, "stop").rstrip()).reason.value == "ok"


def test_a_stream_is_known_by_its_bytes_and_a_plain_reply_too() -> None:
    events = _chunk({"content": "ok"}, "stop")
    assert _stream(events, content_type="text/plain").text == "ok"
    body = b' \n {"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}'
    assert _stream(body, content_type="text/event-stream").text == "ok"


def test_a_stream_of_nonsense_is_malformed() -> None:
    assert _stream(b"data: <html>\n\n", DONE).reason.value == "malformed"
    assert _stream(b"data: [1]\n\n").reason.value == "malformed"


def test_an_empty_stream_has_no_token_and_an_empty_body_is_malformed() -> None:
    assert _stream().reason.value == "no_token"
    assert _stream(content_type="application/json").reason.value == "malformed"
    assert _stream(end=End.DEADLINE, content_type="application/json").reason.value == "no_token"


def test_a_web_page_leaves_life_undecided_and_cut_off_json_does_not() -> None:
    assert _stream(b"<html><body>hi</body></html>", content_type="text/html").alive is None
    assert _stream(b'{"choices": [', content_type="application/json").alive is False


def test_many_thousand_pieces_still_give_the_finish() -> None:
    pieces = [_chunk({"content": f"w{n} "}) for n in range(2000)]
    judged = _stream(*pieces, _chunk({}, "stop", usage={"completion_tokens": 2000}), DONE)
    assert (judged.reason.value, judged.completion_tokens) == ("ok", 2000)


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ("plain <b>text</b>", "plain <b>text</b>", ""),
        ("[THINK]a[/THINK]b", "b", "a"),
        ("<think>a</think>b<think>c</think>d", "bd", "ac"),
        ("<|channel|>analysis<|message|>a<|end|>", "", "a"),
        ("</think>ok", "ok", ""),
    ],
)
def test_thinking_is_split_from_text(content: str, text: str, reasoning: str) -> None:
    assert split_thinking(content) == (text, reasoning)


def test_only_a_pass_and_a_server_asleep_or_away_are_mere_news_and_all_but_four_troubles_page() -> None:
    news = {ServerReason.OK, ServerReason.ASLEEP, ServerReason.AWAY, ServerReason.SWAPPING}
    warnings = {ServerReason.GARBAGE, ServerReason.LOADING, ServerReason.BUSY, ServerReason.SLOW}
    for reason in ServerReason:
        expected = Severity.INFO if reason in news else Severity.WARN if reason in warnings else Severity.PAGE
        assert reason.row.severity is expected, reason


def test_text_that_is_packed_deeper_than_any_server_does_is_no_text() -> None:
    def packed(depth: int) -> Any:
        return "ok" if depth == 0 else [packed(depth - 1)]

    assert _plain({"content": packed(9)}).text == "ok"
    assert _plain({"content": packed(10)}).reason is ServerReason.EMPTY


@pytest.mark.parametrize("call", ["x", None, [], {}, {"function": None}, {"function": {"name": " ", "arguments": ""}}])
def test_a_tool_call_that_names_nothing_is_none(call: Any) -> None:
    assert _plain({"content": None, "tool_calls": [call]}).reason is ServerReason.EMPTY
    assert _plain({"content": None, "function_call": call}).reason is ServerReason.EMPTY
