"""Where tests keep files that need not reach a disk: in memory, if the system has some to spare."""

from __future__ import annotations

import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 1 << 30  # bytes; containers often have 64 MiB, and tests of full disks write much


def folder_in_memory() -> Path | None:
    """For ``dir`` of ``tempfile``; None, which is the usual place, where memory is short or no folder.

    A disk that stalls for 20 s says nothing about a unit, and stores and logs sync at each commit. What
    reaches a disk, and when, is the claim of tests/faults alone.
    """
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH:
        return _MEMORY
    return None
