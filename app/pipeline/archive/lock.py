"""Locks that permit one archive and one upkeep for each lake.

Two archives that read the same offsets would both write them. An erasure removes all files that no
snapshot names. It would remove the files of a compaction that has not committed yet. A lake in a
folder has a lock of the operating system, which ends with its process. Any other lake has a lease
in the table ``leases``, which its holder renews.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from app.pipeline.archive.lease import (
    LakeHold,
    LakeLock,
    Lease,
    Tell,
    holding_lease,
    leased,
    lock_error,
    me,
)
from app.pipeline.settings import Lake, folder_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRIES: Final = 5
_MOMENT: Final = 0.02  # seconds between two tries to lock a file


@contextlib.contextmanager
def holding_lock(
    spark: SparkSession,
    lake: Lake,
    right: LakeLock = "archive",
    tell: Tell = lambda _text: None,
) -> Iterator[LakeHold]:
    """Hold a lock of the lake inside the context. ``tell`` is called if it may take some time to
    get the lock.

    Raises:
        SetupError: Another process has the lock; the message names the process.
    """
    folder = folder_of(lake.catalog.warehouse)
    holding = leased(spark, lake, right, tell) if folder is None else _locked(folder, lake, right)
    with holding as held:
        yield held


@contextlib.contextmanager
def holding_all(spark: SparkSession, lake: Lake, tell: Tell) -> Iterator[None]:
    """Hold all locks of the lake inside the context. The time that leases of a killed process last
    is waited for once.

    Raises:
        SetupError: Another process has a lock; the message names the process.
    """
    folder, rights = folder_of(lake.catalog.warehouse), get_args(LakeLock)
    with contextlib.ExitStack() as held:
        if folder is not None:
            for right in rights:
                held.enter_context(_locked(folder, lake, right))
        else:
            leases = [Lease(spark, lake, right) for right in rights]
            for each in leases:
                each.observe(tell)
            for each in leases:
                held.enter_context(holding_lease(each, tell))
        yield


def is_held(spark: SparkSession, lake: Lake, right: LakeLock) -> bool:
    """Return True if a process holds the lock. A killed process holds a lease until another process
    takes it.
    """
    folder = folder_of(lake.catalog.warehouse)
    if folder is None:
        return bool(Lease(spark, lake, right).holder().name)
    with _opened(folder, lake, right) as handle:
        return not _has_locked(handle, fcntl.LOCK_SH)


@contextlib.contextmanager
def _opened(folder: Path, lake: Lake, right: LakeLock) -> Iterator[int]:
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / f"_{right}.lock.{lake.namespace}", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        yield handle
    finally:
        os.close(handle)


def _has_locked(handle: int, how: int) -> bool:
    """Lock a file, and return whether that was possible."""
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _locked(folder: Path, lake: Lake, right: LakeLock) -> Iterator[LakeHold]:
    with _opened(folder, lake, right) as handle:
        for left in reversed(range(_TRIES)):  # is_held locks the file for a moment
            if _has_locked(handle, fcntl.LOCK_EX):
                break
            if not left:
                raise lock_error(os.pread(handle, 100, 0).decode(errors="replace") or "another")
            time.sleep(_MOMENT)
        os.ftruncate(handle, 0)
        os.pwrite(handle, me().encode(), 0)
        yield LakeHold()
