"""The checks. A check looks at a target and returns observations; it never alerts.

To add a kind: a module here with `build(config, clock, chat)`, and its row in `watchdog.kinds`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from watchdog.clock import Clock
from watchdog.config import Config
from watchdog.kinds import BUILT
from watchdog.model import Check

if TYPE_CHECKING:
    from watchdog.chat import ChatClient


def build_checks(config: Config, clock: Clock, chat: ChatClient) -> tuple[Check, ...]:
    """Every check that `config` asks for. A kind that it does not ask for is not even imported where that costs."""
    checks: list[Check] = []
    for kind in BUILT:
        if kind.targets(config):
            checks += import_module(f"watchdog.checks.{kind.module}").build(config, clock, chat)
    return tuple(checks)
