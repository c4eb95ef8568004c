"""How much more memory this process holds, at most, while something runs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import psutil

T = TypeVar("T")


async def growth(running: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """The result of `running`, and the most resident memory above that at its beginning, in MiB."""
    process = psutil.Process()
    before = most = process.memory_info().rss
    task = asyncio.create_task(running)
    while not task.done():
        await asyncio.wait({task}, timeout=0.05)
        most = max(most, process.memory_info().rss)
    return task.result(), (most - before) / 2**20
