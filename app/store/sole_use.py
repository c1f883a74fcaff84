"""One process with workers a file: SQLite tells two of them apart no better than one.

The lock is a file beside the store, so that a backup, or a look with another program, meets nothing. It
goes with its process, however that ends.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from app.errors import SetupError
from app.store.private import keep_private


class SoleUse:
    """``take`` until ``release``."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._file = store.with_name(f"{store.name}.lock")
        self._handle: IO[bytes] | None = None

    @property
    def begun(self) -> bool:
        """Whether any process ever asked."""
        return self._file.exists()

    def take(self) -> None:
        """Its folder is there. Raises SetupError when another process has it, OSError when no file can
        be made."""
        keep_private(self._file)
        handle = self._file.open("ab")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            raise SetupError(
                f"another process that runs workers uses {self._store}",
                setting="store.path",
                cure="stop that one, or let all of them share store: {kind: postgresql, dsn: ...}",
            ) from None
        self._handle = handle

    def release(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None
