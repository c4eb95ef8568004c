"""Writes `docs/runbook.md`: what each page means, and what its reader looks at first.

Kernel kinds come from the rules, diagnoses from the signatures; what reasons mean is written here, and a test holds
that no reason, kind or diagnosis is missing. Run `python docs/generate_runbook.py` after adding one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from watchdog.checks.generation_report import advice_for
from watchdog.completion.reason import Reason as Generation
from watchdog.completion.reason import severity_of
from watchdog.config import RulesSettings
from watchdog.diagnosis import HOST_SIGNATURES, SERVER_SIGNATURES, Signature
from watchdog.kernlog.rules import Rule
from watchdog.model import Severity
from watchdog.rulebook import load_rules
from watchdog.ssh import Reason as Host
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

GENERATION: dict[Generation, str] = {
    Generation.OK: "Text came in time. Never an alert.",
    Generation.GARBAGE: "Text comes, but it is one sign repeated: broken weights, or NaNs. Users get nonsense.",
    Generation.INSTANT_STOP: "The model ended at once without a word, twice in a row. Users get empty answers.",
    Generation.EMPTY: "The reply ended properly and held no text, twice in a row.",
    Generation.NO_REPLY: "No answer at all in time. `hung` in the text: requests run and the engine's counter stands "
    "still. `cannot tell`: the engine has no counter that could be read.",
    Generation.NO_TOKEN: "The reply opened, and not one token came. The HTTP side lives, the engine does not.",
    Generation.STALLED: "Tokens came, then stopped in the middle.",
    Generation.TRUNCATED: "The stream broke off in the middle of the text: a crash, or a proxy that cuts long answers.",
    Generation.LOADING: "The server itself says that it is loading its model.",
    Generation.BUSY: "No text in time, but the engine generates for others. Slow for your users, alive.",
    Generation.AUTH: "The server refuses our key. It may be well: your users' keys are not ours.",
    Generation.UNKNOWN_MODEL: "The server does not serve the model that is probed. Often it was swapped on purpose.",
    Generation.BAD_REQUEST: "The server rejects what we ask: a setting it does not take.",
    Generation.NOT_FOUND: "There is a server, but no chat API at this address.",
    Generation.ENGINE_DEAD: "The HTTP side says that its engine is gone. It does not come back by itself.",
    Generation.SERVER_ERROR: "The server answers with an error of its own (HTTP 5xx).",
    Generation.UPSTREAM_DOWN: "A proxy answers, and nothing behind it.",
    Generation.GATEWAY_TIMEOUT: "A proxy gave up waiting for the server behind it.",
    Generation.MALFORMED: "Something answered that is no chat completion.",
    Generation.REFUSED: "The machine is up, and nothing listens on the port: the server crashed, or is starting.",
    Generation.UNREACHABLE: "The machine does not answer on the network: off, locked up, or unplugged.",
    Generation.DNS: "The name in `base_url` does not resolve.",
    Generation.TLS: "No secure connection: often an expired certificate.",
    Generation.RESET: "The connection was cut before any reply.",
    Generation.ASLEEP: "An on-demand server holds no model now. Not an alert: it was not woken.",
}

HOST: dict[Host, tuple[str, str]] = {
    Host.OK: ("Read to its end. Never an alert.", "Nothing."),
    Host.REFUSED: ("The machine is up, its SSH server is not.", "`systemctl status ssh` there, from its console."),
    Host.UNROUTABLE: (
        "No route to it: off, locked up or unplugged; or our own network.",
        "Its console, power and cable.",
    ),
    Host.TIMEOUT: (
        "No TCP answer: off, locked up, or a firewall that drops. After a login: overload, or a disk that hangs.",
        "Its console.",
    ),
    Host.SILENT: (
        "Its port is open and says nothing: the kernel lives, programs do not. The mark of a frozen machine.",
        "Its console; the alerts of the minutes before name the kernel lines. Plan a power cycle.",
    ),
    Host.DNS: ("Its name does not resolve.", "`address` in the configuration; better an IP address."),
    Host.RESET: ("The connection was closed before the login.", "`journalctl -u ssh` there; MaxStartups, a firewall."),
    Host.NOT_SSH: ("What answers does not speak SSH, or no way to encrypt is shared.", "`port`; the age of its sshd."),
    Host.HOST_KEY_CHANGED: (
        "It shows another host key than the known one: reinstalled, another machine, or someone in between.",
        "Compare the fingerprints on its console. Until then treat the connection as hostile.",
    ),
    Host.HOST_KEY_UNKNOWN: ("We know no host key of it.", "`inference-watchdog doctor` prints the line; compare it."),
    Host.KEY_REFUSED: ("It does not let our key in.", "`authorized_keys` there, and that the account has a shell."),
    Host.JUMP: ("The machine we go through cannot be used. Says nothing about the host behind it.", "The jump host."),
    Host.CONFIG: (
        "A file or a setting of ours, or the reader installed there, does not fit.",
        "`inference-watchdog doctor`.",
    ),
    Host.COMMAND_FAILED: (
        "We got in, and the reader did not run or failed.",
        "Log in by hand; run `journalctl -k -n 5`.",
    ),
    Host.TRUNCATED: ("The answer broke off. What came is used, the next run reads on.", "Memory, disk and sshd there."),
    Host.STDERR: ("The host complained while it was read, so something may be missing.", "The words of the complaint."),
    Host.NO_PERMISSION: (
        "Our account may not read the kernel's lines. journalctl says nothing about it and shows none.",
        "`sudo usermod -aG systemd-journal ACCOUNT` there; it counts from the next login.",
    ),
    Host.NO_JOURNAL: ("The host keeps no journal; its ring buffer is read where that is allowed.", "`Storage=` there."),
    Host.EMPTY_BOOT: (
        "Not one kernel line of the running boot can be seen: blindness, not quiet.",
        "`journalctl -k` there.",
    ),
    Host.GAP: ("Lines were lost before they could be read.", "`dmesg` there, and what floods its log."),
    Host.CORRUPT: ("The journal is damaged.", "`sudo journalctl --verify` there; a failing disk."),
    Host.BEHIND: ("There is more log than can be read in the interval.", "What floods the log."),
    Host.RESTARTED: ("The machine restarted while it was read.", "The `host.rebooted` alert beside it."),
    Host.SILENT_STREAM: (
        "The live stream is open and does not bring what the scan finds.",
        "`systemctl restart systemd-journald`.",
    ),
    Host.LOCAL: ("This machine is out of files or memory.", "Its limits, and what uses them up."),
}

OWN: dict[str, tuple[str, str]] = {
    "self/blind/…": (
        "Three times in a row we could not tell how something is. It may be well or not.",
        "Our own network and sleep first; then the reason in the text.",
    ),
    "self/check/…": (
        "A check of ours ran into a bug (`bug`). Its target is not watched.",
        "The log; please report it.",
    ),
    "self/delivery/…": (
        "A receiver takes nothing (`undeliverable`). This news goes to the others.",
        "`inference-watchdog test-alert RECEIVER`; token, topic, address.",
    ),
    "self/heartbeat": ("The outside service cannot be told that we live.", "`heartbeat.url`, the way to the internet."),
    "self/late/…": ("A check did not come round in its time.", "This machine's load and memory, our log."),
    "self/loop": ("Our own program stood still for a while.", "Load and memory here; a paused virtual machine."),
    "self/road": (
        "Our own network is down: nothing can be said about targets behind it.",
        "Cable, Wi-Fi, router here.",
    ),
    "self/service": (
        "The daemon could not start, or ended again and again (`failed`).",
        "`systemctl status inference-watchdog`.",
    ),
    "self/standby": (
        "The first watchdog does not answer (`took_over`), so this one speaks. Ids of its incidents end in `-s`.",
        "The machine of the first watchdog: on, awake, on the network?",
    ),
    "self/storage": (
        "The state cannot be written; alerts go on from memory.",
        "The disk here: full, read-only, failing.",
    ),
    "self/test": ("You, or someone, ran `test-alert`.", "Nothing."),
}

OTHERS: dict[str, tuple[str, str]] = {
    "progress/… · frozen": (
        "Short requests pass, long ones stand still: one replica or one batch hangs.",
        "The long requests; a prefill of very long prompts can look the same.",
    ),
    "follow/…": (
        "The live stream of a host's kernel log is down; scans still read every line.",
        "Its reason, as above.",
    ),
    "vitals/… · low_memory": ("Less memory is available than `memory_available_min`.", "What grew: `ps --sort=-rss`."),
    "kernel_log/… · host.rebooted": (
        "The machine restarted. The text says whether it was shut down or stopped in the middle of a line.",
        "The last kernel lines of the boot before, in the evidence.",
    ),
    "kernel_log/… · log.incomplete": (
        "Kernel lines were lost that nobody will ever read.",
        "What floods the log there.",
    ),
}

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
        (f"`{reason.value}`", "-" if reason in (Generation.OK, Generation.ASLEEP) else severity_of(reason).value,
         GENERATION[reason], advice_for(reason) or "Nothing.")
        for reason in Generation
    ]  # fmt: skip
    return [
        "## A server: `generation/<server>`",
        "",
        *_table(("reason", "severity", "it means", "look first at"), rows),
    ]


def _hosts() -> list[str]:
    rows = [(f"`{reason.value}`", *HOST[reason]) for reason in Host]
    lines = ["## A host: `kernel_log/<host>`, `follow/<host>`, `vitals/<host>`", ""]
    lines += ["A page when the machine cannot be talked to at all, else a warning.", ""]
    lines += _table(("reason", "it means", "look first at"), rows)
    lines += _table(("alert", "it means", "look first at"), ((f"`{name}`", *words) for name, words in OTHERS.items()))
    lines += ["What `nvidia-smi` did, as evidence:", ""]
    return lines + _table(("answer", "it means"), ((f"`{tool.value}`", GPU_TOOL[tool]) for tool in GpuTool))


def _kernel() -> list[str]:
    by_kind: dict[str, list[Rule]] = {}
    for rule in load_rules(RulesSettings()):
        if rule.severity is not None and not rule.detail:
            by_kind.setdefault(rule.kind, []).append(rule)
    lines = ["## A kernel line: `kernel_log/<host>/<kind>/<device>`", ""]
    lines += ["It alerts at first sight; repeats are counted, not told again.", ""]
    for kind, rules in sorted(by_kind.items()):
        loud = sorted({rule.severity for rule in rules if rule.severity}, key=lambda severity: -severity.rank)
        lines += [f"### `{kind}` ({', '.join(severity.value for severity in loud)})", ""]
        lines += [*dict.fromkeys(f"- {_cell(rule.summary)}{_raised(rule)}" for rule in rules), ""]
        advice = dict.fromkeys(_cell(rule.advice) for rule in rules if rule.advice)
        lines += ["Look first at:", "", *(f"- {text}" for text in advice), ""] if advice else []
    return lines


def _raised(rule: Rule) -> str:
    if rule.burst is None:
        return ""
    loud = "a page" if rule.burst.severity is Severity.PAGE else f"a {rule.burst.severity.value}"
    return f"; {loud} at {rule.burst.count} in {rule.burst.window_s / 60:g} minutes"


def _diagnoses() -> list[str]:
    def rows(signatures: Iterable[Signature]) -> list[tuple[str, ...]]:
        return [(f"`{one.name}`", one.short, one.look_at) for one in signatures]

    lines = ["## What it most likely is", "", "The diagnosis in an alert, where the evidence allows one.", ""]
    lines += _table(("diagnosis of a server", "short", "look first at"), rows(SERVER_SIGNATURES))
    return lines + _table(("diagnosis of a host", "short", "look first at"), rows(HOST_SIGNATURES))


def _own() -> list[str]:
    rows = [(f"`{key}`", *words) for key, words in OWN.items()]
    lines = ["## The watchdog itself: `self/…`", "", "Never louder than a warning.", ""]
    return lines + _table(("key", "it means", "look first at"), rows)


if __name__ == "__main__":
    TARGET.write_text(runbook(), encoding="utf-8")
