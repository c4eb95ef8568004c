"""Whatever a host, a server or a receiver sends, nothing raises, and what comes out can be stored and computed with.

`UNTRUSTED_EXAMPLES=10000` is the full run; a daemon amid such bytes: `tests/e2e/test_any_bytes.py`.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from watchdog.completion.reply import Reply
from watchdog.completion.verdict import End
from watchdog.engines.metrics import read_metrics, to_json
from watchdog.engines.table import LOADED_PATHS, loaded_models, served_models
from watchdog.journal.frame import Transcript, parse_hello
from watchdog.journal.records import LATEST_US, parse_journal, parse_kmsg
from watchdog.json_values import DEEPEST, loads_untrusted
from watchdog.store.codec import dump
from watchdog.vitals import read_vitals

TEXT = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=20)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(10**30, 10**40) | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
EXAMPLES = settings(
    max_examples=int(os.environ.get("UNTRUSTED_EXAMPLES", "100")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
NUMBER_WORDS = st.sampled_from(["nan", "inf", "-inf", "-1e308", "1e308", "9" * 19, "9" * 5000, "-1", "0", "12.5", "²"])


def storable(value: object) -> None:
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


@EXAMPLES
@given(VALUES)
def test_any_json_comes_in_as_something_that_can_be_stored(value: Any) -> None:
    storable(loads_untrusted(json.dumps(value)))


@EXAMPLES
@given(st.binary(max_size=200))
def test_bytes_that_are_no_json_are_a_value_error_and_nothing_else(data: bytes) -> None:
    try:
        storable(loads_untrusted(data))
    except ValueError:
        return


@pytest.mark.parametrize("depth", [DEEPEST + 2, 600, 100_000])
def test_json_that_is_nested_too_deeply_is_refused(depth: int) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        loads_untrusted("[" * depth + "]" * depth)


@EXAMPLES
@given(VALUES)
def test_the_names_of_models_can_be_stored_whatever_a_server_lists(value: Any) -> None:
    for listed in (value, {"data": [{"id": value}, {"id": "m\ud800"}]}, {"models": [{"name": value}]}):
        payload = loads_untrusted(json.dumps(listed))
        storable(served_models(payload))
        for path in LOADED_PATHS:
            storable(loaded_models(path, payload))


@EXAMPLES
@given(st.lists(st.floats() | st.just(1.7e308), min_size=1, max_size=4))
def test_the_sums_of_an_engines_counters_stay_numbers(values: list[float]) -> None:
    lines = [f'vllm:num_requests_running{{engine="{n}"}} {value}' for n, value in enumerate(values)]
    sample = read_metrics("\n".join(lines).encode())
    if sample is not None:
        storable(to_json(sample))


@EXAMPLES
@given(st.dictionaries(st.sampled_from(["now", "uptime", "uid", "boot", "groups"]), NUMBER_WORDS | st.text(max_size=8)))
def test_a_greeting_is_finite_or_none(header: dict[str, str]) -> None:
    greeting = parse_hello({"boot": "a" * 32, "now": "1", "uptime": "1", "uid": "1", **header}, [])
    assert greeting is None or (math.isfinite(greeting.now) and math.isfinite(greeting.uptime_s))
    vitals = read_vitals({"boot": "a", "uptime": "1", **header}, [b"MemTotal_kib=nan", b"gpu=0,x,9e999,1,1,1,1"])
    assert vitals is None or math.isfinite(vitals.uptime_s)


@pytest.mark.parametrize("header", [{"now": "nan"}, {"now": "-1e308"}, {"uptime": "-inf"}, {"now": "1e300"}])
def test_a_greeting_with_an_absurd_clock_is_refused(header: dict[str, str]) -> None:
    assert parse_hello({"boot": "a" * 32, "now": "1", "uptime": "1", "uid": "1", **header}, []) is None


def test_an_exit_status_of_thousands_of_digits_is_a_broken_one() -> None:
    frame = Transcript()
    frame.feed(b"INFERENCE-WATCHDOG-READER END rc=" + b"9" * 5000 + b" why=" + b"y" * 5000 + b"\n")
    assert frame.trailer is not None
    assert frame.trailer.rc == 70
    assert len(frame.trailer.why) == 1000


def record(**fields: object) -> bytes:
    whole = {
        "__CURSOR": "s=1;i=2",
        "_BOOT_ID": "a" * 32,
        "__REALTIME_TIMESTAMP": "1795000100000000",
        "__MONOTONIC_TIMESTAMP": "100000000",
        "_TRANSPORT": "kernel",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": "hello",
    }
    return json.dumps(whole | fields).encode()


@EXAMPLES
@given(st.dictionaries(st.sampled_from(["__CURSOR", "_BOOT_ID", "MESSAGE", "MESSAGE_ID", "_TRANSPORT"]), VALUES))
def test_a_journal_record_of_any_content_can_be_stored(fields: dict[str, Any]) -> None:
    found = parse_journal(record(**fields))
    if found is not None:
        storable([found.cursor, found.boot, found.message])


def test_a_lone_surrogate_in_a_kernel_line_leaves_the_rest_of_the_line() -> None:
    found = parse_journal(record(MESSAGE="hello \ud800 world"))
    assert found is not None
    assert found.message == "hello ? world"


def test_a_time_of_nineteen_digits_leaves_the_line_readable() -> None:
    found = parse_journal(record(__REALTIME_TIMESTAMP="9" * 19, _SOURCE_MONOTONIC_TIMESTAMP="9" * 19))
    assert found is not None
    assert found.message == "hello"
    assert found.wall_us == LATEST_US
    assert abs(found.wall_at) <= LATEST_US


def test_a_message_nested_six_hundred_deep_is_one_that_cannot_be_read() -> None:
    nested = ("[" * 600 + "]" * 600).encode()
    found = parse_journal(record().replace(b'"hello"', nested))
    assert found is None or found.message is None


def test_a_count_of_lost_lines_of_thousands_of_digits_is_no_count() -> None:
    told = f"Missed {'9' * 5000} kernel messages"
    found = parse_journal(record(_TRANSPORT="driver", MESSAGE=told, MESSAGE_ID="e9bf28e6e834481bb6f48f548ad13606"))
    assert found is not None
    assert found.lost == 0


@pytest.mark.parametrize("digits", [400, 4200, 5000, 100_000])
def test_a_number_of_thousands_of_digits_from_a_server_is_none(digits: int) -> None:
    huge = "9" * digits
    choice = '{"message": {"content": ""}, "delta": {"content": ""}, "finish_reason": "length"}'
    body = '{"choices": [%s], "usage": {"completion_tokens": %s}}' % (choice, huge)  # noqa: UP031 - braces
    for content_type, sent in (("application/json", body), ("text/event-stream", f"data: {body}\n\ndata: [DONE]\n\n")):
        reply = Reply(200, content_type)
        reply.feed(0.1, sent.encode())
        assert reply.close(0.2, End.COMPLETE).reason.value in {"empty", "instant_stop"}
    assert read_metrics(f"vllm:num_requests_running {huge}\n".encode()) is None


def test_a_ring_record_with_an_absurd_stamp_is_read() -> None:
    found = parse_kmsg(b"6,1," + b"9" * 19 + b",-;hello")
    assert found is not None
    assert found.stamp_us == LATEST_US


@EXAMPLES
@given(st.binary(max_size=300), st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_any_bytes_of_a_host_are_lines_and_a_header_or_none_however_they_are_cut(data: bytes, sizes: list[int]) -> None:
    frame, lines, at = Transcript(), list[bytes](), 0
    while at < len(data):
        size = sizes[at % len(sizes)]
        lines += frame.feed(data[at : at + size])
        at += size
    for line in (*lines, *data.split(b"\n")):
        found = parse_journal(line)
        if found is not None:
            storable([found.cursor, found.boot, found.message])
        parse_kmsg(line)
    read_vitals(frame.header or {"boot": "a", "uptime": "1"}, data.split(b"\n"))
    parse_hello(frame.header or {"boot": "a" * 32, "now": "1", "uptime": "1", "uid": "1"}, data.split(b"\n"))


@EXAMPLES
@given(
    st.integers(100, 599), st.sampled_from(["text/event-stream", "application/json", "", "²"]), st.binary(max_size=300)
)
def test_any_bytes_of_a_server_are_a_judgement(status: int, content_type: str, data: bytes) -> None:
    reply = Reply(status, content_type)
    for at in range(0, len(data), 7):
        reply.feed(at / 100, data[at : at + 7])
    judgement = reply.close(9.0, End.COMPLETE)
    storable([judgement.reason.value, judgement.text, judgement.detail])
    read_metrics(data)


@EXAMPLES
@given(VALUES)
def test_a_memory_of_any_json_can_be_stored(value: Any) -> None:
    dump({"memory": value}).encode()
