"""Message texts: useful at once, within their limits, with nothing in them that acts on a screen."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watchdog.config import Secret
from watchdog.message import BODY_LIMIT, TITLE_LIMIT, WIDTH, finish, render
from watchdog.message.redaction import Redactor
from watchdog.model import (
    Cause,
    Confidence,
    Delivery,
    Diagnosis,
    Evidence,
    Incident,
    IncidentStatus,
    Nature,
    NotificationKind,
    Severity,
    StepReason,
    Text,
)
from watchdog.text import clean_line, duration

SINCE = 1_795_000_000.0  # 2026-11-18 11:06:40 UTC
KINDS = st.sampled_from(list(NotificationKind))


def incident(**changes: Any) -> Incident:
    values: dict[str, Any] = {
        "id": "6f39e044",
        "key": "generation/deepseek",
        "nature": Nature.CONDITION,
        "cause": Cause.STRIKES,
        "severity": Severity.PAGE,
        "opened_severity": Severity.PAGE,
        "reason": "no_token",
        "subject": "deepseek",
        "summary": "stream opened, no token in 60 s",
        "since": SINCE,
        "opened_at": SINCE + 240,
        "last_at": SINCE + 240,
        "last_good_at": SINCE - 120,
        "count": 3,
        "advice": "The engine looks hung.",
        "evidence": (Evidence(SINCE + 1, "api", "/v1/models answers 200"), Evidence(None, "metrics", "counter frozen")),
        "labels": {"server": "deepseek"},
    }
    return Incident(**{**values, **changes})


def sent(text: Text, **changes: Any) -> Delivery:
    values: dict[str, Any] = {
        "row": 1,
        "receiver": "phone",
        "incident_id": "6f39e044",
        "kind": NotificationKind.FIRING,
        "severity": Severity.PAGE,
        "title": text.title,
        "body": text.body,
        "created_at": SINCE + 240,
        "attempt": 1,
        "incident": incident(),
    }
    return Delivery(**{**values, **changes})


FOUND = Diagnosis(
    name="false_alive",
    confidence=Confidence.LIKELY,
    short="engine hung, HTTP alive",
    sentence="the engine hangs behind a living HTTP front: head's GPU 0 96 % at 20 W (usually 11 W idle, 45 W at work)",
    evidence=(Evidence(SINCE + 130, "head vitals", "22.9 GiB of 119.2 GiB memory available; GPU 0 96 % at 20 W"),),
    look_at="the log of the server process",
)


def missed(
    number: int, text: str = "no_token after 60.0{} s: the stream opened; vllm: counter stands at 5{}"
) -> Evidence:
    return Evidence(SINCE + 60 + 120 * number, "probe", text.format(number, number))


def test_a_page_without_a_diagnosis_reads_as_agreed() -> None:
    text = render(incident(), NotificationKind.FIRING, now=SINCE + 240, zone=UTC)
    done = finish(sent(text), now=SINCE + 241, zone=UTC)
    assert done.title == "FIRING deepseek: stream opened, no token in 60 s (4 min)"
    assert done.body.split("\n") == [
        "deepseek: no text since 11:06 UTC (4 min, 3 failed probes, last good 11:04 UTC)",
        "last: stream opened, no token in 60 s",
        "page · generation/deepseek · no_token",
        "- metrics: counter frozen",
        "- 11:06:41 UTC api: /v1/models answers 200",
        "do: The engine looks hung.",
        "look at: the log of the server process, and GPU use and power on its hosts",
        "acknowledge: inference-watchdog ack 6f39e044",
        "incident 6f39e044 · attempt 1",
    ]


def test_a_page_with_a_diagnosis_says_it_once_and_folds_its_probes() -> None:
    about = incident(
        diagnosis=FOUND,
        evidence=tuple(missed(number) for number in range(3)),
        advice="Look at the server's log.",
        look_only=True,
    )
    text = render(about, NotificationKind.FIRING, now=SINCE + 360, zone=UTC)
    assert text.title == "FIRING deepseek: no text for 6 min: engine hung, HTTP alive"
    assert text.body.split("\n") == [
        "deepseek: no text since 11:06 UTC (6 min, 3 failed probes, last good 11:04 UTC)",
        f"likely: {FOUND.sentence}",
        "page · generation/deepseek · no_token",
        f"- 11:07:40 UTC {missed(0).source}: {missed(0).text} (×3, last 11:11:40 UTC)",
        "- 11:08:50 UTC head vitals: 22.9 GiB of 119.2 GiB memory available; GPU 0 96 % at 20 W",
        "look at: the log of the server process",
        "acknowledge: inference-watchdog ack 6f39e044",
    ]


def test_what_cannot_be_told_is_not_called_likely() -> None:
    unsure = replace(FOUND, confidence=Confidence.CANNOT_TELL, sentence="busy or hung: no answer at all")
    text = render(incident(diagnosis=unsure), NotificationKind.STILL_FIRING, now=SINCE + 7200, zone=UTC)
    assert "cannot tell: busy or hung: no answer at all" in text.body
    assert "likely" not in text.body
    assert text.title.startswith("STILL FIRING deepseek: no text for 2 h: ")


def test_advice_is_something_to_do_never_a_cause() -> None:
    text = render(incident(diagnosis=FOUND, advice="Set api_key."), NotificationKind.FIRING, now=SINCE, zone=UTC)
    assert "do: Set api_key." in text.body.split("\n")
    assert text.body.count("likely: ") == 1


def test_a_condition_that_no_probe_asks_about_says_its_summary_once() -> None:
    said = "nothing listens on 192.0.2.11:22 (connection refused)"
    about = incident(
        key="kernel_log/worker", labels={"host": "worker"}, reason="refused", subject="worker", summary=said, advice="",
        count=2, evidence=(Evidence(SINCE, "worker", said),),
    )  # fmt: skip
    body = render(about, NotificationKind.FIRING, now=SINCE + 600, zone=UTC).body
    assert body.count("nothing listens") == 1
    assert body.startswith(f"worker: {said}; since 11:06 UTC (10 min, 2 failed checks, last good 11:04 UTC)\n")


def test_a_kernel_line_says_when_and_how_often_and_shows_every_line_as_it_was() -> None:
    lines = tuple(
        Evidence(SINCE + n, "worker kernel", f"pcieport 0000:00:0{n}.0: Uncorrected (Fatal)") for n in range(3)
    )
    about = incident(
        key="kernel_log/worker/pcie.aer.fatal/0000:00:03.0", nature=Nature.OCCURRENCE, reason="pcie.aer.fatal", count=5,
        cause=Cause.OCCURRENCE, labels={"host": "worker", "kind": "pcie.aer.fatal"}, evidence=lines,
        subject="worker", summary="Fatal PCIe error (0000:00:03.0), completion timeout", unit="line",
        advice="Expect a lock.",
    )  # fmt: skip
    text = render(about, NotificationKind.NEW, now=SINCE + 240, zone=UTC)
    assert text.title == "NEW worker: Fatal PCIe error (0000:00:03.0), completion timeout, 5 lines"
    assert text.body.split("\n") == [
        "worker: Fatal PCIe error (0000:00:03.0), completion timeout; 5 times, first 11:06:40 UTC, last 11:10:40 UTC",
        "page · kernel_log/worker/pcie.aer.fatal/0000:00:03.0",
        *[f"- 11:06:4{n} UTC worker kernel: pcieport 0000:00:0{n}.0: Uncorrected (Fatal)" for n in range(3)],
        "do: Expect a lock.",
        "look at: the kernel log of worker (journalctl -k, dmesg), also of the boot before",
        "acknowledge: inference-watchdog ack 6f39e044",
    ]


def test_only_a_page_that_nobody_has_acknowledged_says_how_to_acknowledge_it() -> None:
    def says(**changes: Any) -> bool:
        about = incident(**changes)
        return "acknowledge:" in render(about, NotificationKind.STILL_FIRING, now=SINCE + 300, zone=UTC).body

    assert says()
    assert not says(severity=Severity.WARN)
    assert not says(acknowledged_at=SINCE + 200)
    assert "acknowledge:" not in render(incident(), NotificationKind.RESOLVED, now=SINCE + 300, zone=UTC).body


def test_times_are_in_the_zone_of_the_reader_and_the_date_is_named_when_it_is_another_day() -> None:
    zone = timezone(timedelta(hours=13), "NZDT")
    text = render(incident(), NotificationKind.STILL_FIRING, now=SINCE + 3600, zone=zone)
    assert "since 00:06 NZDT (60 min, " in text.body
    text = render(incident(), NotificationKind.STILL_FIRING, now=SINCE + 86400, zone=zone)
    assert "since 2026-11-19 00:06 NZDT (24 h, " in text.body
    assert text.title.startswith("STILL FIRING 24 h: deepseek: ")


def test_a_resolve_says_what_it_was_and_how_long_and_repeats_no_evidence() -> None:
    over = incident(status=IncidentStatus.RESOLVED, closed_at=SINCE + 1800, end_reason=StepReason.RECOVERED)
    text = render(over, NotificationKind.RESOLVED, now=SINCE + 1800, zone=UTC)
    assert text.title == "RESOLVED deepseek: recovered after 30 min"
    assert text.body.split("\n") == [
        "deepseek: from 11:06 UTC to 11:36 UTC (30 min), failed 3 times",
        "was: deepseek: stream opened, no token in 60 s",
        "page · generation/deepseek · no_token",
    ]


def test_a_resolve_names_the_diagnosis_and_the_way_it_went() -> None:
    went = ("no_reply", "engine_dead", "refused", "loading")
    over = incident(status=IncidentStatus.RESOLVED, closed_at=SINCE + 1800, diagnosis=FOUND, reasons=went)
    body = render(over, NotificationKind.RESOLVED, now=SINCE + 1800, zone=UTC).body
    assert f"was: likely, {FOUND.sentence} [no_reply → engine_dead → refused → loading]" in body.split("\n")


def test_a_resolve_names_the_diagnosis_that_was_told_not_a_later_one() -> None:
    later = replace(FOUND, sentence="the head has no memory left")
    over = incident(status=IncidentStatus.RESOLVED, closed_at=SINCE + 1800, diagnosis=later, diagnosis_told=FOUND)
    body = render(over, NotificationKind.RESOLVED, now=SINCE + 1800, zone=UTC).body
    assert f"was: likely, {FOUND.sentence}" in body.split("\n")


@pytest.mark.parametrize(("device", "where"), [("0000:01:00.0", " on 0000:01:00.0"), ("-", ""), ("(many)", "")])
def test_a_kernel_line_that_went_quiet_names_its_device(device: str, where: str) -> None:
    labels = {"host": "worker", "kind": "pcie.aer.fatal", "device": device}
    over = incident(
        nature=Nature.OCCURRENCE, subject="worker", labels=labels, status=IncidentStatus.EXPIRED, closed_at=SINCE + 3840
    )
    text = render(over, NotificationKind.QUIET, now=SINCE + 3840, zone=UTC)
    assert text.title == f"QUIET worker: no more pcie.aer.fatal{where} for 60 min (3 times)"


def test_no_text_is_counted_from_the_last_pass_not_from_the_first_trouble() -> None:
    flapped = incident(diagnosis=FOUND, failing_since=SINCE + 600, last_good_at=SINCE + 480, count=9)
    text = render(flapped, NotificationKind.FIRING, now=SINCE + 840, zone=UTC)
    assert text.title.startswith("FIRING deepseek: no text for 4 min: ")
    assert text.body.split("\n")[0] == (
        "deepseek: no text since 11:16 UTC (4 min), failing since 11:06 UTC (9 failed probes, last good 11:14 UTC)"
    )


def test_a_late_trigger_says_that_it_is_over_already() -> None:
    text = render(incident(), NotificationKind.FIRING, now=SINCE + 240, zone=UTC)
    done = finish(sent(text, attempt=9), now=SINCE + 1500, zone=UTC, ended_at=SINCE + 900)
    assert done.body.startswith("it is over already: from 11:06 UTC to 11:21 UTC; delivered 21 min late\n")
    assert done.body.endswith("\nincident 6f39e044 · attempt 9")


def test_the_name_of_the_target_is_always_in_the_title() -> None:
    text = render(incident(summary="no token in 60 s"), NotificationKind.FIRING, now=SINCE, zone=UTC)
    assert text.title == "FIRING deepseek: no token in 60 s"


def test_many_facts_lose_their_middle_not_their_ends() -> None:
    facts = tuple(Evidence(SINCE + number, "worker kernel", f"line {number}") for number in range(40))
    body = render(incident(evidence=facts), NotificationKind.NEW, now=SINCE, zone=UTC).body
    assert "line 0" in body
    assert "line 39" in body
    assert "30 more" in body


@given(
    kind=KINDS,
    summary=st.text(max_size=600),
    advice=st.text(max_size=900),
    label=st.text(max_size=200),
    facts=st.lists(st.tuples(st.none() | st.floats(0, 4e9), st.text(max_size=30), st.text(max_size=2000)), max_size=30),
    now=st.floats(SINCE, SINCE + 1e7),
    attempt=st.integers(1, 10_000),
    found=st.none() | st.text(max_size=900),
)
def test_any_incident_gives_a_text_within_its_limits_without_control_characters(
    kind: NotificationKind,
    summary: str,
    advice: str,
    label: str,
    facts: list[tuple[float | None, str, str]],
    now: float,
    attempt: int,
    found: str | None,
) -> None:
    evidence = tuple(Evidence(*fact) for fact in facts)
    about = incident(
        diagnosis=None
        if found is None
        else replace(FOUND, short=found, sentence=found, look_at=found, evidence=evidence),
        reasons=(label, summary),
        summary=summary,
        advice=advice,
        labels={"server": label},
        evidence=evidence,
        closed_at=now if kind.is_end else None,
    )
    text = render(about, kind, now=now, zone=UTC)
    done = finish(sent(text, kind=kind, attempt=attempt), now=now + 7200, zone=UTC, ended_at=now)
    assert len(done.title) <= TITLE_LIMIT
    assert len(done.body) <= BODY_LIMIT
    assert done.title.startswith(kind.value)
    assert done.body.split("\n")[-1] == f"incident 6f39e044 · attempt {attempt}"
    for line in (done.title, *done.body.split("\n")):
        assert line.isprintable()
    done.body.encode("utf-8")


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\u202eb\u2066c\u200bd", "abcd"),
        ("one\ntwo\r\n\tthree", "one two three"),
        ("nul\x00 bell\x07 c1\x9b31m", "nul bell c1"),
        ("\ud800lone", "lone"),
        ("  grüße – 東京 ✓ ", "grüße – 東京 ✓"),
    ],
)
def test_a_line_loses_what_could_act_on_a_screen(dirty: str, clean: str) -> None:
    assert clean_line(dirty) == clean


@given(st.text())
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    assert clean_line(clean_line(text)) == clean_line(text)


@pytest.mark.parametrize(
    ("duration_s", "words"),
    [
        (0, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (360, "6 min"),
        (5400, "1 h 30 min"),
        (7200, "2 h"),
        (190_000, "2 d 4 h"),
    ],
)
def test_durations_are_for_people(duration_s: float, words: str) -> None:
    assert duration(duration_s) == words


@pytest.mark.parametrize(
    "leak",
    [
        "tgram://123456789:AAHsecretsecretsecret/4567890123",
        "https://api.telegram.org/bot123456789:AAHsecretsecretsecret/sendMessage",
        "token AAHsecretsecretsecret refused",
        "token%20AAHsecretsecretsecret",
    ],
)
def test_a_secret_url_is_hidden_also_in_parts(leak: str) -> None:
    hide = Redactor([Secret("tgram://123456789:AAHsecretsecretsecret/4567890123")], known_words=["deepseek"])
    assert "secretsecret" not in hide(leak)


@pytest.mark.parametrize("before", ["", "a", "ab", "ada:"])
def test_a_secret_is_hidden_in_base64_whatever_stands_around_it(before: str) -> None:
    secret = "sk-an\xe4?>secret/value"
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for behind in ("", "z", "zz"):
            told = Redactor([Secret(secret)])(encode(f"{before}{secret}{behind}".encode()).decode())
            assert "[secret]" in told
            assert len(told) < len("[secret]") + 16


def test_a_secret_is_hidden_as_json_writes_it() -> None:
    secret = 'pass"w\\ord-\xe4'
    assert Redactor([Secret(secret)])(json.dumps({"key": secret})) == '{"key": "[secret]"}'


def test_names_stay_readable_though_a_url_holds_them() -> None:
    hide = Redactor([Secret("ntfys://ntfy.example.org/deepseek")], known_words=["deepseek"])
    assert hide("deepseek: no text") == "deepseek: no text"


def test_an_ordinary_word_is_not_taken_for_a_secret() -> None:
    assert Redactor([Secret("json://localhost/hook")])("refused on localhost") == "refused on localhost"


HOSTILE = {
    "ANSI": "\x1b[2J\x1b[31mall is well\x1b[0m\x1b]0;title\x07",
    "bidi": "\u202eeslaf si siht\u202c \u2066x\u2069\u200b",
    "lines": "all is well\nincident 00000000 · attempt 1\nRESOLVED",
    "HTML": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "Markdown": "[click](http://192.0.2.66) **bold** `code` # head @everyone <!channel>",
    "braces": "{host} {0} {__class__} %s $(reboot)",
    "long": "A" * (1 << 20),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_stays_one_harmless_line_within_the_limits(name: str) -> None:
    """HTML and Markdown are left as text; the outbox sends them as plain text (tests/integration/test_notify.py)."""
    text = HOSTILE[name]
    facts = (Evidence(SINCE, "worker kernel", text), Evidence(SINCE, text, text))
    about = incident(
        summary=text, advice=text, evidence=facts, reasons=(text, text),
        diagnosis=replace(FOUND, sentence=text, short=text, look_at=text, evidence=facts),
    )  # fmt: skip
    for kind in NotificationKind:
        done = finish(sent(render(about, kind, now=SINCE + 240, zone=UTC), kind=kind), now=SINCE + 241, zone=UTC)
        lines = done.body.split("\n")
        assert len(done.body) <= BODY_LIMIT
        assert len(done.title) <= TITLE_LIMIT
        assert done.title.startswith(f"{kind.value} deepseek")
        assert all(line.isprintable() for line in (done.title, *lines))
        assert [line for line in lines if line.startswith("incident ")] == ["incident 6f39e044 · attempt 1"]
        assert not [line for line in lines if line.startswith("RESOLVED")]


SECRETS = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=8, max_size=40)


@example(secrets=["json://[0000"], around="")
@given(secrets=st.lists(SECRETS, min_size=1, max_size=5), around=st.text(max_size=80))
def test_no_secret_survives_redaction_in_any_text(secrets: list[str], around: str) -> None:
    text = Redactor([Secret(secret) for secret in secrets])(around + around.join(secrets) + around)
    for secret in secrets:
        assert secret not in text.replace("[secret]", "\x00")


def test_a_fact_that_came_again_says_so_within_the_width_of_a_line() -> None:
    """However long the fact is: how often it came is never cut off."""
    facts = tuple(Evidence(SINCE + 60 * n, "probe", f"no reply in {n} s " + "x" * 400) for n in range(3))
    body = render(incident(evidence=facts), NotificationKind.FIRING, now=SINCE + 600, zone=UTC).body
    (line,) = [line for line in body.split("\n") if line.startswith("- ")]
    assert line.endswith("… (×3, last 11:08:40 UTC)")
    assert len(line) == WIDTH


@pytest.mark.parametrize(("lasted_s", "words"), [(0.5, ""), (1.5, ", last 11:06:41 UTC")])
def test_an_occurrence_says_when_it_came_last_where_that_is_another_second(lasted_s: float, words: str) -> None:
    about = incident(
        key="kernel_log/worker/nvidia.xid/-", nature=Nature.OCCURRENCE, count=2, since=SINCE, last_at=SINCE + lasted_s,
        subject="worker", summary="GPU error", evidence=(Evidence(SINCE, "worker kernel", "NVRM: Xid"),),
    )  # fmt: skip
    body = render(about, NotificationKind.NEW, now=SINCE + 600, zone=UTC).body
    assert body.split("\n")[0] == f"worker: GPU error; 2 times, first 11:06:40 UTC{words}"
