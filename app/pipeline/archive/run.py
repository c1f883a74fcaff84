"""The archive: once, up to what is stored now, or until it is told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from app.errors import SkybridgeError
from app.pipeline import tables
from app.pipeline.archive import stream
from app.pipeline.archive.derive import Derived, Observe, Range, derive, pending, pieces
from app.pipeline.archive.lock import alone
from app.pipeline.archive.stream import Plan
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK: Final = 0.1  # seconds between looks at a stream
AGAIN: Final = 10.0  # seconds until what could not be derived is tried again
RETRIES: Final = 5
_CONFLICTS: Final = ("CommitFailedException", "ValidationException", "CommitStateUnknown")
_LOST: Final = ("OFFSET_OUT_OF_RANGE", "KAFKA_DATA_LOSS", "Some data may have been lost")


class ArchiveFailed(SkybridgeError):
    """The stream ended by itself. What it had committed is in the lake, the rest comes with the next run."""


class Told(msgspec.Struct, frozen=True):
    """For whoever looks on. ``step``: ``copy`` (Kafka to ``events_raw``) or ``derive``. ``done`` of
    ``total`` records, the total None where nobody knows; ``derived``: what came of the last range.
    """

    step: str
    done: int
    total: int | None = None
    derived: Derived | None = None
    trouble: str = ""


Tell = Callable[[Told], None]

Reached = Callable[[dict[str, Any]], None]
"""Told of each batch whose records are in every table, and of idle moments, in Spark's words."""


def ignore(_: object) -> None:
    """Nobody looks."""


class Outcome(msgspec.Struct, frozen=True):
    """``copied``: records that came into ``events_raw``; the others: what was derived, of them and of
    what an earlier run left.
    """

    copied: int
    events: int
    duplicates: int
    quarantined: int


def once(
    spark: SparkSession,
    lake: Lake,
    plan: Plan,
    *,
    tell: Tell = ignore,
    observe: Observe = ignore,
    stop: threading.Event | None = None,
) -> Outcome:
    """Everything that is stored when it begins. ``stop``: leave when the batch at hand has ended.

    Raises SetupError for what cannot be archived, BrokerUnavailable, ArchiveFailed.
    """
    stopping = stop or threading.Event()
    tables.make(spark, lake)
    with alone(spark, lake):
        ready = stream.prepare(spark, lake, plan)
        observe("prepared")
        query = stream.start(spark, lake, plan, ready, once=True)
        copied = _copied(query, ready.pending, tell, stopping)
        observe("stream ended")
        derived = _derive_all(spark, lake, plan, tell, observe, stopping)
    return Outcome(copied, derived.events, derived.duplicates, derived.quarantined)


def forever(
    spark: SparkSession,
    lake: Lake,
    plan: Plan,
    *,
    tell: Tell = ignore,
    observe: Observe = ignore,
    reached: Reached = ignore,
    stop: threading.Event,
) -> Outcome:
    """Until ``stop``, and the end of the batch at hand: what is not derived yet is by the next run. What fails
    while rows are derived is told and tried again, and the copy of the log goes on meanwhile. Raises as
    ``once`` does.
    """
    tables.make(spark, lake)
    with alone(spark, lake):
        ready = stream.prepare(spark, lake, plan)
        query = stream.start(spark, lake, plan, ready, once=False)
        derived, copied, batch = Derived(), 0, -1
        wait = time.monotonic()  # what an earlier run left is derived at once
        while not stop.wait(LOOK):
            _check(query)
            found = _batches(query, batch)
            copied += _rows(found)
            if not found and (wait == 0.0 or time.monotonic() < wait):
                _tell_idle(query, reached, wait)
                continue
            batch = found[-1]["batchId"] if found else batch
            tell(Told("copy", copied))
            try:
                derived += _derive_all(spark, lake, plan, tell, observe, stop)
                wait = 0.0
                for each in found:
                    reached(each)
            except Exception as error:  # noqa: BLE001 - whatever it is, the copy goes on
                tell(Told("derive", 0, trouble=_first_line(error)))
                wait = time.monotonic() + AGAIN
        copied += _end(query, batch)
    return Outcome(copied, derived.events, derived.duplicates, derived.quarantined)


def _tell_idle(query: StreamingQuery, reached: Reached, owed: float) -> None:
    """A moment without a new record, where nothing is left to derive either (``owed``: when it is tried)."""
    last = query.lastProgress
    if not owed and last is not None and not last["numInputRows"]:
        reached(last)


def _copied(query: StreamingQuery, total: int | None, tell: Tell, stop: threading.Event) -> int:
    """Until the stream has ended by itself, or at the end of a batch when it is to stop."""
    copied, batch = 0, -1
    tell(Told("copy", 0, total))
    while query.isActive:
        time.sleep(LOOK)  # to wait for its end would raise what _check says better
        for each in _batches(query, batch):
            copied, batch = copied + each["numInputRows"], each["batchId"]
            tell(Told("copy", copied, total))
        if stop.is_set():
            return copied + _end(query, batch)
    _check(query)
    copied += _rows(_batches(query, batch))
    tell(Told("copy", copied, total))
    return copied


def _derive_all(
    spark: SparkSession, lake: Lake, plan: Plan, tell: Tell, observe: Observe, stop: threading.Event
) -> Derived:
    whole = pending(spark, lake)
    derived, done = Derived(), 0
    for piece in pieces(spark, lake, whole, plan.at_once):
        if stop.is_set():
            break
        found = _derive(spark, lake, piece, observe, plan.small)
        derived, done = derived + found, done + piece.size
        at, total = (derived.records, None) if whole.sparse else (done, whole.size)
        tell(Told("derive", at, total, found))
    return derived


def _derive(spark: SparkSession, lake: Lake, piece: Range, observe: Observe, small: int) -> Derived:
    """Again where ``maintain`` has rewritten files under our hands: a range may be done twice."""
    for _ in range(RETRIES):
        try:
            return derive(spark, lake, piece, observe, small=small)
        except Exception as error:
            if not any(conflict in str(error) for conflict in _CONFLICTS):
                raise
    return derive(spark, lake, piece, observe, small=small)


def _batches(query: StreamingQuery, after: int) -> list[dict[str, Any]]:
    """The batches that ended since, each once: Spark tells of idle moments under the same number."""
    found = {each["batchId"]: each for each in query.recentProgress if each["batchId"] > after}
    return [each for _, each in sorted(found.items()) if each["numInputRows"]]


def _rows(batches: list[dict[str, Any]]) -> int:
    return sum(int(each["numInputRows"]) for each in batches)


def _end(query: StreamingQuery, batch: int) -> int:
    """At the end of the batch at hand. In its midst would be as safe, and its work in vain."""
    last = _last(query)
    while query.isActive and query.status["isTriggerActive"] and _last(query) == last:
        time.sleep(LOOK / 10)
    query.stop()
    return _rows(_batches(query, batch))


def _last(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _check(query: StreamingQuery) -> None:
    """Raises ArchiveFailed where the stream has failed."""
    error = query.exception()
    if error is None:
        return
    text = str(error)
    if any(word in text for word in _LOST):
        raise ArchiveFailed(
            "unread records are gone: retention dropped them, or the topic was created again."
            " Run the command again to see the offsets."
        )
    raise ArchiveFailed(f"the stream ended: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else repr(error)
