"""Two network namespaces and a cable between them. Needs root and iproute2."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class CableBetweenNamespaces:
    """The watchdog's namespace `here`, that of everybody else `there`, and the cable that can be pulled."""

    def __init__(self, tag: str, here: str, *there: str) -> None:
        """`tag` keeps the names of two tests apart; `here` and `there` are the addresses (in a /24) on either side."""
        number = os.getpid() % 100000
        self.here, self.there = f"{tag}h{number}", f"{tag}t{number}"
        ip("netns", "add", self.here)
        ip("netns", "add", self.there)
        ip("-n", self.here, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", self.there)
        ip("-n", self.here, "addr", "add", f"{here}/24", "dev", "cable")
        for address in there:
            ip("-n", self.there, "addr", "add", f"{address}/24", "dev", "cable")
        for name in (self.here, self.there):
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "cable", "up")

    def close(self) -> None:
        for name in (self.here, self.there):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """What this thread opens or starts meanwhile is in that namespace, and stays there."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as ours, Path("/run/netns", namespace).open() as theirs:
        if libc.setns(theirs.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            if libc.setns(ours.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), "setns")
