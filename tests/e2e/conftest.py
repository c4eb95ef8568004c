"""What several end-to-end modules share: packages take most of a minute to build, so they are built once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.packages import Packages, build, require_packaging, snapshot


@pytest.fixture(scope="session")
def checkout_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout that nobody edits."""
    return snapshot(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="session")
def packages(checkout_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """The .deb and .rpm; INFERENCE_WATCHDOG_PACKAGES names a directory with ones that were built before."""
    require_packaging()
    ready = os.environ.get("INFERENCE_WATCHDOG_PACKAGES")
    if ready:
        (deb,), (rpm,) = Path(ready).glob("*.deb"), Path(ready).glob("*.rpm")
        return Packages(deb, rpm)
    return build(checkout_copy, tmp_path_factory.mktemp("packages"))
