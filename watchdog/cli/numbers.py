"""Numbers on the command line."""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A number within bounds. `nan` and `inf` are none: no comparison ever stops them, so they would wait for good."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the float. Raises BadParameter."""
        try:
            finite = math.isfinite(float(value))
        except ValueError:
            finite = True  # no number at all: click says so
        if not finite:
            self.fail(f"{value} is no finite number.", param, ctx)
        return super().convert(value, param, ctx)
