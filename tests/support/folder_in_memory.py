"""Choose the folder for test files that need not reach a disk. The folder is in memory if there is
enough memory."""

from __future__ import annotations

import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 1 << 30  # bytes; containers often have 64 MiB, and tests of full disks write much


def folder_in_memory() -> Path | None:
    """Return a folder in memory for ``dir`` of ``tempfile``, or None (the usual place) if memory
    is short.

    Stores and logs sync at each commit, and a disk may stall for 20 s, which no unit test is about.
    Only tests/faults claims what reaches a disk and when.
    """
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH:
        return _MEMORY
    return None
