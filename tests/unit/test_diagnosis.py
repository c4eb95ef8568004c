"""Diagnosis: what the evidence says, and never more than that."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.diagnosis_cases import (
    BUSY,
    FROZEN,
    GIB,
    SINCE,
    gpu,
    host,
    line,
    probe,
    scanned,
    scene,
    seen,
    trouble,
    unread,
    vitals,
)
from watchdog.diagnosis import (
    HOST_SIGNATURES,
    SERVER_SIGNATURES,
    Basis,
    DiagnosisInput,
    Fact,
    HostView,
    Signature,
    diagnose,
    signs_of_hang,
)
from watchdog.diagnosis.extract import host_facts, server_facts
from watchdog.diagnosis.match import matching
from watchdog.model import Confidence, Diagnosis, Evidence, Observation, Severity, Verdict
from watchdog.vitals import Bounds, Gpu, GpuTool

TABLES = {"server": SERVER_SIGNATURES, "host": HOST_SIGNATURES}
EVERY = [(table, row) for table, rows in TABLES.items() for row in rows]


def found(newest: Observation, *hosts: HostView, count: int = 3, own_network: str = "") -> Diagnosis:
    diagnosis = diagnose(scene(newest, *hosts, count=count, own_network=own_network))
    assert diagnosis is not None
    return diagnosis


def first(table: str, facts: frozenset[Fact]) -> Signature | None:
    matched = matching(TABLES[table], dict.fromkeys(facts, Basis("x")), {"head": {}})
    return matched[0] if matched else None


@pytest.mark.parametrize(("table", "row"), EVERY, ids=lambda value: getattr(value, "name", value))
def test_each_signature_needs_every_piece_and_without_one_the_words_are_weaker(table: str, row: Signature) -> None:
    """Weaker: another row further down, and never "likely" where the whole was not."""
    assert first(table, row.needs) is row
    for piece in row.needs:
        other = first(table, row.needs - {piece})
        if other is None:
            continue
        rows = TABLES[table]
        assert rows.index(other) > rows.index(row), f"without {piece} it becomes {other.name}"
        assert other.words != row.words
        assert row.confidence is Confidence.LIKELY or other.confidence is Confidence.CANNOT_TELL


@pytest.mark.parametrize(("table", "row"), EVERY, ids=lambda value: getattr(value, "name", value))
def test_the_words_of_a_signature_use_only_what_it_needs(table: str, row: Signature) -> None:
    allowed = {fact.value for fact in row.needs} | {"host", "missing", "clean"}
    assert set(re.findall(r"\{(\w+)\}", row.words + row.short + row.look_at)) <= allowed
    assert row.source
    assert len(row.short.format(host="spark-2-worker")) <= 36, "it must fit into a title"
    assert not row.words.endswith(".")


HTTP = {"http_status": 500.0}
ANSWERED = {"engine_answered": 1.0}
HUNG = probe("no_reply", FROZEN)
LOST, PARTLY, RESET = (probe("no_reply", ANSWERED | {f"engine_{how}": 1.0}) for how in ("lost", "partial", "reset"))
HEAD_SPINS = seen("head", gpu(96, 20.4))
HEAD_WORKS = seen("head", gpu(96, 72))
WORKER_EMPTY = seen("worker", gpu(0, 11))
HEAD_FINE = seen("head", gpu(0, 11))
WORKER_FINE = seen("worker", gpu(0, 11), kernel_log=scanned("worker"))
SILENT = host("head", vitals=unread("head", "silent"))
GONE = host("head", vitals=unread("head", "timeout"))
WORKER_GONE = host("worker", vitals=unread("worker", "unroutable"))
AER_WORKER = host("worker", line(host="worker"), vitals=vitals("worker", gpu(0, 11)))
H200 = Bounds(80.0, 690.0)
H200_HUNG = host(
    "h200",
    vitals=vitals("h200", gpu(100, 127.2, 0, 0), gpu(0, 124.9, 0, 1), bounds=H200),
)


def ranks(name: str, **said: float) -> HostView:
    """A host whose GPU tells nothing, and what NCCL there says."""
    fact = Evidence(SINCE + 71, f"{name} NCCL", "rank 1 (worker) hangs")
    return host(name, vitals=replace(vitals(name), measurements=said, evidence=(fact,)))


BEHIND = ranks("head", nccl_mismatch=1.0, nccl_rank=1.0)
MISSING, DEAD, MUTE = (ranks("head", **{f"nccl_{how}": 1.0}) for how in ("missing", "dead", "hangs"))
LATE = line(at=SINCE + 200)

REPORTS: dict[str, tuple[str, Observation, tuple[HostView, ...]]] = {
    # the silent stalls: health and models answer 200, no token comes
    "DSpark#87 two Sparks wedge with the API alive": (
        "waiting_rank", probe("no_token", FROZEN), (HEAD_SPINS, WORKER_EMPTY)),
    "vllm#41725 node A at 96 %, node B at 0 %": ("waiting_rank", probe("no_reply"), (HEAD_SPINS, WORKER_EMPTY)),
    "two H200 hung in a collective": ("waiting_rank", probe("no_token", FROZEN), (H200_HUNG,)),
    "Fastllm-proxy#19 /v1/models 200 for 85 min": ("false_alive", HUNG, (HEAD_SPINS,)),
    "GB10 CUDA graph error, 96 % at 20 W, no metrics": ("gpu_spinning", probe("no_token"), (HEAD_SPINS,)),
    "a hang without anything of HTTP": ("spinning_only", probe("no_reply"), (HEAD_SPINS,)),
    "vllm#39863 counters frozen, no SSH configured": ("frozen", HUNG, ()),
    "SGLang#33858 our request is lost": ("lost", LOST, (HEAD_FINE,)),
    "SGLang#29548 one replica stands": ("partly_frozen", PARTLY, ()),
    "llama.cpp stopped process: TCP connects, nothing answers": ("no_answer", probe("no_reply"), ()),
    "Ollama: no metrics, headers came": ("alive_no_token", probe("no_token"), (HEAD_FINE,)),
    "stalled in mid-stream, no counters": ("stalled", probe("stalled"), (HEAD_FINE,)),
    "vllm#51921 NCCL names the rank": ("rank_behind", HUNG, (BEHIND,)),
    "two H200, a rank stopped": ("rank_gone", HUNG, (MISSING,)),
    "two H200, a rank killed": ("rank_gone", probe("no_token"), (HEAD_SPINS, DEAD)),
    "two H200, ten seconds after a rank was stopped": ("ranks_silent", HUNG, (MUTE,)),
    "NCCL does not answer, and nothing else is known": ("no_answer", probe("no_reply"), (MUTE,)),
    # busy
    "busy by its counter, whatever NCCL says": ("busy", probe("busy", BUSY), (BEHIND,)),
    "llama.cpp one slot, eight long replies": ("busy", probe("busy", BUSY), (HEAD_WORKS,)),
    "DS4.1#22 96 % at 72 W was an honest prefill": ("long_work", HUNG, (HEAD_WORKS,)),
    "the same without counters": ("working", probe("no_reply"), (HEAD_WORKS,)),
    "TGI overloaded 429": ("says_busy", probe("busy"), (HEAD_FINE,)),
    # the ladder
    "500 EngineCore encountered an issue": ("engine_dead", probe("engine_dead", HTTP), (HEAD_FINE,)),
    "refused, host fine": ("process_gone", probe("refused"), (HEAD_FINE,)),
    "refused, host never seen": ("refused", probe("refused"), ()),
    "llama.cpp Loading model": ("loading", probe("loading", HTTP), (HEAD_FINE,)),
    "the engine restarted under the probe": ("engine_restarted", RESET, ()),
    "nginx 502": ("proxy", probe("upstream_down", HTTP), (HEAD_FINE,)),
    "nginx 504 after 60 s": ("proxy_gave_up", probe("gateway_timeout", HTTP), (HEAD_FINE,)),
    # our side
    "401": ("configuration", probe("auth", HTTP), (HEAD_FINE,)),
    "vllm#1988 404 on an unknown name": ("model_gone", probe("unknown_model", HTTP), (HEAD_FINE,)),
    "a wrong key beside an AER": ("configuration", probe("auth", HTTP), (AER_WORKER,)),
    "DNS": ("name_or_tls", probe("dns"), ()),
    # text that is none
    "Qwen3.8#216 instant stop": ("no_text_made", probe("instant_stop", HTTP), (HEAD_FINE,)),
    "LM Studio#2286 tokens, no text": ("no_text_made", probe("empty", HTTP), (HEAD_FINE,)),
    "200 with HTML": ("not_chat", probe("malformed", HTTP), (HEAD_FINE,)),
    "TGI 500 in generation": ("error_answer", probe("server_error", HTTP), (HEAD_FINE,)),
    "closed in the middle": ("broken_off", probe("truncated", HTTP), (HEAD_FINE,)),
    # machines
    "DSpark#146 AER 4 min before the first failed probe": ("link_failing", HUNG, (HEAD_FINE, AER_WORKER)),
    "DSpark#146 and then silence": (
        "locked_up", probe("no_reply"), (host("head", line(), vitals=unread("head", "silent")),)),
    "a hard lock answers no TCP, seconds after CmpltTO": (
        "locked_up_gone", probe("unreachable"), (host("head", line(at=SINCE - 9), vitals=unread("head", "timeout")),)),
    "RCU stalls, then silence": (
        "locked_up_stuck", probe("no_reply"), (host("head", line("lockup"), vitals=unread("head", "silent")),)),
    "a panic, then nothing": (
        "locked_up_stuck_gone", probe("unreachable"),
        (host("head", line("panic"), vitals=unread("head", "timeout")),)),
    "an AER after the first miss": ("link_after", probe("no_reply"), (seen("head", lines=(LATE,)),)),
    "Xid 119 GSP timeout": ("gpu_fault", probe("no_reply"), (host("head", line("gpu.xid"), vitals=vitals()),)),
    "kcompactd soft lockup": ("kernel_stuck", probe("no_reply"), (host("head", line("lockup"), vitals=vitals()),)),
    "gpud#117 nvidia-smi hangs": (
        "driver_wedged", probe("no_reply"), (host("head", vitals=vitals("head", tool=GpuTool.HUNG)),)),
    "playbooks#97 NVRM storm at 1 GiB": (
        "memory_storm", probe("no_reply"),
        (host("head", line("gpu.nvrm_oom", severity=Severity.WARN), vitals=vitals(available=GIB)),)),
    "memory falls, programs wait": ("memory_going", probe("no_reply"), (seen("head", available=GIB, pressure=45),)),
    "memory fell within half an hour": (
        "memory_going", probe("no_reply"), (seen("head", available=GIB, drop=60 * GIB),)),
    "memory is low and nothing else": ("memory_low", probe("no_reply"), (seen("head", available=GIB),)),
    "the OOM killer took the server": (
        "oom_killed", probe("refused"), (host("head", line("oom", severity=Severity.WARN), vitals=vitals()),)),
    "#31 the machine restarted by itself": ("host_restarted", probe("refused"), (seen("head", uptime_s=60),)),
    "and its kernel log tells how": (
        "host_rebooted", probe("refused"),
        (host("head", line("host.rebooted", severity=Severity.WARN, at=SINCE + 90,
                           summary="restarted", detail=", without a shutdown: its log stops mid-line"),
              vitals=vitals(uptime_s=60)),)),
    "#1358 ping answers, SSH does not, the API is silent": ("host_frozen", probe("no_reply"), (SILENT, WORKER_FINE)),
    "GLM-5.3#193 whole host gone": ("host_down", probe("unreachable"), (GONE, WORKER_FINE)),
    "both machines gone at once": ("network", probe("unreachable"), (GONE, WORKER_GONE)),
    "the worker is gone, the head's API waits": ("host_unreached", probe("no_token"), (HEAD_FINE, WORKER_GONE)),
    "SSH gone, the API cannot be reached, its metrics still answer": (
        "host_unreached", probe("unreachable", ANSWERED), (GONE,)),
    "half dead: SSH silent, API opens a stream": ("host_mute", probe("no_token"), (SILENT,)),
    "unreachable, no SSH configured": ("unreachable", probe("unreachable"), ()),
}  # fmt: skip


@pytest.mark.parametrize("report", REPORTS)
def test_a_public_report_gets_its_words(report: str) -> None:
    """Each as its report describes it; the name says which one, or what it stands for."""
    name, newest, hosts = REPORTS[report]
    diagnosis = found(newest, *hosts)
    assert diagnosis.name == name
    assert "{" not in diagnosis.sentence + diagnosis.short + diagnosis.look_at


@pytest.mark.parametrize("report", REPORTS)
def test_no_report_is_called_healthy_and_no_host_down_while_it_answers(report: str) -> None:
    _, newest, hosts = REPORTS[report]
    diagnosis = found(newest, *hosts)
    said = f"{diagnosis.short} {diagnosis.sentence}"
    assert not re.search(r"\b(healthy|all is well|nothing is wrong|recovered)\b", said)
    for one in hosts:
        answers = one.vitals is not None and one.vitals.verdict is Verdict.PASS
        if answers:
            assert f"{one.name} is down" not in said
            assert f"{one.name} is frozen" not in said
            assert f"{one.name} has locked up" not in said
    if newest.measurements.get("engine_answered") or newest.reason in {"no_token", "stalled", "truncated"}:
        assert diagnosis.name != "host_down"
        assert diagnosis.name != "host_frozen"


Case = tuple[str, Observation, tuple[HostView, ...]]
PIECES: dict[str, tuple[str, Observation, tuple[HostView, ...], list[Case]]] = {
    "false-alive engine": (
        "false_alive", HUNG, (HEAD_SPINS,),
        [
            ("frozen", HUNG, ()),  # no look at the GPU
            ("frozen", HUNG, (seen("head", gpu(96, None)),)),  # no power
            ("frozen_low", HUNG, (host("head", vitals=vitals("head", gpu(96, 20), bounds=Bounds())),)),
            ("frozen", HUNG, (host("head", vitals=vitals("head", gpu(96, 30), bounds=Bounds())),)),
            ("frozen", HUNG, (seen("head", gpu(None, 20)),)),  # [N/A]
            ("frozen", HUNG, (host("head", vitals=vitals("head", gpu(96, 20), at=SINCE - 1)),)),
            ("gpu_spinning", probe("no_reply", ANSWERED), (HEAD_SPINS,)),  # no counter
            ("spinning_only", probe("no_reply"), (HEAD_SPINS,)),  # nothing of HTTP
        ]),
    "one rank waits": (
        "waiting_rank", probe("no_token"), (HEAD_SPINS, WORKER_EMPTY),
        [
            ("gpu_spinning", probe("no_token"), (HEAD_SPINS,)),  # the other not seen
            ("gpu_spinning", probe("no_token"), (HEAD_SPINS, seen("worker", gpu(96, 20)))),
            ("gpu_spinning", probe("no_token"),
             (seen("head", gpu(96, 20, None)), WORKER_EMPTY)),  # memory not told
            ("alive_no_token", probe("no_token"),
             (seen("head", gpu(96, None)), WORKER_EMPTY)),  # power not told
        ]),
    "busy queue": (
        "busy", probe("busy", BUSY), (HEAD_WORKS,),
        [("says_busy", probe("busy"), (HEAD_SPINS,)), ("alive_no_token", probe("no_reply", ANSWERED), ())]),
    "process gone": (
        "process_gone", probe("refused"), (HEAD_FINE,),
        [("refused", probe("refused"), ()),
         ("refused", probe("refused"), (host("head", vitals=vitals("head", at=SINCE - 300)),)),  # an old look
         ("host_unreached", probe("refused"), (GONE,))]),
    "host frozen": (
        "host_frozen", probe("no_reply"), (SILENT,),
        [("host_mute", probe("no_reply", ANSWERED), (SILENT,)),  # HTTP lives
         ("no_answer", probe("no_reply"), (host("head"),)),
         ("no_answer", probe("no_reply"),  # it answered after it had been silent
          (host("head", vitals=unread("head", at=SINCE + 60), kernel_log=scanned("head", at=SINCE + 120)),))]),
    "host down": (
        "host_down", probe("unreachable"), (GONE,),
        [("unreachable", probe("unreachable"), (host("head"),)),
         ("host_unreached", probe("no_token"), (GONE,)),
         ("host_unreached", probe("unreachable", ANSWERED), (GONE,)),  # HTTP lives
         ("unreachable", probe("unreachable"), (host("head", vitals=unread("head", "refused")),)),  # its kernel answers
         ("unreachable", probe("unreachable"),
          (host("head", vitals=unread("head", "timeout", "`vitals` did not finish", answered=True)),))]),
    "host rebooted": (
        "host_rebooted", probe("refused"),
        (host("head", line("host.rebooted", at=SINCE + 9, summary="restarted", detail=", after a clean shutdown"),
              vitals=vitals(uptime_s=60)),),
        [("host_restarted", probe("refused"), (seen("head", uptime_s=60),)),
         ("process_gone", probe("refused"), (seen("head", uptime_s=9e5),)),
         ("process_gone", probe("refused"),  # it restarted long before the server was last well
          (host("head", line("host.rebooted", at=SINCE - 7000), vitals=vitals(uptime_s=9e3)),))]),
    "link failing": (
        "link_failing", HUNG, (AER_WORKER,),
        [("frozen", HUNG, (seen("worker", gpu(0, 11)),)),
         ("frozen", HUNG,
          (seen("worker", lines=(line("pcie.aer.corrected", "worker", severity=Severity.WARN),)),)),
         ("frozen", HUNG, (host("worker", line(host="worker", at=SINCE - 9000)),))]),
    "locked up": (
        "locked_up", probe("no_reply"), (host("head", line(), vitals=unread("head", "silent")),),
        [("link_failing", probe("no_reply"), (host("head", line(), vitals=vitals("head")),)),
         ("host_frozen", probe("no_reply"), (SILENT,)),
         # the error is the worker's, the silence the head's: nobody is said to have locked up
         ("link_failing", probe("no_reply"), (SILENT, host("worker", line(host="worker"), vitals=vitals("worker"))))]),
    "out of memory": (
        "memory_going", probe("no_reply"), (seen("head", available=GIB, pressure=45),),
        [("memory_low", probe("no_reply"), (seen("head", available=GIB),)),
         ("no_answer", probe("no_reply"), (seen("head", pressure=45),)),
         ("no_answer", probe("no_reply"), (seen("head", available=GIB, pressure=45, at=SINCE - 5000),))]),
    "frozen": (
        "frozen", HUNG, (HEAD_FINE,),
        [("alive_no_token", probe("no_reply", ANSWERED), (HEAD_FINE,)), ("no_answer", probe("no_reply"), ())]),
}  # fmt: skip


@pytest.mark.parametrize("case", PIECES)
def test_with_any_one_piece_gone_the_words_say_less(case: str) -> None:
    whole, newest, hosts, weaker = PIECES[case]
    full = found(newest, *hosts)
    assert (full.name, full.confidence) == (whole, Confidence.LIKELY)
    names = [row.name for row in SERVER_SIGNATURES]
    for name, less, fewer in weaker:
        diagnosis = found(less, *fewer)
        assert diagnosis.name == name
        assert diagnosis.sentence != full.sentence
        assert names.index(diagnosis.name) > names.index(full.name) or diagnosis.confidence is Confidence.CANNOT_TELL


def test_a_frozen_counter_is_a_hang_only_after_three_windows() -> None:
    once = found(probe("no_reply", {**FROZEN, "engine_still_windows": 1.0}), count=3)
    assert (once.name, once.confidence) == ("frozen_once", Confidence.CANNOT_TELL)
    assert found(HUNG, count=3).name == "frozen"


def test_a_replica_that_may_read_a_prompt_is_not_called_hung() -> None:
    partial = {"engine_answered": 1.0, "engine_partial": 1.0}
    assert found(probe("no_reply", partial)).name == "partly_frozen"
    unclear = found(probe("no_reply", {**partial, "engine_prefill_hidden": 1.0}))
    assert (unclear.name, unclear.confidence) == ("partly_still", Confidence.CANNOT_TELL)


def test_an_engine_that_works_for_others_without_our_request_is_not_to_blame() -> None:
    seen_so = {"engine_answered": 1.0, "engine_lost": 1.0, "engine_works_for_others": 1.0}
    diagnosis = found(probe("no_reply", seen_so))
    assert (diagnosis.name, diagnosis.confidence) == ("front_end", Confidence.LIKELY)
    assert "what stands in front of the engine hangs" in diagnosis.sentence


def test_a_moving_counter_does_not_outrank_a_gpu_that_waits_in_a_collective() -> None:
    busy = probe("busy", {"engine_answered": 1.0, "engine_busy": 1.0})
    assert found(busy, H200_HUNG).name == "busy_and_spinning"
    assert found(busy, HEAD_FINE).name == "busy"
    for (phase, _), gpus in recorded_moments().items():
        name = found(busy, seen("h200", *gpus, bounds=H200)).name
        assert name == ("busy_and_hung" if phase == "hung-collective" else "busy")


def test_the_sentence_joins_hosts_lines_and_the_first_miss() -> None:
    diagnosis = found(HUNG, host("head", vitals=vitals("head"), kernel_log=scanned("head")), AER_WORKER)
    assert diagnosis.sentence == (
        "the PCIe link or the network card fails: worker: pcie.aer.fatal on 0000:01:00.0 40 s before the first miss; "
        "head clean"
    )
    assert diagnosis.look_at == "the kernel log of worker (journalctl -k), also of the boot before"
    assert [fact.source for fact in diagnosis.evidence] == ["worker kernel", "head vitals", "worker vitals"]


def test_the_power_of_the_machine_itself_is_in_the_words() -> None:
    diagnosis = found(probe("no_token", FROZEN), HEAD_SPINS)
    assert diagnosis.sentence == (
        "the engine hangs behind a living HTTP front: its metrics still answer, its counters stand still (1 running, 0 "
        "waiting), and head's GPU 0 96 % at 20 W (usually 11 W idle, 45 W at work), memory 0 %"
    )


def test_what_would_have_told_busy_from_hung_is_named_when_it_is_missing() -> None:
    assert found(probe("no_token")).sentence == (
        "busy or hung: the HTTP reply opens, but no token comes; no engine counter tells whether it makes progress; "
        "its GPUs have not been checked since"
    )
    learning = host("head", vitals=vitals("head", gpu(96, 30), bounds=Bounds()))
    assert "a GPU is at full load, and its usual power is not known yet" in found(probe("no_token"), learning).sentence


FRESH = Bounds()
WAITS = {"worker": gpu(0, 11), "head": gpu(96, 14)}


def test_the_ranks_of_one_server_are_compared_across_its_hosts() -> None:
    """No host knows its own habits yet: the other's empty GPU tells what one of its kind draws for nothing."""
    both = [seen(name, one, bounds=FRESH) for name, one in WAITS.items()]
    diagnosis = found(probe("no_token"), *both)
    assert (diagnosis.name, diagnosis.confidence) == ("waiting_rank", Confidence.LIKELY)
    assert "head's GPU 0 96 % at 14 W" in diagnosis.sentence
    assert "worker's GPU 0 0 % at 11 W" in diagnosis.sentence
    stale = seen("worker", WAITS["worker"], bounds=FRESH, at=SINCE - 5)
    assert found(probe("no_token"), both[1], stale).name == "low"


def test_idle_power_of_the_part_is_a_weak_sign_for_a_fresh_daemon() -> None:
    alone = seen("head", gpu(96, 20), bounds=FRESH)
    weak = found(probe("no_token"), alone)
    assert (weak.name, weak.confidence) == ("low", Confidence.CANNOT_TELL)
    assert "head's GPU 0 96 % at 20 W (such a GPU draws up to 20 W idle)" in weak.sentence
    strong = found(probe("no_token", FROZEN), alone)
    assert (strong.name, strong.confidence) == ("frozen_low", Confidence.LIKELY)
    assert found(probe("busy", BUSY), alone).name == "busy"
    assert found(probe("no_token", FROZEN), seen("head", gpu(96, 72), bounds=FRESH)).name == "frozen"


def test_a_restart_never_outranks_a_gpu_that_hangs_now() -> None:
    restarted = seen("worker", gpu(0, 11), uptime_s=100)
    assert found(probe("no_reply"), restarted).name == "host_restarted"
    diagnosis = found(probe("no_reply"), restarted, HEAD_SPINS)
    assert (diagnosis.name, diagnosis.short) == ("hangs_since_restart", "a rank hangs")
    assert diagnosis.sentence == (
        "it hangs: head's GPU 0 96 % at 20 W (usually 11 W idle, 45 W at work), memory 0 %; worker restarted 30 s "
        "before the first miss, which may be why"
    )
    wedged = seen("head", tool=GpuTool.HUNG)
    sentence = found(probe("no_reply"), restarted, wedged).sentence
    assert sentence.startswith("it hangs: the GPU driver of head hangs; worker restarted")
    assert found(probe("refused"), restarted, HEAD_SPINS).name == "host_restarted"


RECORDED = Path(__file__).parents[1] / "fixtures/corpus/gpu/h200x2_idle_busy_hung_collective.csv"
HANGS = {"waiting_rank", "false_alive", "gpu_spinning", "spinning_only"}


def recorded_moments() -> dict[tuple[str, str], list[Gpu]]:
    """(phase, time) → both GPUs then."""
    moments: dict[tuple[str, str], list[Gpu]] = {}
    with RECORDED.open() as file:
        for row in csv.DictReader(file):
            one = Gpu(
                index=int(row["index"]),
                name=row["name"],
                util=float(row["utilization.gpu"]),
                memory_util=float(row["utilization.memory"]),
                power_w=float(row["power.draw"]),
            )
            moments.setdefault((row["phase"], row["time"]), []).append(one)
    return moments


@pytest.mark.parametrize("bounds", [H200, Bounds()], ids=["habits learned", "nothing learned"])
@pytest.mark.parametrize("reason", ["no_reply", "no_token", "stalled"])
def test_the_recorded_collective_hang_is_named_and_idle_and_work_are_never_called_a_hang(
    reason: str, bounds: Bounds
) -> None:
    phases = set()
    for (phase, _), gpus in recorded_moments().items():
        diagnosis = found(probe(reason), seen("h200", *gpus, bounds=bounds))
        assert (diagnosis.name == "waiting_rank") == (phase == "hung-collective")
        assert (diagnosis.name in HANGS) == (phase == "hung-collective")
        phases.add(phase)
    assert phases == {"idle", "busy", "hung-collective"}


HOST_TROUBLE = trouble("kernel_log/worker")
TEXT = probe("ok", verdict=Verdict.PASS)


def about_host(reason: str, *servers: Observation, occurrences: tuple[object, ...] = ()) -> Diagnosis | None:
    words = unread("worker", reason).summary
    read = scanned("worker", reason, words=words, at=SINCE + 240)
    view = HostView(name="worker", occurrences=occurrences)  # type: ignore[arg-type]  # a tuple of incidents
    return diagnose(DiagnosisInput(incident=HOST_TROUBLE, newest=read, now=SINCE + 300, hosts=(view,), servers=servers))


@pytest.mark.parametrize(
    ("reason", "servers", "name", "confidence"),
    [
        ("silent", (probe("no_reply"),), "host_frozen", Confidence.LIKELY),
        ("silent", (), "host_mute", Confidence.CANNOT_TELL),
        ("silent", (TEXT,), "ssh_only", Confidence.LIKELY),
        ("silent", (probe("no_reply", ANSWERED),), "host_mute", Confidence.CANNOT_TELL),
        ("timeout", (probe("unreachable"),), "host_down", Confidence.LIKELY),
        ("timeout", (probe("unreachable", ANSWERED),), "host_unreached", Confidence.CANNOT_TELL),
        ("silent", (probe("unreachable", ANSWERED),), "host_mute", Confidence.CANNOT_TELL),
        ("timeout", (probe("refused"),), "host_unreached", Confidence.CANNOT_TELL),
        ("unroutable", (), "host_unreached", Confidence.CANNOT_TELL),
        ("unroutable", (TEXT,), "ssh_only_gone", Confidence.LIKELY),
    ],
)
def test_a_host_that_cannot_be_reached_is_judged_with_its_servers(
    reason: str, servers: tuple[Observation, ...], name: str, confidence: Confidence
) -> None:
    diagnosis = about_host(reason, *servers)
    assert diagnosis is not None
    assert (diagnosis.name, diagnosis.confidence) == (name, confidence)


def test_a_silent_host_that_had_a_fatal_error_has_locked_up() -> None:
    diagnosis = about_host("silent", occurrences=(line(host="worker"),))
    assert diagnosis is not None
    assert diagnosis.sentence.startswith(
        "worker has locked up after a PCIe or network error: worker: pcie.aer.fatal on "
    )


@pytest.mark.parametrize(
    ("api", "read", "kind", "name"),
    [
        ("unreachable", "timeout", "pcie.aer.fatal", "locked_up_gone"),
        ("unreachable", "timeout", "lockup", "locked_up_stuck_gone"),
        ("unreachable", "timeout", "", "host_down"),
        ("no_reply", "timeout", "pcie.aer.fatal", "locked_up_gone"),
        ("no_reply", "timeout", "lockup", "locked_up_stuck_gone"),
        ("no_reply", "silent", "pcie.aer.fatal", "locked_up"),
        ("no_reply", "silent", "lockup", "locked_up_stuck"),
        ("no_reply", "silent", "", "host_frozen"),
        ("no_token", "timeout", "pcie.aer.fatal", "link_failing"),
        ("no_token", "timeout", "lockup", "kernel_stuck"),
        ("no_token", "timeout", "", "host_unreached"),
        ("no_reply", "", "pcie.aer.fatal", "link_failing"),
        ("no_reply", "", "lockup", "kernel_stuck"),
    ],
)
def test_a_server_s_host_is_called_locked_up_only_after_grave_lines_and_when_nothing_of_it_answers(
    api: str, read: str, kind: str, name: str
) -> None:
    """API × SSH ("": it answers) × what its kernel said before."""
    newest = unread("head", read) if read else vitals("head")
    diagnosis = found(probe(api), host("head", *([line(kind)] if kind else []), vitals=newest))
    assert diagnosis.name == name
    assert ("locked up" in diagnosis.sentence) == name.startswith("locked_up")


@pytest.mark.parametrize(
    ("read", "kind", "servers", "name"),
    [
        ("timeout", "pcie.aer.fatal", (probe("unreachable"),), "locked_up_gone"),
        ("timeout", "lockup", (probe("unreachable"),), "locked_up_stuck_gone"),
        ("timeout", "lockup", (), "locked_up_stuck_gone"),
        ("silent", "lockup", (probe("no_reply"),), "locked_up_stuck"),
        ("timeout", "pcie.aer.fatal", (TEXT,), "ssh_only_gone"),
        ("silent", "pcie.aer.fatal", (TEXT,), "ssh_only"),
        ("silent", "lockup", (TEXT,), "ssh_only"),
    ],
)
def test_a_host_is_called_locked_up_after_grave_lines_but_not_while_its_server_gives_text(
    read: str, kind: str, servers: tuple[Observation, ...], name: str
) -> None:
    diagnosis = about_host(read, *servers, occurrences=(line(kind, host="worker"),))
    assert diagnosis is not None
    assert (diagnosis.name, diagnosis.confidence) == (name, Confidence.LIKELY)


def test_our_own_dead_network_is_no_lock_up_of_a_host_that_had_an_error() -> None:
    gone = host("head", line(), vitals=unread("head", "timeout"))
    assert found(probe("unreachable"), gone, own_network="eth0 has no carrier").name == "own_road"


@pytest.mark.parametrize("reason", ["refused", "no_permission", "gap", "key_refused"])
def test_a_reading_that_fails_for_its_own_reasons_needs_no_diagnosis(reason: str) -> None:
    words = "x"
    read = scanned("worker", reason, words=words, at=SINCE + 240)
    assert (
        diagnose(DiagnosisInput(incident=HOST_TROUBLE, newest=read, now=SINCE, hosts=(HostView(name="worker"),)))
        is None
    )


def test_what_explains_itself_gets_no_diagnosis() -> None:
    newest = probe()
    for incident in (line(), trouble("self/storage"), trouble("vitals/head")):
        assert diagnose(DiagnosisInput(incident=incident, newest=newest, now=SINCE)) is None
    assert diagnose(DiagnosisInput(incident=trouble(), newest=None, now=SINCE)) is None


def test_our_own_network_takes_the_blame_before_a_server_does() -> None:
    diagnosis = found(probe("unreachable"), GONE, WORKER_GONE, own_network="the gateway is silent")
    assert (diagnosis.name, diagnosis.confidence) == ("own_road", Confidence.CANNOT_TELL)


def test_braces_and_names_in_hostile_words_stay_words() -> None:
    newest = probe("auth")
    hostile = Observation(
        **{name: getattr(newest, name) for name in newest.__slots__} | {"summary": "{host} {0} {missing}"}
    )
    diagnosis = found(hostile)
    assert diagnosis.sentence == "(host) (0) (missing)"


REASONS = [
    "no_reply", "no_token", "stalled", "slow", "truncated", "loading", "busy", "auth", "unknown_model", "bad_request",
    "not_found", "engine_dead", "server_error", "upstream_down", "gateway_timeout", "malformed", "refused",
    "unreachable", "dns", "tls", "reset", "instant_stop", "empty",
]  # fmt: skip
NUMBERS = st.sets(
    st.sampled_from(
        ["engine_answered", "engine_frozen", "engine_busy", "engine_lost", "engine_reset", "engine_partial"]
    )
)
VIEWS = st.builds(
    lambda name, looked, lines: host(name, *lines, vitals=looked),
    st.sampled_from(["head", "worker"]),
    st.one_of(
        st.none(),
        st.builds(
            lambda util, power, at, available, uptime: vitals(
                "head", gpu(util, power), at=at, available=available, uptime_s=uptime
            ),
            st.none() | st.floats(0, 100),
            st.none() | st.floats(0, 900),
            st.floats(SINCE - 1000, SINCE + 300),
            st.floats(0, 119 * GIB),
            st.floats(0, 1e6),
        ),
        st.builds(
            lambda reason: unread("head", reason), st.sampled_from(["silent", "timeout", "unroutable", "refused"])
        ),
    ),
    st.lists(
        st.builds(
            lambda kind, at: line(kind, at=at),
            st.sampled_from(["pcie.aer.fatal", "mlx5.health", "gpu.xid", "oom", "lockup", "gpu.nvrm_oom", "none"]),
            st.floats(SINCE - 5000, SINCE + 300),
        ),
        max_size=3,
    ),
)


@given(
    reason=st.sampled_from(REASONS),
    numbers=NUMBERS,
    hosts=st.lists(VIEWS, max_size=3),
    count=st.integers(1, 9),
)
def test_any_mixture_of_evidence_gives_words_that_claim_no_death_of_what_lives(
    reason: str, numbers: set[str], hosts: list[HostView], count: int
) -> None:
    claims_no_death_of_what_lives(reason, numbers, hosts, count)


@pytest.mark.parametrize(
    ("reason", "view", "name"), [("unreachable", GONE, "host_down"), ("no_reply", SILENT, "host_frozen")]
)
@given(numbers=NUMBERS, others=st.lists(VIEWS, max_size=2), count=st.integers(1, 9))
def test_a_machine_that_cannot_be_reached_is_called_dead_only_while_nothing_of_it_answers(
    reason: str, view: HostView, name: str, numbers: set[str], others: list[HostView], count: int
) -> None:
    assert claims_no_death_of_what_lives(reason, set(), [view, WORKER_FINE], count) == name
    claims_no_death_of_what_lives(reason, numbers, [view, *others], count)


def claims_no_death_of_what_lives(reason: str, numbers: set[str], hosts: list[HostView], count: int) -> str:
    """The name of the diagnosis, which has words and calls no machine dead while something of it lives."""
    diagnosis = found(probe(reason, dict.fromkeys(numbers, 1.0)), *hosts, count=count)
    assert diagnosis.sentence
    assert diagnosis.short
    assert diagnosis.name == "unknown" or diagnosis.name in [row.name for row in SERVER_SIGNATURES]
    if diagnosis.name in {"host_down", "host_frozen", "network"}:
        assert "engine_answered" not in numbers
        assert reason in {"unreachable", "no_reply"}
        unreached = [one for one in hosts if one.vitals is not None and one.vitals.verdict is Verdict.UNKNOWN]
        assert unreached
    return diagnosis.name


@pytest.mark.parametrize(("status", "opens"), [(200.0, True), (201.0, False), (500.0, False), (None, False)])
def test_a_reply_under_http_200_proves_that_http_is_up(status: float | None, *, opens: bool) -> None:
    facts = server_facts(scene(probe("empty", None if status is None else {"http_status": status})))
    assert (Fact.HTTP_UP in facts) is opens
    if opens:
        assert facts[Fact.HTTP_UP].words == "the HTTP reply opens"


def test_evidence_names_the_clock_of_its_host_only_where_that_is_known_to_be_off() -> None:
    said = (Evidence(SINCE, "head kernel", "a line"),)
    for view in (host("head"), host("head", vitals=unread("head")), seen("head")):
        assert view.with_clock_note(said) == said
    (noted,) = seen("head", clock_offset_s=-90.0).with_clock_note(said)
    assert (noted.at, noted.source) == (SINCE, "head kernel (its clock -90 s)")


def test_the_gravest_and_then_the_nearest_line_of_this_boot_is_cited_with_its_own_time() -> None:
    old, near = line("net.mlx5", at=SINCE - 1080), line("pcie.aer.fatal", at=SINCE - 12)
    long = line("pcie.aer.fatal", at=SINCE - 1080, last_at=SINCE - 7)
    long = replace(
        long, evidence=tuple(Evidence(at, "head kernel", "x") for at in (SINCE - 1080, SINCE - 7, SINCE + 90))
    )
    restarted = line("host.rebooted", at=SINCE - 200, severity=Severity.WARN)
    for lines, words in (
        ((old, near), "pcie.aer.fatal on 0000:01:00.0 12 s before the first miss"),
        ((near, old), "pcie.aer.fatal on 0000:01:00.0 12 s before the first miss"),
        ((long,), "pcie.aer.fatal on 0000:01:00.0 7 s before the first miss"),
        ((line("gpu.old", at=SINCE - 205), restarted, line("gpu.new", at=SINCE + 250)), "gpu.new on 0000:01:00.0"),
    ):
        assert words in found(HUNG, host("head", *lines, vitals=vitals("head"), kernel_log=scanned("head"))).sentence


@pytest.mark.parametrize("total", [{}, {"memory_total_bytes": 0.0}])
def test_memory_of_unknown_size_is_neither_low_nor_plenty(total: dict[str, float]) -> None:
    plain = vitals("head")
    few = {"memory_available_bytes": 1.0, "memory_some_avg10": 90.0, **total}
    told = host_facts(HostView(name="head", vitals=replace(plain, measurements=few)), scene(probe()))
    assert not {Fact.MEMORY_LOW, Fact.MEMORY_PRESSED} & told.keys()


def test_nothing_is_known_of_the_clock_of_a_host_that_was_never_seen() -> None:
    assert HostView(name="head").clock_offset_s == 0.0
    assert HostView(name="head", vitals=vitals("head", clock_offset_s=-7.0)).clock_offset_s == -7.0


@pytest.mark.parametrize("view", [BEHIND, MISSING, DEAD, MUTE])
def test_what_nccl_says_is_a_sign_of_a_hang_while_it_is_new(view: HostView) -> None:
    assert signs_of_hang(scene(HUNG, view)) <= {Fact.RANK_BEHIND, Fact.RANK_GONE, Fact.RANKS_SILENT}
    assert signs_of_hang(scene(HUNG, view))
    assert view.vitals is not None
    before = replace(view, vitals=replace(view.vitals, at=SINCE - 60))
    assert not signs_of_hang(scene(HUNG, before))
    assert not signs_of_hang(scene(HUNG, host("head", vitals=vitals("head"))))
