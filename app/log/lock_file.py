"""A file that one process holds locked, with its id in it. The lock goes with the process, however that ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

DIGITS = 20


class Held(Exception):
    """Another process has it. ``holder``: in words, ``cure``: how to end it."""

    def __init__(self, pid: str) -> None:
        self.holder = f"process {pid}" if pid else "another process"
        self.cure = (
            f"stop process {pid} (Ctrl+C where it runs, or kill {pid})" if pid else "stop it"
        )
        super().__init__(self.holder)


def take_lock(file: Path) -> int:
    """The descriptor, whose closing is the release. Raises Held, OSError when no file can be made."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        pid = os.pread(descriptor, DIGITS, 0).decode("ascii", "replace")
        os.close(descriptor)
        raise Held(pid if pid.isdigit() else "") from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
