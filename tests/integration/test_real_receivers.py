"""Against the real Alertmanager and the real mosquitto of Debian, started here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.test_notify import NOW, delivery, text_of
from tests.support.alerting_path import KEY
from tests.support.receivers import WebhookSink
from tests.support.system_programs import free_port, listening, program
from watchdog.config import ReceiverSettings, Secret
from watchdog.message import finish
from watchdog.model import Cause, Delivery, Incident, IncidentStatus, Nature, NotificationKind, Severity
from watchdog.notify import AlertmanagerReceiver, build

pytestmark = pytest.mark.real


@asynccontextmanager
async def alertmanager(tmp_path: Path, hook: str) -> AsyncIterator[str]:
    path = program("prometheus-alertmanager")
    port = free_port()
    config = tmp_path / "alertmanager.yml"
    config.write_text(
        "route: {receiver: hook, group_by: [alertname, check, severity], group_wait: 0s, group_interval: 1s}\n"
        f"receivers: [{{name: hook, webhook_configs: [{{url: '{hook}', send_resolved: true}}]}}]\n"
    )
    command = (
        path,
        f"--config.file={config}",
        f"--storage.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    )
    async with listening(port, *command):
        yield f"http://127.0.0.1:{port}"


def incident(**changes: Any) -> Incident:
    now = time.time()
    values: dict[str, Any] = {
        "id": "6f39e044",
        "key": KEY,
        "nature": Nature.CONDITION,
        "cause": Cause.STRIKES,
        "severity": Severity.PAGE,
        "opened_severity": Severity.PAGE,
        "reason": "no_token",
        "summary": "deepseek: no text",
        "since": now - 360,
        "opened_at": now,
        "last_at": now,
        "labels": {"server": "deepseek", "host": "head"},
    }
    return Incident(**{**values, **changes})


async def send(receiver: AlertmanagerReceiver, about: Incident, kind: NotificationKind, **changes: Any) -> Delivery:
    now = time.time()
    sent = delivery(kind=kind, incident=about, severity=about.severity, created_at=now, **changes)
    outcome = await receiver.send(sent, finish(sent, now=now, zone=UTC), now)
    assert outcome.delivered, outcome
    return sent


async def alerts(base: str) -> list[dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.get(base + "/api/v2/alerts") as reply:
        found: list[dict[str, Any]] = await reply.json()
        return found


def receiver_at(*bases: str) -> AlertmanagerReceiver:
    made = build(ReceiverSettings(name="am", alertmanager=tuple(Secret(base) for base in bases), timeout_s=5.0))
    assert isinstance(made, AlertmanagerReceiver)
    return made


async def test_alertmanager_fires_and_resolves_with_our_labels(tmp_path: Path) -> None:
    async with WebhookSink() as hook, alertmanager(tmp_path, hook.url("http")) as base:
        receiver = receiver_at(base)
        about = incident()
        await send(receiver, about, NotificationKind.FIRING)
        (alert,) = await alerts(base)
        assert alert["labels"] == {
            "alertname": "InferenceWatchdogGeneration",
            "check": KEY,
            "host": "head",
            "server": "deepseek",
            "severity": "page",
        }
        assert alert["annotations"]["incident"] == "6f39e044"
        await hook.wait_for(1)
        assert hook.arrived[0]["status"] == "firing"
        closed = incident(status=IncidentStatus.RESOLVED, closed_at=time.time())
        await send(receiver, closed, NotificationKind.RESOLVED)
        await hook.wait_for(2)
        assert hook.arrived[1]["status"] == "resolved"
        assert hook.arrived[1]["commonAnnotations"]["incident"] == "6f39e044"
        await receiver.close()


async def test_refreshing_keeps_one_alert_and_tells_nobody_again(tmp_path: Path) -> None:
    async with WebhookSink() as hook, alertmanager(tmp_path, hook.url("http")) as base:
        receiver = receiver_at(base)
        await send(receiver, incident(), NotificationKind.FIRING)
        (before,) = await alerts(base)
        await asyncio.sleep(1.1)
        assert (await receiver.refresh((incident(),), time.time())).delivered
        (after,) = await alerts(base)
        assert after["endsAt"] > before["endsAt"]
        await asyncio.sleep(1.5)
        assert len(hook.arrived) == 1
        await receiver.close()


async def test_two_watchdogs_that_see_the_same_trouble_make_one_alert_and_one_page(tmp_path: Path) -> None:
    async with WebhookSink() as hook, alertmanager(tmp_path, hook.url("http")) as base:
        mac, spare = receiver_at(base), receiver_at(base)
        await send(mac, incident(id="6f39e044"), NotificationKind.FIRING)
        await send(spare, incident(id="6f39e0zz", since=time.time() - 350), NotificationKind.FIRING)
        assert len(await alerts(base)) == 1
        await asyncio.sleep(2.5)
        assert [sent["status"] for sent in hook.arrived] == ["firing"]
        for receiver, name in ((mac, "6f39e044"), (spare, "6f39e0zz")):
            closed = incident(id=name, status=IncidentStatus.RESOLVED, closed_at=time.time())
            await send(receiver, closed, NotificationKind.RESOLVED)
        await hook.wait_for(2)
        await asyncio.sleep(2.5)
        assert [sent["status"] for sent in hook.arrived] == ["firing", "resolved"]
        await mac.close()
        await spare.close()


async def test_a_raised_alert_replaces_the_one_of_lower_severity(tmp_path: Path) -> None:
    async with WebhookSink() as hook, alertmanager(tmp_path, hook.url("http")) as base:
        receiver = receiver_at(base)
        await send(receiver, incident(severity=Severity.WARN, opened_severity=Severity.WARN), NotificationKind.FIRING)
        await send(receiver, incident(opened_severity=Severity.WARN), NotificationKind.FIRING)
        assert [alert["labels"]["severity"] for alert in await alerts(base)] == ["page"]
        await receiver.close()


async def test_one_of_two_addresses_is_enough_and_none_is_a_failed_attempt(tmp_path: Path) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    async with WebhookSink() as hook, alertmanager(tmp_path, hook.url("http")) as base:
        receiver = receiver_at(dead, base)
        await send(receiver, incident(), NotificationKind.FIRING)
        await receiver.close()
    nobody = receiver_at(dead)
    sent = delivery(incident=incident())
    assert not (await nobody.send(sent, text_of(sent), NOW)).delivered
    await nobody.close()


async def test_mosquitto_gets_the_message_over_mqtt(tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    async with listening(port, program("mosquitto"), "-c", str(config)):
        import paho.mqtt.client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        heard: list[str] = []
        subscribed = asyncio.Event()
        loop = asyncio.get_running_loop()
        client = mqtt.Client(CallbackAPIVersion.VERSION2)
        client.on_message = lambda _client, _data, message: heard.append(message.payload.decode())

        def on_subscribe(*_arguments: object) -> None:
            loop.call_soon_threadsafe(subscribed.set)

        client.on_subscribe = on_subscribe
        client.connect("127.0.0.1", port)
        client.subscribe("alerts", qos=1)
        client.loop_start()
        try:
            await asyncio.wait_for(subscribed.wait(), 10)
            receiver = build(ReceiverSettings(name="mqtt", url=Secret(f"mqtt://127.0.0.1:{port}/alerts?qos=1")))
            outcome = await receiver.send(delivery(), text_of(delivery()), NOW)
            assert outcome.delivered, outcome
            async with asyncio.timeout(10):
                while not heard:
                    await asyncio.sleep(0.05)
            assert "incident 6f39e044 · attempt 1" in heard[0]
        finally:
            client.loop_stop()
            client.disconnect()
