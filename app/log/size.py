"""The size of the log's file, its bounds, and the checkpoints of the write-ahead log."""

from __future__ import annotations

import os

import apsw

from app.log.settings import EngineSettings

# A volume with less free space counts as full, so that commits and retention still have room.
FREE_PART, FREE_BYTES = 0.05, 1 << 30
SMALL_PART = 0.1  # share of a small volume, where a GiB would be too much
HARD = (
    16  # times the normal checkpoint size; then the checkpoint waits for readers to end their page
)


def reserve(size: int) -> int:
    """Return the bytes of a volume of this size that are reserved, so that events may not use them."""
    return round(max(size * FREE_PART, min(FREE_BYTES, size * SMALL_PART)))


class Space:
    """The size of the log's file and its write-ahead log. Used by the writer thread only, which makes all
    checkpoints."""

    def __init__(self, db: apsw.Connection, settings: EngineSettings) -> None:
        self._db = db
        self._settings = settings
        self._page = int(db.pragma("page_size"))
        self._wal = 0  # frames
        self._folded = 0  # frames that are in the file too
        db.set_wal_hook(self._on_commit)

    @property
    def needs_checkpoint(self) -> bool:
        """Return True if the write-ahead log has frames that are not in the file."""
        return self._wal > self._folded

    @property
    def used(self) -> int:
        """Return the bytes of used pages and of the write-ahead log. Freed pages count as room."""
        pages = int(self._db.pragma("page_count")) - int(self._db.pragma("freelist_count"))
        return (pages + self._wal) * self._page

    def full(self) -> str:
        """Return why no more records may be stored, or "" if more records may be stored."""
        bound = self._settings.max_bytes
        if bound and self.used >= bound:
            self.checkpoint()
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
        except OSError as error:  # the folder is gone
            return f"no room on the disk of {folder}: {error.strerror}"
        free, kept = disk.f_bavail * disk.f_frsize, reserve(disk.f_blocks * disk.f_frsize)
        if free >= kept:
            return ""
        return (
            f"no room on the disk of {folder}: {free} bytes are free, and {kept} are reserved for settling and "
            "retention; use a larger volume, or remove other data"
        )

    def checkpoint_when_due(self) -> None:
        """Checkpoint if the write-ahead log is large, many pages at a time, so that few appends wait for it."""
        due = self._settings.wal_bytes // self._page
        if self._wal >= HARD * due:
            self._checkpoint(apsw.SQLITE_CHECKPOINT_RESTART)
        elif self._wal - self._folded >= due:
            self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)

    def checkpoint(self) -> None:
        """Checkpoint everything and truncate the write-ahead log. Meant for idle moments."""
        if self._wal:
            self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _checkpoint(self, mode: int) -> None:
        try:
            self._wal, self._folded = self._db.wal_checkpoint(mode=mode)
        except apsw.BusyError:  # a reader holds a page; the next checkpoint tries again
            self._folded = self._wal

    def _on_commit(self, _db: apsw.Connection, _name: str, frames: int) -> int:
        if frames < self._wal:
            self._folded = 0
        self._wal = frames
        return apsw.SQLITE_OK
