"""Folders of the unit tests: in memory, where the system has some to spare."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

MEMORY = Path("/dev/shm")
ENOUGH = 1 << 30
"""Bytes: less may be the 64 MiB that containers have, and tests of full disks write much."""


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A disk that stalls for 20 s says nothing about a unit, and stores and logs sync at each commit.
    What reaches a disk, and when, is the claim of tests/faults alone.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ENOUGH:
        yield tmp_path_factory.mktemp(name)
        return
    with TemporaryDirectory(prefix=f"{name}-", dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
