"""axe-core, as npm has it, for accessibility audits in a browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Tab

AXE = Path(__file__).parents[2] / ".lab" / "axe" / "node_modules" / "axe-core" / "axe.min.js"


def axe() -> str:
    """The source of axe-core; without it the test is skipped, or fails in CI."""
    if not AXE.exists():
        how = "npm install --prefix .lab/axe --no-package-lock ./tests/support/axe (see .ci/run)"
        if os.environ.get("CI") == "true":
            pytest.fail(f"axe-core is not installed: {how}")
        pytest.skip(f"axe-core is not installed: {how}: NOT TESTED")
    return AXE.read_text(encoding="utf-8")


async def violations(tab: Tab) -> list[dict[str, Any]]:
    """What axe finds wrong with the page in `tab`: id, impact, and the elements, best practices included."""
    await tab.run(axe() + "; true")
    found: list[dict[str, Any]] = await tab.run(
        "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map("
        "v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200))})))"
    )
    return found
