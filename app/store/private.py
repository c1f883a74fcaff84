"""Files of the store are its user's alone: they hold the data of events."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

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
            _log.warning("%s could be read by other users: its rights are %o now", file, FILE)
