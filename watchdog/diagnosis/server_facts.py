"""Facts about a server, drawn from its own failing probe (reasons of `generation/<server>`, design §5.1)."""

from __future__ import annotations

from watchdog.diagnosis.facts import Fact, Seen
from watchdog.diagnosis.scene import Scene
from watchdog.model import Observation, Verdict

REPEATED = 3
"""Windows in a row with a frozen counter before it is no long prefill any more (260k tokens took a GB10 550 s)."""

_ONE_FACT = {
    "refused": Fact.REFUSED,
    "unreachable": Fact.UNREACHABLE,
    "engine_dead": Fact.ENGINE_DEAD,
    "loading": Fact.LOADING,
    "upstream_down": Fact.UPSTREAM_DOWN,
    "gateway_timeout": Fact.GATEWAY_TIMEOUT,
    "auth": Fact.CONFIGURATION,
    "bad_request": Fact.CONFIGURATION,
    "not_found": Fact.CONFIGURATION,
    "unknown_model": Fact.MODEL_GONE,
    "instant_stop": Fact.NO_TEXT_MADE,
    "empty": Fact.NO_TEXT_MADE,
    "server_error": Fact.ERROR_ANSWER,
    "reset": Fact.BROKEN_OFF,
    "truncated": Fact.BROKEN_OFF,
    "malformed": Fact.NOT_CHAT,
    "dns": Fact.NAME_OR_TLS,
    "tls": Fact.NAME_OR_TLS,
    "frozen": Fact.STANDS_STILL,
}
UNANSWERED = frozenset({"no_reply", "no_token", "stalled", "gateway_timeout"})
NOT_ITS_HEALTH = frozenset(
    {"auth", "bad_request", "not_found", "unknown_model", "busy", "dns", "tls", "instant_stop", "malformed"}
)
"""Reasons that a sick machine does not cause: nothing on a host is blamed for them."""
SPOKE_HTTP = frozenset({"no_token", "stalled", "truncated"})
_COUNTERS = {
    "engine_frozen": Fact.FROZEN,
    "engine_lost": Fact.LOST,
    "engine_busy": Fact.BUSY_COUNTER,
    "engine_reset": Fact.ENGINE_RESTARTED,
    "engine_partial": Fact.PARTLY_FROZEN,
}


def server_facts(scene: Scene) -> dict[Fact, Seen]:
    """What the newest failing probe of the incident's server says; nothing without one."""
    newest = scene.newest
    if newest is None or newest.verdict is not Verdict.FAIL:
        return {}
    reason, said = newest.reason, Seen(newest.summary)
    found: dict[Fact, Seen] = {}
    if reason in _ONE_FACT:
        found[_ONE_FACT[reason]] = said
    if reason not in NOT_ITS_HEALTH and reason != "frozen":
        found[Fact.STOPPED] = said
    if reason in UNANSWERED:
        found[Fact.UNANSWERED] = said
    for name, fact in _COUNTERS.items():
        if newest.measurements.get(name):
            found[fact] = Seen(_queue(newest))
    if reason == "busy" and Fact.BUSY_COUNTER not in found:
        found[Fact.SAYS_BUSY] = said
    http = _http_up(newest)
    if http:
        found[Fact.HTTP_UP] = Seen(http)
    elif reason in {"no_reply", "unreachable"}:
        found[Fact.SILENT_API] = said
    if scene.incident.count >= REPEATED:
        found[Fact.REPEATED] = Seen(f"{scene.incident.count}")
    return found


def _http_up(newest: Observation) -> str:
    """How we know that HTTP is up, or "". An open port alone proves only the kernel."""
    if newest.measurements.get("engine_answered"):
        return "its metrics still answer"
    if newest.reason in SPOKE_HTTP or newest.measurements.get("http_status") == 200:
        return "the HTTP reply opens"
    return ""


def _queue(newest: Observation) -> str:
    """`3 running, 7 waiting`, as far as the engine told."""
    named = (("engine_running", "running"), ("engine_waiting", "waiting"))
    known = [f"{newest.measurements[key]:g} {word}" for key, word in named if key in newest.measurements]
    return ", ".join(known) or "its queue is not told"
