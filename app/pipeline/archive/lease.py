"""A lease: a lock of a lake in an object store, which its holder renews (ADR 0059)."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal
from uuid import uuid4

import msgspec

from app.errors import SetupError, SkybridgeError
from app.pipeline import history
from app.pipeline.settings import Lake
from app.spark.cleanup import cleaning_up
from app.spark.faults import REFUSALS, UNKNOWN, is_any
from app.spark.pyspark_adapter import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

LakeLock = Literal["archive", "upkeep"]
"""The lock: ``archive`` to write rows of events, ``upkeep`` to rewrite and remove files. A verb
that needs both takes them in this order.
"""

Tell = Callable[[str], None]
"""A callback that receives a sentence for the operator."""

LASTS: Final = 25.0  # seconds without a renewal after which another process may take a lease
RENEWED: Final = 5.0  # seconds between two renewals
LOOK: Final = 1.0  # seconds between two looks at the lease of another process
_TRIES: Final = 5  # the lease of the other right is in the same table
_TABLE: Final = "leases"
_NEVER: Final = 1 << 52  # ms
_CURE: Final = "wait until that process has ended, or stop it"


class LakeHold:
    """A lock that this process holds.

    Attributes:
        taken_over: Whether the lock was taken from a process that no longer renewed it.
    """

    taken_over = False

    def seconds_left(self) -> float:
        """Return the seconds after which another process may take the lock, if it is not renewed.
        Infinite for a lock of the operating system.
        """
        return math.inf

    def demand_not_lost(self) -> None:
        """Raise SetupError if this process has noticed that another one has taken the lock."""

    def demand(self) -> None:
        """Raise SetupError if another process has taken the lock."""


@contextlib.contextmanager
def leased(spark: SparkSession, lake: Lake, right: LakeLock, tell: Tell) -> Iterator[LakeHold]:
    with holding_lease(Lease(spark, lake, right), tell) as lease:
        yield lease


@contextlib.contextmanager
def holding_lease(lease: Lease, tell: Tell) -> Iterator[Lease]:
    """Take a lease, and renew it inside the context.

    Raises:
        SetupError: Another process holds the lease, or has taken it inside the context. Spark is then
            stopped, and its own error would not name the cause.
    """
    lease.take(tell)
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(lease, ended), daemon=True)
    renewing.start()

    def release() -> None:
        ended.set()
        renewing.join()
        if not lease.lost_to:
            lease.release()

    with cleaning_up(release):
        try:
            yield lease
        except SkybridgeError:
            raise
        except Exception:
            lease.demand_not_lost()
            raise


class Holder(msgspec.Struct, frozen=True):
    """The holder of a lease, as a property of the table ``leases`` states it.

    Attributes:
        number: The number of the lease. Each holder has a higher one than the holder before.
        name: The process; empty if the lease is free.
        renewed: The number of renewals.
    """

    number: int = 0
    name: str = ""
    renewed: int = 0


class Lease(LakeHold):
    """A lease, which is taken, renewed and released by commits of the table ``leases``.

    Each lease has a tag with its number, and each commit creates or changes that tag. So a catalog
    refuses the commit if another process was faster. A property alone does not suffice: a REST
    catalog compares only the ids of the snapshots to which tags point.
    """

    def __init__(self, spark: SparkSession, lake: Lake, right: LakeLock) -> None:
        """Return a lease that is not taken. ``spark`` is stopped when the lease is lost."""
        self.spark, self._lake, self._right = spark, lake, right
        self._table = lake.table(_TABLE)
        self.own = Holder(0, f"{me()} {uuid4().hex[:8]}")
        self._renewed = -math.inf  # by the monotonic clock
        self._seen, self._until = Holder(), 0.0
        self.lost_to = ""  # the process that has taken this lease from its holder
        self._renewing = threading.Lock()  # ``holder`` keeps the state that ``_commit`` changes

    def seconds_left(self) -> float:
        return max(0.0, self._renewed + LASTS - time.monotonic())

    def take(self, tell: Tell) -> None:
        """Take the lease. If it is held, wait until it is released or not renewed for ``LASTS``
        seconds.

        Raises:
            SetupError: The holder renews the lease.
        """
        while True:
            found = self.observe(tell)
            if found.name == self.own.name:
                return
            if not found.name or time.monotonic() >= self._until:
                own = msgspec.structs.replace(self.own, number=found.number + 1)
                if self._commit(found, own):
                    self.own, self.taken_over = own, bool(found.name)
                    return
                continue
            time.sleep(LOOK)

    def observe(self, tell: Tell) -> Holder:
        """Return the holder. The time from which it may be followed counts from the first look at
        it.

        Raises:
            SetupError: The holder has renewed the lease since the last look.
        """
        self._make()
        found = self.holder()
        if found != self._seen and found.name not in ("", self.own.name):
            if found.name == self._seen.name:
                raise lock_error(found.name)
            self._seen, self._until = found, time.monotonic() + LASTS
            tell(_waiting(found.name))
        return found

    def renew(self) -> bool:
        """Renew the lease, and return whether this process still has it."""
        with self._renewing:
            for _ in range(_TRIES):
                found = self.holder()
                if found.name != self.own.name:
                    self._renewed = -math.inf
                    return False
                if self._commit(found, msgspec.structs.replace(found, renewed=found.renewed + 1)):
                    break
        return True

    def demand_not_lost(self) -> None:
        if self.lost_to:
            raise lock_error(self.lost_to)

    def demand(self) -> None:
        """Renew the lease. Raise SetupError if another process has it."""
        self.demand_not_lost()
        if not self.renew() or not self.seconds_left():
            raise lock_error(self.holder().name)

    def release(self) -> None:
        """Release the lease, unless another process has it."""
        for _ in range(_TRIES):
            found = self.holder()
            if found.name != self.own.name or self._commit(found, Holder(found.number)):
                break

    def holder(self) -> Holder:
        """Return the holder as the catalog knows it now."""
        self._operations = history.iceberg_table(self.spark, self._table).operations()
        self._base = self._operations.current()
        text = self._base.properties().get(self._property)
        return Holder() if text is None else msgspec.json.decode(text, type=Holder)

    @property
    def _property(self) -> str:
        return f"skybridge.lease.{self._right}"

    def _commit(self, before: Holder, after: Holder) -> bool:
        """Store the new holder, if no other process has committed since ``holder`` read the table."""
        java = jvm(self.spark).org.apache.iceberg
        changes = java.TableMetadata.buildFrom(self._base)
        if after.number != before.number or not after.name:
            changes.removeRef(self._tag(before))
        if after.name:
            tag = java.SnapshotRef.tagBuilder(self._base.currentSnapshot().snapshotId())
            # The age is never reached. It only makes each renewal a change of the tag.
            changes.setRef(self._tag(after), tag.maxRefAgeMs(_NEVER + after.renewed).build())
        properties = jvm(self.spark).java.util.HashMap()
        properties.put(self._property, msgspec.json.encode(after).decode())
        begun = time.monotonic()
        try:
            self._operations.commit(self._base, changes.setProperties(properties).build())
        except Exception as error:
            if not is_any(error, REFUSALS | UNKNOWN):
                raise
            return False
        self._renewed = begun if after.name else -math.inf
        return True

    def _tag(self, holder: Holder) -> str:
        return f"{self._right}-{holder.number}"

    def _make(self) -> None:
        """Create the table, with an empty snapshot to which the tags point."""
        if self._seen.name:
            return
        if not self.spark.catalog.tableExists(self._table):
            self.spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._table} (note STRING) USING iceberg TBLPROPERTIES"
                " ('write.metadata.delete-after-commit.enabled' = 'true',"
                " 'write.metadata.previous-versions-max' = '5')"
            )
        if history.newest_snapshot(self.spark, self._table) is None:
            self.spark.table(self._table).limit(0).writeTo(self._table).append()


def _renew(lease: Lease, ended: threading.Event) -> None:
    """Renew the lease until ``ended``. If another process has taken it, stop Spark: further work
    would be duplicated.
    """
    while not ended.wait(RENEWED):
        with contextlib.suppress(Exception):  # the next try is in time if the catalog is away
            if not lease.renew():
                lease.lost_to = lease.holder().name or "another process"
                _log.error(
                    "this process was suspended too long, and the lake is now written by %s",
                    lease.lost_to,
                )
                lease.spark.stop()
                return


def _waiting(holder: str) -> str:
    until = datetime.fromtimestamp(_now() + LASTS).astimezone()
    return (
        f"The lake was last written by {holder}. If that process has ended, this one takes over at"
        f" {until:%H:%M:%S}, in {LASTS:.0f} seconds."
    )


def me() -> str:
    """Return the name of this process for other processes."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _now() -> float:
    return time.time()  # noqa: TID251 - compared with times of other machines


def lock_error(holder: str) -> SetupError:
    """Return the error for a lock that another process has."""
    return SetupError(
        f"this lake is being written by {holder}", setting="pipeline.lake", cure=_CURE
    )
