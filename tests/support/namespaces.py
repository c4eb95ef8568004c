"""Two network namespaces and a cable between them. Needs root and iproute2."""

from __future__ import annotations

import os
import subprocess


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
