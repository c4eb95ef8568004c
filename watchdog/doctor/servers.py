"""Servers: do they give text, and do key and model fit."""

from __future__ import annotations

from watchdog.chat import ChatClient
from watchdog.checks import server_examination
from watchdog.completion.judgement import one_line
from watchdog.completion.reason import Reason
from watchdog.config import ServerSettings
from watchdog.doctor.finding import Finding, Grade
from watchdog.errors import WatchdogError
from watchdog.model import Severity, Verdict


async def examine_server(server: ServerSettings, chat: ChatClient, now: float) -> Finding:
    """Probe `server` once, as the daemon does."""
    try:
        offer = await server_examination.offer_of(server, chat)
        outcome = await server_examination.probe(server, chat, now)
    except WatchdogError as error:  # an address or a CA file that cannot be used
        return Finding(
            area="server",
            name=server.name,
            grade=Grade.FAIL,
            words=str(error),
            fix="Correct that setting.",
            reason="config",
        )
    summary = outcome.summary(server.probe.timeout_s)
    if outcome.reason is Reason.ASLEEP and not offer.lacks(server.model):
        return Finding(
            area="server",
            name=server.name,
            grade=Grade.PASS,
            words=f"cannot see: {summary}; a probe would load it, so none was sent",
            reason=outcome.reason.value,
            seen=False,
        )
    if outcome.verdict is Verdict.PASS and outcome.reason is Reason.OK:
        engine = f" ({offer.engine})" if offer.engine else ""
        thinking = "; all of it thinking, which counts as alive" if server_examination.thought_only(outcome) else ""
        model = one_line(outcome.model or "the server's own", 80)
        return Finding(
            area="server", name=server.name, grade=Grade.PASS, words=f"{summary}; model {model}{engine}{thinking}"
        )
    return Finding(
        area="server",
        name=server.name,
        grade=Grade.WARN if outcome.severity is Severity.WARN else Grade.FAIL,
        words=summary,
        fix=server_examination.fix_for(server, outcome, offer.models),
        reason=outcome.reason.value,
    )
