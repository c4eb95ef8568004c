"""Every reason an observation can give, one row each: what it means for verdict, severity, words and diagnosis.

To add one, add its row here: the probe, the plan, the diagnosis, the metrics and the runbook read it. Facts behind the
rows: design §5.1 and §5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from watchdog.model import Severity, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one reason means.

    `words` is a phrase for a sentence, `short` the same in fewer (empty: none), `advice` what to do, `runbook` what
    it means at length, `look_at` where that sends its reader (empty: the advice). `alive` is what a reply without text
    proves: False = no token came, None = undecided. `fact` names the diagnosis's fact (`diagnosis.facts`).
    """

    runbook: str
    words: str = ""
    short: str = ""
    advice: str = ""
    look_at: str = ""
    verdict: Verdict = Verdict.FAIL
    severity: Severity = Severity.PAGE
    alive: bool | None = None
    fact: str = ""
    sick: bool = True
    """Whether a sick machine could cause it; nothing on a host is blamed for the others."""
    look_only: bool = False
    """The advice only says where to look: a diagnosis knows better."""
    text_came: bool = False
    """Text came, but not a whole reply: nobody may be told that there was none."""
    opened_reply: bool = False
    """The HTTP reply had opened, so the HTTP side lives."""
    unanswered: bool = False
    """Queue and hang look the same on the chat socket: only the engine's own counters tell them apart."""
    busy_if_engine_moves: bool = False
    confirm: bool = False
    """The server's own words, or no connection at all: the next probe need not wait for its regular time."""
    must_last: bool = False
    """A restart looks the same: it opens an incident only after it has lasted for a while."""
    own_network: bool = False
    """Our own lost network could explain it. A port that refused or kept silent was reached: never those."""
    host_down: bool = False
    """Says that the whole machine cannot be reached: it inhibits the alerts of what runs on it."""
    blind: bool = True
    """Of an unknown one: whether it says that we could not see."""
    ends: bool = False
    """Of an unknown one: it is not watched for now, so an open incident is over."""


class _Reason(StrEnum):
    """A slug with its row; the slug is what a person and a script see."""

    row: Row

    def __new__(cls, slug: str, row: Row) -> Self:
        """`slug` is the value; the row rides along."""
        member = str.__new__(cls, slug)
        member._value_ = slug
        member.row = row
        return member


_HANG_ADVICE = "Look at the server's log and at the GPU: utilisation near 100 % at idle power is a hang."


# One row a reason reads best as a table.
# fmt: off


class ServerReason(_Reason):
    """Why a probe of `generation/<server>` ended as it did."""

    OK = "ok", Row(
        runbook="Text came in time. Never an alert.",
        verdict=Verdict.PASS, severity=Severity.INFO,
    )
    GARBAGE = "garbage", Row(
        runbook="Text comes, but it is one character repeated. The probe passes; `quality/<server>` warns after three.",
        words="alive, but the text is nonsense",
        advice="Look for NaN in the server's log; restart it, or reload the weights if it persists.", look_only=True,
        verdict=Verdict.PASS, severity=Severity.WARN,
    )
    INSTANT_STOP = "instant_stop", Row(
        runbook="The model ended at once without text, twice in a row. Users get empty answers.",
        words="the model stops at once, without any text",
        advice="Ask the server by hand; check the chat template and the stop tokens.",
        fact="no_text_made", sick=False,
    )
    EMPTY = "empty", Row(
        runbook="The reply ended properly and held no text, twice in a row.",
        words="the reply ended without any text",
        advice="Ask the server by hand; tokens without text often mean broken weights or a broken parser.",
        fact="no_text_made",
    )
    NO_REPLY = "no_reply", Row(
        runbook="No answer at all in time. `hung` in the text: requests run and the engine's counter stands still. "
        "`cannot tell`: the engine has no counter that could be read.",
        words="no reply",
        advice=_HANG_ADVICE, look_only=True, unanswered=True, busy_if_engine_moves=True,
    )
    NO_TOKEN = "no_token", Row(
        runbook="The reply opened, but no token came. The HTTP side lives, the engine does not.",
        words="the reply started, but no token came",
        advice=_HANG_ADVICE, look_only=True, unanswered=True, busy_if_engine_moves=True, opened_reply=True,
    )
    STALLED = "stalled", Row(
        runbook="Tokens came, then stopped in the middle.",
        words="text began, then nothing more came",
        advice=_HANG_ADVICE, look_only=True, unanswered=True, opened_reply=True, text_came=True, fact="stalled",
    )
    SLOW = "slow", Row(
        runbook="Text still came when the time was over: alive, and too slow for the deadline.",
        words="text comes, but too slowly: the reply was not complete in time", short="text comes too slowly",
        advice="Users wait: look at the load and the queue, or give the probe a longer timeout.",
        severity=Severity.WARN, alive=True, fact="slow", opened_reply=True, sick=False, text_came=True,
    )
    TRUNCATED = "truncated", Row(
        runbook="The stream broke off in the middle of the text: a crash, or a proxy that cuts long answers.",
        words="the stream was closed in the middle of the text",
        advice="Look at the server's log for a crash; a proxy in between may cut long answers.", look_only=True,
        fact="broken_off", opened_reply=True, text_came=True,
    )
    LOADING = "loading", Row(
        runbook="The server itself says that it is loading its model.",
        words="the server is loading its model",
        advice="Wait; if it does not end, look at the server's log.",
        severity=Severity.WARN, alive=False, fact="loading",
    )
    BUSY = "busy", Row(
        runbook="No text in time, but the engine generates for others. Slow for your users, alive.",
        words="the server is busy",
        advice="Users wait: look at the queue, add slots or a longer probe timeout.",
        severity=Severity.WARN, sick=False,
    )
    AUTH = "auth", Row(
        runbook="The server refuses our key, or an allow-list refuses this machine: the text says which. "
        "It may be healthy: your users' keys are not ours.",
        words="configuration: the server refuses our key",
        advice="Set api_key of this server, or give the key back its access.",
        fact="configuration", sick=False,
    )
    UNKNOWN_MODEL = "unknown_model", Row(
        runbook="The server does not serve the model that is probed. Often it was swapped on purpose.",
        words="configuration: the server does not serve this model",
        advice="Set model to a name that /v1/models lists.",
        fact="model_gone", sick=False,
    )
    BAD_REQUEST = "bad_request", Row(
        runbook="The server rejects what we ask: a setting it does not take.",
        words="configuration: the server rejects our request",
        advice="Read the server's words; adjust max_tokens or extra_body of this server.",
        fact="configuration", sick=False,
    )
    NOT_FOUND = "not_found", Row(
        runbook="There is a server, but no chat API at this address.",
        words="configuration: nothing answers chat completions at this address",
        advice="Check base_url: it must end where /chat/completions follows, usually in /v1.",
        fact="configuration", sick=False,
    )
    ENGINE_DEAD = "engine_dead", Row(
        runbook="The HTTP side says that its engine is gone. It does not recover by itself.",
        words="the engine behind the server has died",
        advice="Restart the server; its log names the cause.",
        alive=False, fact="engine_dead", busy_if_engine_moves=True, confirm=True,
    )
    SERVER_ERROR = "server_error", Row(
        runbook="The server answers with an error of its own (HTTP 5xx).",
        words="the server answers with an error",
        advice="Look at the server's log.", look_only=True,
        alive=False, fact="error_answer", confirm=True, must_last=True,
    )
    UPSTREAM_DOWN = "upstream_down", Row(
        runbook="Something answers at the address, and what generates behind it does not: a proxy, or the server's own "
        "front end.",
        words="the address answers, the server behind it does not",
        advice="Look at the server behind the address.", look_only=True,
        alive=False, fact="upstream_down", confirm=True, must_last=True,
    )
    GATEWAY_TIMEOUT = "gateway_timeout", Row(
        runbook="What answers at the address gave up waiting for the server behind it.",
        words="what answers gave up waiting for the server behind it",
        advice="Look at the server behind the address; it may hang or be busy.", look_only=True,
        fact="gateway_timeout", unanswered=True, busy_if_engine_moves=True,
    )
    MALFORMED = "malformed", Row(
        runbook="Something answered that is not a chat completion.",
        words="what came back is not a chat completion",
        advice="Check base_url: another program may listen there.",
        fact="not_chat", sick=False,
    )
    REFUSED = "refused", Row(
        runbook="The machine is up, and nothing listens on the port: the server crashed, or is starting.",
        words="connection refused: the server is not running, or still starting", short="connection refused",
        advice="Check whether the server runs and on which port it listens.", look_only=True,
        alive=False, fact="refused", confirm=True, must_last=True,
    )
    UNREACHABLE = "unreachable", Row(
        runbook="The machine does not answer on the network: off, locked up, or unplugged.",
        words="the machine cannot be reached",
        advice="Check whether the machine is up and on the network.", look_only=True,
        fact="unreachable", own_network=True, confirm=True, must_last=True,
    )
    DNS = "dns", Row(
        runbook="The name in `base_url` does not resolve.",
        words="the server's name does not resolve",
        advice="Check the name in base_url and the name server.",
        fact="name_or_tls", sick=False, own_network=True,
    )
    TLS = "tls", Row(
        runbook="No secure connection: often an expired certificate, or `http://` and `https://` mixed up.",
        words="no secure connection could be made",
        advice="Check the certificate, ca_file, and that the port speaks TLS.",
        fact="name_or_tls", sick=False,
    )
    RESET = "reset", Row(
        runbook="The connection was cut before any reply.",
        words="the connection was closed before any reply",
        advice="Look at the server's log; a proxy in between may have closed it.", look_only=True,
        fact="broken_off", confirm=True, must_last=True,
    )
    LOCAL = "local", Row(
        runbook="This machine is out of file descriptors, ports or memory: nothing can be said about the server.",
        words="this machine is out of file descriptors, ports or memory",
        advice="Check this machine's limits (`ulimit -n`), its memory, and what uses them up.",
        verdict=Verdict.UNKNOWN, sick=False,
    )
    ASLEEP = "asleep", Row(
        runbook="An on-demand server holds no model now. Not an alert: it was not woken.",
        words="no model is loaded, so it was not woken",
        verdict=Verdict.UNKNOWN, severity=Severity.INFO, blind=False,
    )
    AWAY = "away", Row(
        runbook="Another server of its seat answers, or was there last. Not an alert: they take turns.",
        words="another server has its seat",
        verdict=Verdict.UNKNOWN, severity=Severity.INFO, blind=False, ends=True,
    )
    SWAPPING = "swapping", Row(
        runbook="It is gone, and another server of its seat is starting. Not an alert before `swap_for` is over.",
        words="its seat changes hands",
        verdict=Verdict.UNKNOWN, severity=Severity.INFO, blind=False,
    )


class ProgressReason(_Reason):
    """What `progress/<server>` says: do the requests that run move?"""

    OK = "ok", Row(
        runbook="The running requests move. Never an alert.",
        verdict=Verdict.PASS, severity=Severity.INFO,
    )
    FROZEN = "frozen", Row(
        runbook="Short requests pass, long ones stand still: one replica or one batch hangs.",
        look_at="The long requests; a prefill of very long prompts can look the same.",
        fact="stands_still",
    )


class QualityReason(_Reason):
    """What `quality/<server>` says: is the text of passing probes more than nonsense?"""

    OK = "ok", Row(
        runbook="The text is no nonsense. Never an alert.",
        verdict=Verdict.PASS, severity=Severity.INFO,
    )
    GARBAGE = "garbage", Row(
        runbook="Text comes, but it is one character repeated: broken weights, or NaNs. Users get nonsense.",
        words="alive, but the text is nonsense",
        advice="Look for NaN in the server's log; restart it, or reload the weights if it persists.", look_only=True,
        severity=Severity.WARN,
    )


class SlowReason(_Reason):
    """What `slow/<server>` says: does it take what it took all week?"""

    OK = "ok", Row(
        runbook="As fast as in its own last week, or nobody can tell yet. Never an alert.",
        verdict=Verdict.PASS, severity=Severity.INFO,
    )
    SLOW = "slow", Row(
        runbook="Alive, nothing else runs on it, and it takes three times as long as in its own last week: a clock "
        "cap, a slow link between its hosts, another program on its GPUs.",
        advice="Compare GPU clocks, power and link speed of its hosts with those of last week.", look_only=True,
        severity=Severity.WARN, fact="slower",
    )
    FEWER_DRAFTS = "fewer_drafts", Row(
        runbook="Of the tokens that its draft model proposes, less than half of the usual part is accepted: replies "
        "are right, but slower. Another kind of text does the same.",
        advice="Nothing, if other users or other texts came. Else compare model and draft model.", look_only=True,
        severity=Severity.INFO, fact="fewer_drafts",
    )


class SeatReason(_Reason):
    """What happened in a seat: `seat/<server>/…`."""

    SWAPPED = "swapped", Row(
        runbook="The servers of a seat took turns. A line of history, no alert.",
        look_at="Nothing.",
        severity=Severity.INFO,
    )
    SECOND = "second", Row(
        runbook="Two servers of one seat answer at the same time: one of them should be off.",
        look_at="Memory on their hosts; which of the two is wanted.",
        severity=Severity.INFO,
    )


class HostReason(_Reason):
    """Why a host could be read or not: `kernel_log/<host>`, `follow/<host>`, `vitals/<host>`."""

    OK = "ok", Row(
        runbook="Read to its end. Never an alert.",
        look_at="Nothing.",
        verdict=Verdict.PASS, severity=Severity.WARN, fact="host_answers",
    )
    REFUSED = "refused", Row(
        runbook="The machine is up, its SSH server is not.",
        look_at="`systemctl status ssh` there, from its console.",
        fact="host_answers", host_down=True,
    )
    UNROUTABLE = "unroutable", Row(
        runbook="No route to it: off, locked up or unplugged; or our own network.",
        look_at="Its console, power and cable.",
        fact="host_gone", host_down=True, own_network=True,
    )
    TIMEOUT = "timeout", Row(
        runbook="No TCP answer: off, locked up, or a firewall that drops. After a login: overload, or a disk that "
        "hangs.",
        look_at="Its console.",
        fact="host_gone", own_network=True,
    )
    SILENT = "silent", Row(
        runbook="Its port is open but sends nothing: the kernel lives, programs do not. The mark of a frozen machine.",
        look_at="Its console; the alerts of the minutes before name the kernel lines. Plan a power cycle.",
        fact="host_silent", host_down=True,
    )
    DNS = "dns", Row(
        runbook="Its name does not resolve.",
        look_at="`address` in the configuration; better an IP address.",
        severity=Severity.WARN, own_network=True,
    )
    RESET = "reset", Row(
        runbook="The connection was closed before the login.",
        look_at="`journalctl -u ssh` there; MaxStartups, a firewall.",
        fact="host_answers",
    )
    NOT_SSH = "not_ssh", Row(
        runbook="What answers does not speak SSH, or shares no algorithm with us.",
        look_at="`port`; the age of its sshd.",
        severity=Severity.WARN, fact="host_answers",
    )
    HOST_KEY_CHANGED = "host_key_changed", Row(
        runbook="It shows another host key than the known one: reinstalled, another machine, or someone in between.",
        look_at="Compare the fingerprints on its console. Until then treat the connection as hostile.",
        severity=Severity.WARN, fact="host_answers",
    )
    HOST_KEY_UNKNOWN = "host_key_unknown", Row(
        runbook="No host key of it is known here.",
        look_at="`inference-watchdog doctor` prints the line; compare it.",
        severity=Severity.WARN, fact="host_answers",
    )
    KEY_REFUSED = "key_refused", Row(
        runbook="It does not accept our key.",
        look_at="`authorized_keys` there, and that the account has a shell.",
        severity=Severity.WARN, fact="host_answers",
    )
    JUMP = "jump", Row(
        runbook="The jump host cannot be used. Says nothing about the host behind it.",
        look_at="The jump host.",
        severity=Severity.WARN, own_network=True,
    )
    CONFIG = "config", Row(
        runbook="A file or a setting of ours, or the reader installed there, does not fit.",
        look_at="`inference-watchdog doctor`.",
        severity=Severity.WARN,
    )
    COMMAND_FAILED = "command_failed", Row(
        runbook="We logged in, and the reader did not run or failed.",
        look_at="Log in by hand; run `journalctl -k -n 5`.",
        severity=Severity.WARN, fact="host_answers",
    )
    TRUNCATED = "truncated", Row(
        runbook="The answer broke off. What came is used, the next run reads on.",
        look_at="Memory, disk and sshd there.",
        severity=Severity.WARN, fact="host_answers",
    )
    STDERR = "stderr", Row(
        runbook="The host complained while it was read, so something may be missing.",
        look_at="The words of the complaint.",
        severity=Severity.WARN, fact="host_answers",
    )
    NO_PERMISSION = "no_permission", Row(
        runbook="Our account may not read the kernel's lines. journalctl says nothing about it and shows none.",
        look_at="`sudo usermod -aG systemd-journal ACCOUNT` there; takes effect at the next login.",
        severity=Severity.WARN, fact="host_answers",
    )
    NO_JOURNAL = "no_journal", Row(
        runbook="The host keeps no journal; its ring buffer is read where that is allowed.",
        look_at="`Storage=` there.",
        severity=Severity.WARN, fact="host_answers",
    )
    EMPTY_BOOT = "empty_boot", Row(
        runbook="Not one kernel line of the running boot can be seen: blindness, not quiet.",
        look_at="`journalctl -k` there.",
        severity=Severity.WARN, fact="host_answers",
    )
    STALE = "stale", Row(
        runbook="Nothing writes the journal, not even the record of our own login: new kernel lines are not seen.",
        look_at="`systemctl status systemd-journald` and `df /var/log/journal` there.",
        severity=Severity.WARN, fact="host_answers",
    )
    GAP = "gap", Row(
        runbook="Lines were lost before they could be read.",
        look_at="`dmesg` there, and what floods its log.",
        severity=Severity.WARN, fact="host_answers",
    )
    CORRUPT = "corrupt", Row(
        runbook="The journal is damaged.",
        look_at="`sudo journalctl --verify` there; a failing disk.",
        severity=Severity.WARN, fact="host_answers",
    )
    BEHIND = "behind", Row(
        runbook="There is more log than can be read in the interval.",
        look_at="What floods the log.",
        severity=Severity.WARN, fact="host_answers",
    )
    RESTARTED = "restarted", Row(
        runbook="The machine restarted while it was read.",
        look_at="The `host.rebooted` alert beside it.",
        severity=Severity.WARN, fact="host_answers",
    )
    SILENT_STREAM = "silent_stream", Row(
        runbook="The live stream is open and does not bring what the scan finds.",
        look_at="`systemctl restart systemd-journald`.",
        severity=Severity.WARN,
    )
    FLOOD = "flood", Row(
        runbook="It sends far more than kernel lines make: a storm of them, or something else writes there. The live "
        "stream rests for a minute at a time, so that no other check is late; the scans read on.",
        look_at="`journalctl -k -f` there; what its login prints.",
        severity=Severity.WARN,
    )
    LOCAL = "local", Row(
        runbook="This machine is out of file descriptors or memory.",
        look_at="Its limits, and what uses them up.",
        severity=Severity.WARN,
    )
    LOW_MEMORY = "low_memory", Row(
        runbook="Less memory is available than `memory_available_min`, or than 4 GiB where the GPU shares it (GB10, "
        "Jetson).",
        look_at="What grew: `ps --sort=-rss`.",
        severity=Severity.WARN, fact="host_answers",
    )


class OwnReason(_Reason):
    """Reasons of the watchdog itself, and of what it could not see."""

    OK = "ok", Row(
        runbook="Everything works again.",
        verdict=Verdict.PASS, severity=Severity.INFO,
    )
    BLIND = "blind", Row(
        runbook="Our own network is down: nothing can be said about the target.",
        verdict=Verdict.UNKNOWN,
    )
    CLOCK_JUMP = "clock_jump", Row(
        runbook="This machine slept, or its clock was set: the run proves nothing.",
        verdict=Verdict.UNKNOWN,
    )
    SHUTDOWN = "shutdown", Row(
        runbook="The watchdog was stopping: the run proves nothing.",
        verdict=Verdict.UNKNOWN, blind=False,
    )
    BUG = "bug", Row(
        runbook="A check of ours ran into a bug.",
        severity=Severity.WARN,
    )
    FAILED = "failed", Row(
        runbook="The daemon could not start, or ended again and again.",
        severity=Severity.WARN,
    )


# fmt: on

PASSING = frozenset(reason for reason in ServerReason if reason.row.verdict is Verdict.PASS)
"""Only generated text makes a probe pass (design §2, invariant 1)."""
UNANSWERED = frozenset(reason for reason in ServerReason if reason.row.unanswered)
