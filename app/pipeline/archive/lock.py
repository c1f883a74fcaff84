"""Locks that permit one archive and one upkeep for each lake.

Two archives that read the same offsets would both write them. An erasure removes all files that no
snapshot names. It would remove the files of a compaction that has not committed yet. A lake in a
folder has a lock of the operating system, which ends with its process. Any other lake has a lease
in the properties of ``events_raw``, which its holder renews.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from uuid import uuid4

from app.errors import SetupError
from app.pipeline import tables
from app.pipeline.cleanup import cleaning_up
from app.pipeline.settings import Lake, folder_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

LakeLock = Literal["archive", "upkeep"]
"""The lock: ``archive`` to write rows of events, ``upkeep`` to rewrite and remove files. A verb
that needs both takes them in this order.
"""

LASTS: Final = 120.0  # seconds without a renewal after which another process may take it
_CURE: Final = "wait until that process has ended, or stop it"


@contextlib.contextmanager
def holding_lock(spark: SparkSession, lake: Lake, right: LakeLock = "archive") -> Iterator[None]:
    """Hold a lock of the lake inside the context.

    Raises:
        SetupError: Another process has the lock; the message names the process.
    """
    folder = folder_of(lake.catalog.warehouse)
    holding = _leased(spark, lake, right) if folder is None else _locked(folder, lake, right)
    with holding:
        yield


@contextlib.contextmanager
def _locked(folder: Path, lake: Lake, right: LakeLock) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / f"_{right}.lock.{lake.namespace}", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _lock_error(
                os.pread(handle, 100, 0).decode(errors="replace") or "another"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, _me().encode(), 0)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _leased(spark: SparkSession, lake: Lake, right: LakeLock) -> Iterator[None]:
    """Hold a lease. If two processes ask at the same moment, both write their names, and the
    process whose name remains has the lease."""
    own, name = f"{_me()} {uuid4().hex[:8]}", f"skybridge.{right}.lease"
    holder, until = _lease(spark, lake, name)
    if holder and until > _now():
        raise _lock_error(holder)
    _write(spark, lake, name, own)
    time.sleep(1.0)
    if _lease(spark, lake, name)[0] != own:
        raise _lock_error(_lease(spark, lake, name)[0])
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(spark, lake, name, own, ended), daemon=True)
    renewing.start()

    def release() -> None:
        ended.set()
        renewing.join()
        if _lease(spark, lake, name)[0] == own:
            spark.sql(f"ALTER TABLE {_table(lake)} UNSET TBLPROPERTIES IF EXISTS ('{name}')")

    with cleaning_up(release):
        yield


def _renew(spark: SparkSession, lake: Lake, name: str, own: str, ended: threading.Event) -> None:
    """Renew the lease until ``ended``. If another process has taken it, stop Spark: further work
    would be duplicated.
    """
    while not ended.wait(LASTS / 4):
        with contextlib.suppress(Exception):  # the next try is in time if the catalog is away
            holder = _lease(spark, lake, name)[0]
            if holder != own:
                _log.error(
                    "this process was suspended too long, and the lake is now written by %s", holder
                )
                spark.stop()
                return
            _write(spark, lake, name, own)


def _write(spark: SparkSession, lake: Lake, name: str, own: str) -> None:
    value = f"{own}|{_now() + LASTS:.0f}"
    spark.sql(f"ALTER TABLE {_table(lake)} SET TBLPROPERTIES ('{name}' = '{value}')")


def _lease(spark: SparkSession, lake: Lake, name: str) -> tuple[str, float]:
    found = tables.properties(spark, lake, tables.RAW_TABLE).get(name, "")
    holder, _, until = found.partition("|")
    return holder, float(until or "0")


def _table(lake: Lake) -> str:
    return lake.table(tables.RAW_TABLE)


def _me() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _now() -> float:
    return time.time()  # noqa: TID251 - compared with times of other machines


def _lock_error(holder: str) -> SetupError:
    return SetupError(
        f"this lake is being written by {holder}", setting="pipeline.lake", cure=_CURE
    )
