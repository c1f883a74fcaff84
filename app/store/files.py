"""The file of an SQLite store: its user's alone, for it holds the data of events, and one process with workers a
file, for SQLite tells two of them apart no better than one.

The lock is a file beside the store, so that a backup, or a look with another program, meets nothing. It
goes with its process, however that ends.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from app.errors import InUse
from app.log.lock_file import Held, take_lock

FILE, FOLDER = 0o600, 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_log = logging.getLogger("skybridge.store")


def keep_private(file: Path) -> None:
    """Make the file and its folder where they are missing; take the rights of others from a file that is there. A
    folder that is there may be somebody else's, and stays as it is. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER)
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE))
    except (
        FileExistsError
    ):  # not opened: to close it would give up the locks that SQLite holds on it
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & _OTHERS:
            file.chmod(mode & ~_OTHERS)
            _log.warning("%s was readable by other users: its permissions are %o now", file, FILE)


class SoleUse:
    """``take`` until ``release``."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._file = store.with_name(f"{store.name}.lock")
        self._descriptor: int | None = None

    @property
    def begun(self) -> bool:
        """Whether any process ever asked."""
        return self._file.exists()

    def take(self) -> None:
        """Its folder is there. Raises InUse when another process has it, OSError when no file can be
        made."""
        keep_private(self._file)
        try:
            self._descriptor = take_lock(self._file)
        except Held as held:
            raise InUse(
                f"{held.holder} runs workers on {self._store}",
                setting="store.path",
                cure=f"{held.cure}, or let all of them share store: {{kind: postgresql, dsn: ...}}",
            ) from held

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
