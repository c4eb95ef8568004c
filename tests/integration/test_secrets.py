"""Secrets planted everywhere a target or a service could repeat them: none comes out, not even into the database."""

from __future__ import annotations

import logging
import tempfile
from datetime import UTC
from pathlib import Path

import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.alerting_path import configuration, line_seen, observed, receiver
from tests.support.clock import ManualClock
from tests.support.receivers import RecordingReceiver
from watchdog.config import Secret
from watchdog.ingest import Ingest
from watchdog.message import finish
from watchdog.message.redaction import Redactor
from watchdog.model import CheckResult, Evidence, Verdict
from watchdog.policy import AlertPlan
from watchdog.store import Store

SECRETS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=7, max_size=20).map("Zq7".__add__)
"""Texts that stand nowhere else, as a real secret does."""


async def deliver_all(store: Store, clock: ManualClock, sink: RecordingReceiver) -> None:
    """Send whatever waits for `sink`."""
    while (delivery := (await store.lease(sink.name, clock.wall(), 1e9)).delivery) is not None:
        outcome = await sink.send(delivery, finish(delivery, now=clock.wall(), zone=UTC), clock.wall())
        await store.acknowledge(delivery, outcome, clock.wall(), retry_now=False)


@settings(max_examples=60, deadline=None)
@given(key=SECRETS, token=SECRETS, password=SECRETS)
async def test_no_secret_of_the_configuration_is_in_an_alert_or_in_the_database(
    key: str, token: str, password: str
) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    config = configuration(receiver("phone", url=Secret(f"jsons://me:{password}@192.0.2.1/{token}")))
    hide = Redactor([*config.secrets, Secret(key)], known_words=["phone", "deepseek", "head", "worker"])
    clock, sink = ManualClock(), RecordingReceiver("phone")
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder), clock.wall(), linger_s=0.0)
        ingest = Ingest(store, AlertPlan.from_config(config), clock, redactor=hide, zone=UTC)
        leak = f"401 for Bearer {key}: see https://192.0.2.1/{token}?p={password}\x1b[0m"
        facts = (Evidence(clock.wall(), "reply", leak), Evidence(None, "header", f"authorization={key}"))
        for _ in range(3):
            seen = observed(Verdict.FAIL, summary=f"deepseek: {leak}", advice=leak, evidence=facts)
            await ingest.take("check", CheckResult((seen,)))
        await ingest.take("check", CheckResult((line_seen(summary=f"worker: {leak}", evidence=facts),)))
        await deliver_all(store, clock, sink)
        for _ in range(2):
            await ingest.take("check", CheckResult((observed(Verdict.PASS, summary=leak),)))
        await deliver_all(store, clock, sink)
        snapshot = repr(await store.read_in_turn(lambda reader: reader.snapshot(clock.wall()))) + repr(
            ingest.open_incidents
        )
        await store.close()
        raw = b"".join(file.read_bytes() for file in Path(folder).iterdir())
    structlog.reset_defaults()
    assert sink.kinds == ["FIRING", "NEW", "RESOLVED"]
    shown = snapshot + repr(sink.accepted) + repr(config) + repr(hide)
    for secret in (key, token, password):
        assert secret not in shown
        assert secret.encode() not in raw
