"""The kinds of checks. A check looks at a target and returns observations; it never alerts.

To add one: a module here with `build(config, clock, chat)`, and its name in `CHECK_TYPES`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from watchdog.clock import Clock
from watchdog.config import Config
from watchdog.model import Check

if TYPE_CHECKING:
    from watchdog.chat import ChatClient

CHECK_TYPES = ("generation", "kernel_log", "vitals")
"""Modules of this package, in the order in which their checks first start."""


def build_checks(config: Config, clock: Clock, chat: ChatClient) -> tuple[Check, ...]:
    """Every check that `config` asks for. A kind that it does not ask for is not even imported where that costs."""
    wanted = {"generation": config.servers, "kernel_log": config.hosts, "vitals": config.hosts}
    checks: list[Check] = []
    for name in CHECK_TYPES:
        if wanted.get(name, True):
            checks += import_module(f"watchdog.checks.{name}").build(config, clock, chat)
    return tuple(checks)
