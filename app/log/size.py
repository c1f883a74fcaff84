"""How much room the log takes, and when the write-ahead log is folded back into the file."""

from __future__ import annotations

import os

import apsw

from app.log.settings import EngineSettings

# With less of a volume free it is full, so that settling and retention have room to go on.
FREE_PART, FREE_BYTES = 0.05, 1 << 30
SMALL_PART = (
    0.1  # of a volume: enough where a GiB would be more; the alert of a filling disk comes before
)
HARD = 16  # times the size at which folding is due: then it waits for readers to end their page


def reserve(size: int) -> int:
    """Bytes of a volume of ``size`` that events may not take."""
    return round(max(size * FREE_PART, min(FREE_BYTES, size * SMALL_PART)))


class Space:
    """Used by the writer thread only: it alone checkpoints."""

    def __init__(self, db: apsw.Connection, settings: EngineSettings) -> None:
        self._db = db
        self._settings = settings
        self._page = int(db.pragma("page_size"))
        self._wal = 0  # frames
        self._folded = 0  # of them, how many are in the file too
        db.set_wal_hook(self._on_commit)

    @property
    def unfolded(self) -> bool:
        return self._wal > self._folded

    @property
    def used(self) -> int:
        """Bytes of the pages in use and of the write-ahead log. Freed pages count as room."""
        pages = int(self._db.pragma("page_count")) - int(self._db.pragma("freelist_count"))
        return (pages + self._wal) * self._page

    def full(self) -> str:
        """Why nothing more may be stored; empty when there is room."""
        bound = self._settings.max_bytes
        if bound and self.used >= bound:
            self.fold()
            if self.used >= bound:
                return (
                    f"the log is full: {self.used} of {bound} bytes; "
                    "retention or a higher max_bytes makes room"
                )
        return self._disk_full()

    def _disk_full(self) -> str:
        folder = self._settings.path
        try:
            disk = os.statvfs(folder)
        except OSError as error:  # the folder is gone: no room either
            return f"no room on the disk of {folder}: {error.strerror}"
        free, kept = disk.f_bavail * disk.f_frsize, reserve(disk.f_blocks * disk.f_frsize)
        if free >= kept:
            return ""
        return (
            f"no room on the disk of {folder}: {free} bytes are free, and {kept} are reserved for settling and "
            "retention; use a larger volume, or remove other data"
        )

    def checkpoint_when_due(self) -> None:
        """Folding now and then, many pages at a time: it keeps few senders waiting."""
        due = self._settings.wal_bytes // self._page
        if self._wal >= HARD * due:
            self._checkpoint(apsw.SQLITE_CHECKPOINT_RESTART)
        elif self._wal - self._folded >= due:
            self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)

    def fold(self) -> None:
        """Everything, and give the write-ahead log's room back. For idle moments."""
        if self._wal:
            self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _checkpoint(self, mode: int) -> None:
        try:
            self._wal, self._folded = self._db.wal_checkpoint(mode=mode)
        except apsw.BusyError:  # a reader is on a page: next time
            self._folded = self._wal

    def _on_commit(self, _db: apsw.Connection, _name: str, frames: int) -> int:
        if frames < self._wal:
            self._folded = 0
        self._wal = frames
        return apsw.SQLITE_OK
