"""Private files and lock files of the log and the store.

A lock file has the id of its process. The lock ends with the process, however that ends."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from pathlib import Path

DIGITS = 20
FILE, FOLDER = 0o600, 0o700
BESIDE = ("", "-wal", "-shm", "-journal")  # suffixes that SQLite adds to the name of a database
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class LockHeld(Exception):
    """The error for a lock that another process has. ``holder`` names the process, and ``cure`` is how to end it."""

    def __init__(self, pid: str) -> None:
        self.holder = f"process {pid}" if pid else "another process"
        self.cure = (
            f"stop process {pid} (Ctrl+C where it runs, or kill {pid})" if pid else "stop it"
        )
        super().__init__(self.holder)


def keep_private(file: Path, log: logging.Logger) -> None:
    """Create the database file and its folder if they are missing, and remove other users' rights from existing
    files.

    An existing folder keeps its mode, because it may belong to another program. The files of SQLite next to the
    database are included.

    Raises:
        OSError: the file or its folder cannot be created.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER)
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE))
    except FileExistsError:  # not opened, because closing it would release SQLite's locks on it
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
    """Lock the file and return its descriptor, whose closing releases the lock.

    Raises:
        LockHeld: another process has the lock.
        OSError: the file cannot be created.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        pid = os.pread(descriptor, DIGITS, 0).decode("ascii", "replace")
        os.close(descriptor)
        raise LockHeld(pid if pid.isdigit() else "") from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
