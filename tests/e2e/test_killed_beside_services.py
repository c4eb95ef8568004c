"""The daemon, killed at every turn of a night, beside fakes of on-call and push services."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.daemon_process import DaemonProcess, until
from tests.support.services import EVENTS, URLS, FakeServices
from watchdog.demo.rig import ChatServer, Mode

pytestmark = pytest.mark.slow
SERVICES = ("pagerduty", "opsgenie", "ilert", "squadcast", "signl4", "splunk", "gotify", "ntfy")
PROBE = "{interval: 1s, timeout: 0.8s, failures: 2, successes: 1}"


@pytest.mark.timeout(240)
async def test_an_incident_is_opened_once_and_closed_once_though_the_daemon_is_killed_at_every_turn(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        fakes = {name: await stack.enter_async_context(FakeServices(name)) for name in SERVICES}
        chat = ChatServer()
        await chat.start()
        stack.push_async_callback(chat.stop)
        path = tmp_path / "config.yaml"
        rows = "".join(f"  - {{name: {name}, url: '{URLS[name]}', timeout: 10s}}\n" for name in SERVICES)
        path.write_text(
            f"servers:\n  - {{name: deepseek, base_url: '{chat.base_url}', probe: {PROBE}}}\n"
            f"receivers:\n{rows}alerting: {{flap_failures: 10}}\n"
        )
        path.chmod(0o600)
        ports = json.dumps({name: fake.port for name, fake in fakes.items()})
        kept = {"RUNTIME_DIRECTORY": str(tmp_path)}  # as under our unit, where these kills are counted, not told
        program = ("tests.support.daemon_beside_fakes", ports)
        daemon = DaemonProcess(path, tmp_path / "state", tmp_path / "daemon.log", kept, program=program)
        stack.push_async_callback(daemon.kill)

        async def all_have(messages: int, what: str) -> None:
            await until(lambda: all(len(fake.requests) >= messages for fake in fakes.values()), 90, what)

        await daemon.start()
        await until(lambda: daemon.saw("observation", check="generation/deepseek", verdict="pass"), 60, "a pass")
        for night in range(2):
            chat.mode = Mode.ERROR
            await until(lambda: any(len(f.requests) > 2 * night for f in fakes.values()), 60, "the first page")  # noqa: B023
            await daemon.kill()  # some services have it, some do not, for some only the note of it is missing
            await daemon.start()
            await all_have(2 * night + 1, "the page everywhere")
            chat.mode = Mode.OK
            await until(lambda: any(len(f.requests) > 2 * night + 1 for f in fakes.values()), 60, "the first end")  # noqa: B023
            await daemon.kill()
            await daemon.start()
            await until(lambda: all(not fake.open_now for fake in fakes.values()), 90, "every end")
            await all_have(2 * night + 2, "the end everywhere")
    for name, fake in fakes.items():
        assert fake.refused == 0, name
        if name in EVENTS:
            assert fake.keyless == 0, name
            assert len(fake.opened) == len(set(fake.opened)) == 2, (name, fake.opened)
            assert sorted(fake.closed) == sorted(fake.opened), name
