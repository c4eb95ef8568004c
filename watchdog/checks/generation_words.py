"""What a generation verdict says to a person: what happened, and what to look at next."""

from __future__ import annotations

from watchdog.completion.judgement import Judgement, one_line
from watchdog.completion.reason import Reason
from watchdog.engines.movement import Change, Movement
from watchdog.engines.sample import EngineSample

_SAYINGS = {
    Reason.GARBAGE: "alive, but the text is nonsense",
    Reason.INSTANT_STOP: "the model stops at once, without any text",
    Reason.EMPTY: "the reply ended without any text",
    Reason.STALLED: "text began, then nothing more came",
    Reason.TRUNCATED: "the stream was closed in the middle of the text",
    Reason.LOADING: "the server is loading its model",
    Reason.BUSY: "the server is busy",
    Reason.AUTH: "configuration: the server refuses our key",
    Reason.UNKNOWN_MODEL: "configuration: the server does not serve this model",
    Reason.BAD_REQUEST: "configuration: the server rejects our request",
    Reason.NOT_FOUND: "configuration: nothing answers chat completions at this address",
    Reason.ENGINE_DEAD: "the engine behind the server has died",
    Reason.SERVER_ERROR: "the server answers with an error",
    Reason.UPSTREAM_DOWN: "the proxy answers, the server behind it does not",
    Reason.GATEWAY_TIMEOUT: "the proxy gave up waiting for the server behind it",
    Reason.MALFORMED: "what came back is no chat completion",
    Reason.REFUSED: "connection refused: the server is not running, or still starting",
    Reason.UNREACHABLE: "the machine cannot be reached",
    Reason.DNS: "the server's name does not resolve",
    Reason.TLS: "no secure connection could be made",
    Reason.RESET: "the connection was closed before any reply",
    Reason.ASLEEP: "no model is loaded, so it was not woken",
}
_ADVICE = {
    Reason.GARBAGE: "Look for NaN in the server's log; restart it or load the weights anew if it persists.",
    Reason.INSTANT_STOP: "Ask the server by hand; check the chat template and the stop tokens.",
    Reason.EMPTY: "Ask the server by hand; tokens without text often mean broken weights or a broken parser.",
    Reason.NO_REPLY: "Look at the server's log and at the GPU: utilisation near 100 % at idle power is a hang.",
    Reason.NO_TOKEN: "Look at the server's log and at the GPU: utilisation near 100 % at idle power is a hang.",
    Reason.STALLED: "Look at the server's log and at the GPU: utilisation near 100 % at idle power is a hang.",
    Reason.TRUNCATED: "Look at the server's log for a crash; a proxy in between may cut long answers.",
    Reason.LOADING: "Wait; if it does not end, look at the server's log.",
    Reason.BUSY: "Users wait: look at the queue, add slots or a longer probe timeout.",
    Reason.AUTH: "Set api_key of this server, or give the key back its access.",
    Reason.UNKNOWN_MODEL: "Set model to a name that /v1/models lists.",
    Reason.BAD_REQUEST: "Read the server's words; adjust max_tokens or extra_body of this server.",
    Reason.NOT_FOUND: "Check base_url: it must end where /chat/completions follows, usually in /v1.",
    Reason.ENGINE_DEAD: "Restart the server; its log names the cause.",
    Reason.SERVER_ERROR: "Look at the server's log.",
    Reason.UPSTREAM_DOWN: "Look at the server behind the proxy.",
    Reason.GATEWAY_TIMEOUT: "Look at the server behind the proxy; it may hang or be busy.",
    Reason.MALFORMED: "Check base_url: another program may listen there.",
    Reason.REFUSED: "See whether the server runs and which port it has.",
    Reason.UNREACHABLE: "See whether the machine is up and on the network.",
    Reason.DNS: "Check the name in base_url and the name server.",
    Reason.TLS: "Check the certificate, ca_file, and that the port speaks TLS.",
    Reason.RESET: "Look at the server's log; a proxy in between may have closed it.",
}


def advice_for(reason: Reason) -> str:
    """What to look at next; "" where nothing needs doing."""
    return _ADVICE.get(reason, "")


def saying_of(judgement: Judgement, timeout_s: float) -> str:
    """One sentence for what one exchange came to."""
    if judgement.reason is Reason.OK:
        first = "" if judgement.ttft_s is None else f", the first after {judgement.ttft_s:.2f} s"
        return f"text in {judgement.duration_s:.2f} s{first}"
    if judgement.reason is Reason.GARBAGE:
        return f"{_SAYINGS[Reason.GARBAGE]}: {one_line(judgement.text or judgement.reasoning, 40)}"
    if judgement.reason is Reason.NO_REPLY:
        return f"no reply within {timeout_s:g} s"
    if judgement.reason is Reason.NO_TOKEN:
        ended = f"within {timeout_s:g} s" if judgement.alive is None else "before it was closed"
        return f"the reply opened, but not one token came {ended}"
    return _SAYINGS[judgement.reason]


def movement_words(change: Change, after: EngineSample | None, window_s: float) -> str:
    """What the engine's counters say about an unanswered probe; "" if nothing was seen of the engine."""
    queue = _queue(after)
    if change.movement is Movement.BUSY:
        rise = change.after - change.before
        return f"busy, alive: {change.counter} rose by {rise:g} in {window_s:.0f} s; {queue}"
    if change.movement is Movement.FROZEN:
        return f"hung: {queue}, and {change.counter} stood still at {change.after:g} for {window_s:.0f} s"
    if change.movement is Movement.LOST:
        return "hung: our request waits, but the engine counts no request"
    if change.movement is Movement.RESET:
        return f"the engine restarted during the probe; {queue}"
    if change.movement is Movement.PARTIAL:
        names = ", ".join(one_line(name, 30) for name in change.stuck)
        return f"partly hung: replica {names} stands still while others work; {queue}"
    return ""


def _queue(sample: EngineSample | None) -> str:
    if sample is None or (sample.running is None and sample.waiting is None):
        return "no queue figures"
    running = "?" if sample.running is None else f"{sample.running:g}"
    waiting = "?" if sample.waiting is None else f"{sample.waiting:g}"
    return f"{running} running, {waiting} waiting"
