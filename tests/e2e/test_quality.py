"""The daemon tells of answers that are text but nonsense: after three in a row, as a warning, and when they end."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from tests.support.daemon_process import DaemonProcess, until
from tests.support.receivers import WebhookSink
from watchdog.store import Reader

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]


class Model:
    """Answers with `text`, and counts."""

    def __init__(self) -> None:
        self.text = "ok"
        self.answered: list[str] = []

    async def complete(self, _request: web.Request) -> web.Response:
        self.answered.append(self.text)
        message = {"role": "assistant", "content": self.text}
        return web.json_response({"choices": [{"message": message, "finish_reason": "length"}]})


async def test_nonsense_three_times_in_a_row_warns_and_sense_resolves_while_the_probe_passes(tmp_path: Path) -> None:
    model = Model()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", model.complete)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with WebhookSink() as phone:
        config = tmp_path / "config.yaml"
        config.write_text(
            f"""
servers:
  - name: deepseek
    base_url: http://127.0.0.1:{runner.addresses[0][1]}/v1
    model: tiny
    probe: {{interval: 1s, timeout: 900ms}}
receivers:
  - name: phone
    url: {phone.url()}
"""
        )
        daemon = DaemonProcess(config, tmp_path / "state", tmp_path / "log")
        await daemon.start()
        try:
            await until(lambda: len(model.answered) >= 2, what="no probe")
            model.text = "!!!!!"
            await until(lambda: model.answered.count("!!!!!") == 2, what="no nonsense")
            assert phone.titles == [], "two are not three"
            await until(lambda: phone.titles, what="no warning")
            assert model.answered.count("!!!!!") in (3, 4)
            assert phone.titles[0].startswith("FIRING deepseek"), phone.titles
            assert "nonsense" in phone.titles[0]
            model.text = "ok"
            await until(lambda: len(phone.titles) == 2, what="not resolved")
            assert phone.titles[1].startswith("RESOLVED deepseek"), phone.titles
        finally:
            await daemon.kill()
            await runner.cleanup()
        with Reader.open(tmp_path / "state") as reader:
            keys = {view.key: view.state for view in reader.snapshot(0.0).keys}
        assert keys["generation/deepseek"].fails == 0
        assert keys["generation/deepseek"].count == 0
