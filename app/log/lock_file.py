"""Files of the log and the store: readable by their user alone, and locked by one process.

A lock file has the id of its process in it. The lock goes with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from pathlib import Path

DIGITS = 20
FILE, FOLDER = 0o600, 0o700
BESIDE = ("", "-wal", "-shm", "-journal")  # what SQLite adds to the name of a database
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Held(Exception):
    """Another process has it. ``holder``: in words, ``cure``: how to end it."""

    def __init__(self, pid: str) -> None:
        self.holder = f"process {pid}" if pid else "another process"
        self.cure = (
            f"stop process {pid} (Ctrl+C where it runs, or kill {pid})" if pid else "stop it"
        )
        super().__init__(self.holder)


def keep_private(file: Path, log: logging.Logger) -> None:
    """Make the database file and its folder where they are missing; take the rights of other users from the files that
    are there, those of SQLite beside it too. A folder that is there may belong to another program, and keeps its mode.

    Raises:
        OSError: the file or its folder cannot be made.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER)
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE))
    except FileExistsError:  # not opened: closing it would give up the locks of SQLite on it
        for suffix in BESIDE:
            _take_rights(file.with_name(f"{file.name}{suffix}"), log)


def _take_rights(file: Path, log: logging.Logger) -> None:
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        if not mode & _OTHERS:
            return
        file.chmod(mode & ~_OTHERS)
    except FileNotFoundError:
        return
    except PermissionError as error:
        log.warning(
            "%s is readable by other users, and its permissions cannot be changed: %s. "
            "Cure: let its owner run chmod 600.",
            file, error.strerror,
        )  # fmt: skip
        return
    log.warning("%s was readable by other users: its permissions are %o now", file, FILE)


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
