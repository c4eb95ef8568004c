"""Writes `docs/runbook.md`: what each page means, and what its reader looks at first.

Reasons come from `watchdog.reasons`, kinds of checks from `watchdog.kinds`, kernel kinds from the rules, diagnoses
from the signatures. Run `python docs/generate_runbook.py` after adding one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from watchdog.config import RulesSettings
from watchdog.diagnosis import HOST_SIGNATURES, SERVER_SIGNATURES, Signature
from watchdog.kernlog.rules import Rule
from watchdog.kinds import FOLLOW, GENERATION, HOST_OCCURRENCES, KERNEL_LOG, OF_SERVERS, OWN_TOPICS
from watchdog.model import Severity, Verdict
from watchdog.reasons import HostReason, ServerReason
from watchdog.rulebook import load_rules
from watchdog.vitals.reading import GpuTool

TARGET = Path(__file__).with_name("runbook.md")

HEAD = """\
# Runbook

Written by `docs/generate_runbook.py`; do not edit. What you were woken by stands in the alert's title and in
`inference-watchdog status`: a *reason* for a server or a host, a *kind* for a kernel line.

Three things first, whatever it is:

1. **Read the whole alert.** It carries the evidence, what it most likely is, and what to look at.
2. **`inference-watchdog status`** says what else is wrong. A host and its server together are usually one cause: begin
   with the host.
3. **Nobody has touched anything.** The watchdog only alerts. `inference-watchdog ack INCIDENT` tells the others that
   you look at it; `inference-watchdog silence --for 2h --reason "…" server=NAME` keeps it quiet while you work.

Pages wake someone; warnings and infos go to receivers that want them. `RESOLVED` means that it passed twice again.
`QUIET` ends a kernel line and claims no recovery.
"""

GPU_TOOL: dict[GpuTool, str] = {
    GpuTool.DONE: "`nvidia-smi` answered.",
    GpuTool.NONE: "There is no `nvidia-smi`.",
    GpuTool.SLOW: "No answer within 8 s: busy, or about to hang.",
    GpuTool.HUNG: "It hangs and cannot be ended: the driver is stuck. Only a power cycle helps.",
    GpuTool.STUCK: "An earlier one still hangs in the driver; no second one was started.",
    GpuTool.FAILED: "It ended with an error: often the GPU fell off the bus.",
    GpuTool.UNTOLD: "The answer ended before it was told.",
}


def runbook() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_servers(), *_hosts(), *_kernel(), *_diagnoses(), *_own()]) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows), ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _servers() -> list[str]:
    rows = [
        (
            f"`{reason.value}`",
            "-" if reason.row.severity is Severity.INFO else reason.row.severity.value,
            reason.row.runbook,
            reason.row.advice or "Nothing.",
        )
        for reason in ServerReason
    ]
    return [
        "## A server: `generation/<server>`",
        "",
        *_table(("reason", "severity", "it means", "look first at"), rows),
    ]


def _hosts() -> list[str]:
    rows = [(f"`{reason.value}`", reason.row.runbook, reason.row.look_at) for reason in HostReason]
    others = [
        *(
            (f"`{kind.name}/… · {reason.value}`", reason.row.runbook, reason.row.look_at or reason.row.advice)
            for kind in OF_SERVERS
            if kind is not GENERATION
            for reason in kind.reasons
            if reason.row.verdict is Verdict.FAIL
        ),
        (f"`{FOLLOW.name}/…`", FOLLOW.runbook, "Its reason, as above."),
        *((f"`{KERNEL_LOG.name}/… · {one.name}`", one.runbook, one.look_at) for one in HOST_OCCURRENCES),
    ]
    lines = ["## A host: `kernel_log/<host>`, `follow/<host>`, `vitals/<host>`", ""]
    lines += ["A page when the machine cannot be talked to at all, else a warning.", ""]
    lines += _table(("reason", "it means", "look first at"), rows)
    lines += _table(("alert", "it means", "look first at"), others)
    lines += ["What `nvidia-smi` did, as evidence:", ""]
    return lines + _table(("answer", "it means"), ((f"`{tool.value}`", GPU_TOOL[tool]) for tool in GpuTool))


def _kernel() -> list[str]:
    by_kind: dict[str, list[Rule]] = {}
    for rule in load_rules(RulesSettings()):
        if rule.severity is not None and not rule.detail:
            by_kind.setdefault(rule.kind, []).append(rule)
    lines = ["## A kernel line: `kernel_log/<host>/<kind>/<device>`", ""]
    lines += ["It alerts at once; repeats are counted, not reported again.", ""]
    for kind, rules in sorted(by_kind.items()):
        loud = sorted({rule.severity for rule in rules if rule.severity}, key=lambda severity: -severity.rank)
        lines += [f"### `{kind}` ({', '.join(severity.value for severity in loud)})", ""]
        lines += [*dict.fromkeys(f"- {_cell(rule.summary)}{_raised(rule)}" for rule in rules), ""]
        advice = dict.fromkeys(_cell(rule.advice) for rule in rules if rule.advice)
        lines += ["Look first at:", "", *(f"- {text}" for text in advice), ""] if advice else []
    return lines


def _raised(rule: Rule) -> str:
    return "".join(
        f"; a {burst.severity.value} at {burst.count} in {burst.window_s / 60:g} minutes" for burst in rule.bursts
    )


def _diagnoses() -> list[str]:
    def rows(signatures: Iterable[Signature]) -> list[tuple[str, ...]]:
        return [(f"`{one.name}`", one.short, one.look_at) for one in signatures]

    lines = ["## What it most likely is", "", "The diagnosis in an alert, where the evidence allows one.", ""]
    lines += _table(("diagnosis of a server", "short", "look first at"), rows(SERVER_SIGNATURES))
    return lines + _table(("diagnosis of a host", "short", "look first at"), rows(HOST_SIGNATURES))


def _own() -> list[str]:
    rows = [(f"`{topic.key('…')}`", topic.runbook, topic.look_at) for topic in OWN_TOPICS]
    lines = ["## The watchdog itself: `self/…`", "", "Never louder than a warning.", ""]
    return lines + _table(("key", "it means", "look first at"), rows)


if __name__ == "__main__":
    TARGET.write_text(runbook(), encoding="utf-8")
