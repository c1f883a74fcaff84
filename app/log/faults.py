"""What an error of SQLite means for the log."""

from __future__ import annotations

from typing import Literal

import apsw

Verdict = Literal["broken", "full", "busy", "row"]

_BROKEN = (
    apsw.IOError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.ConnectionClosedError,
)
_SHM_FULL = frozenset({apsw.SQLITE_IOERR_SHMSIZE, apsw.SQLITE_IOERR_SHMMAP})


def judge(error: apsw.Error) -> Verdict:
    """``broken``: the disk did not do what it said, or the file is damaged. Never tried again: after
    a failed fsync the kernel may have dropped the pages, and a second fsync would report success.
    ``full``: no room; everything before is intact, and it may be tried when room returns.
    ``busy``: somebody else holds the file for now. ``row``: this row will not go in.
    """
    if isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) in _SHM_FULL:
        return "full"
    if isinstance(error, _BROKEN):
        return "broken"
    if isinstance(error, apsw.BusyError | apsw.LockedError | apsw.NoMemError):
        return "busy"
    return "row"
