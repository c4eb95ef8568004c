"""Our own network lost for real: two network namespaces, a cable between them that is pulled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.journal_files import require
from tests.support.namespaces import CableBetweenNamespaces, ip

ROOT = Path(__file__).parents[2]
ROUTER, WATCHDOG, SERVER = "10.213.7.1", "10.213.7.2", "10.213.7.10"

pytestmark = [pytest.mark.real, pytest.mark.timeout(90)]


class Cable(CableBetweenNamespaces):
    """With a router and a server on the other side, and a child of ours on this one."""

    def __init__(self) -> None:
        super().__init__("iwr", WATCHDOG, ROUTER, SERVER)
        ip("-n", self.here, "route", "add", "default", "via", ROUTER)
        program = [sys.executable, "-m", "tests.support.own_network_process", SERVER, "8000"]
        self.child = subprocess.Popen(
            ["ip", "netns", "exec", self.here, *program],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, word: str) -> list[str]:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(f"{word}\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().split(maxsplit=2)

    def close(self) -> None:
        self.child.kill()
        self.child.communicate()
        super().close()


@pytest.fixture
def cable() -> Iterator[Cable]:
    require("ip", packages="iproute2")
    made = Cable()
    yield made
    made.close()


def test_a_pulled_cable_is_our_own_trouble_and_a_dead_server_is_not(cable: Cable) -> None:
    assert cable.ask("survey") == ["new"]
    reason, took, *_ = cable.ask("judge")
    assert reason == "unreachable", "somebody answers, so the road stands"
    assert float(took) < 1.0

    ip("-n", cable.there, "addr", "del", f"{SERVER}/24", "dev", "cable")
    reason, took, *_ = cable.ask("judge")
    assert reason == "unreachable", "the server is gone, the router answers: a real outage"
    assert float(took) < 1.0

    ip("-n", cable.there, "link", "set", "cable", "down")
    reason, _, why = cable.ask("judge")
    assert reason == "blind"
    assert "link of cable is down" in why, "our own kernel says so"

    ip("-n", cable.there, "link", "set", "cable", "up")
    answers = [cable.ask("judge")[0] for _ in range(4)]  # neighbours are found anew, which takes a moment
    assert answers[-1] == "unreachable"

    ip("-n", cable.here, "link", "set", "cable", "down")
    reason, _, why = cable.ask("judge")
    assert reason == "blind"
    assert "no route to any target" in why


def test_a_router_that_is_silent_while_a_target_answers_excuses_nothing(cable: Cable) -> None:
    ip("-n", cable.there, "addr", "flush", "dev", "cable")
    ip("-n", cable.there, "addr", "add", "10.213.7.250/24", "dev", "cable")
    ip("-n", cable.there, "addr", "add", f"{SERVER}/24", "dev", "cable")
    assert cable.ask("survey") == ["new"], "silent, as is noted"
    ip("-n", cable.there, "addr", "del", f"{SERVER}/24", "dev", "cable")
    assert cable.ask("judge")[0] == "unreachable"
