"""The archive: once, up to what is stored now, or until it is told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from app.errors import SkybridgeError
from app.pipeline import tables
from app.pipeline.archive import commit, stream
from app.pipeline.archive.batches import Batch, Seen
from app.pipeline.archive.derive import (
    Derived,
    Observe,
    Range,
    derive,
    finished,
    further,
    pending,
    pieces,
    resumed,
)
from app.pipeline.archive.known import Known
from app.pipeline.archive.lock import alone
from app.pipeline.archive.stream import Plan
from app.pipeline.session import first_line
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
    """For an observer. ``step``: ``copy`` (Kafka to ``events_raw``) or ``derive``. ``done`` of
    ``total`` records, the total None where nobody knows; ``derived``: what came of the last range.
    """

    step: str
    done: int
    total: int | None = None
    derived: Derived | None = None
    trouble: str = ""


Tell = Callable[[Told], None]

Reached = Callable[[Batch], None]
"""Told of each batch whose records are in every table, and of idle moments."""


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
    _make(spark, lake)
    with alone(spark, lake):
        left = pending(spark, lake)
        ready = _prepare(spark, lake, plan, left)
        observe("prepared")
        query = stream.start(spark, lake, plan, ready, once=True)
        copied, last = _copied(query, ready.pending, tell, stopping)
        observe("stream ended")
        whole = _further(spark, lake, plan, left, ready, last)
        derived = _derive_all(spark, lake, plan, whole, tell, observe, stopping, Known())
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
    _make(spark, lake)
    with alone(spark, lake):
        begun = pending(spark, lake)
        ready = _prepare(spark, lake, plan, begun)
        left: Range | None = begun
        query = stream.start(spark, lake, plan, ready, once=False)
        seen, derived, copied, known = Seen(query), Derived(), 0, Known()
        wait = time.monotonic()  # what an earlier run left is derived at once
        while not stop.wait(LOOK):
            _check(query)
            found = seen.more()
            copied += _rows(found)
            if not found and (wait == 0.0 or time.monotonic() < wait):
                if seen.idle and not wait:
                    reached(seen.idle)
                continue
            tell(Told("copy", copied))
            try:
                whole = _further(spark, lake, plan, left, ready, found[-1] if found else None)
                left = None  # until all of it is there
                derived += _derive_all(spark, lake, plan, whole, tell, observe, stop, known)
                left, wait = finished(whole), 0.0
                for each in found:
                    reached(each)
            except Exception as error:  # noqa: BLE001 - whatever it is, the copy goes on
                tell(Told("derive", 0, trouble=first_line(error)))
                wait = time.monotonic() + AGAIN
        copied += _end(seen)
    return Outcome(copied, derived.events, derived.duplicates, derived.quarantined)


def _make(spark: SparkSession, lake: Lake) -> None:
    tables.make(spark, lake)
    commit.demand_storage(commit.layout(spark, lake, tables.EVENTS_TABLE))


def _prepare(spark: SparkSession, lake: Lake, plan: Plan, left: Range) -> stream.Ready:
    return stream.prepare(spark, lake, plan, left.end.get(plan.place.broker, {}))


def _further(
    spark: SparkSession,
    lake: Lake,
    plan: Plan,
    left: Range | None,
    ready: stream.Ready,
    last: Batch | None,
) -> Range:
    """What is to be derived. The lake is asked only where nobody knows: what was ``left`` is None, or the source of the
    ``last`` batch does not say how far it read.
    """
    told = stream.reached(last) if last else {}
    if left is None or (last and not told):
        return pending(spark, lake)
    return further(left, plan.place.broker, ready.next, told)


def _copied(
    query: StreamingQuery, total: int | None, tell: Tell, stop: threading.Event
) -> tuple[int, Batch | None]:
    """Until the stream has ended by itself, or at the end of a batch when it is to stop. How many records, and the
    last batch.
    """
    seen, copied = Seen(query), 0
    tell(Told("copy", 0, total))
    while query.isActive and not stop.is_set():
        time.sleep(LOOK)  # to wait for its end would raise what _check says better
        copied += _rows(seen.more())
        tell(Told("copy", copied, total))
    if query.isActive:
        return copied + _end(seen), None
    _check(query)
    copied += _rows(seen.more())
    tell(Told("copy", copied, total))
    return copied, seen.last


def _derive_all(
    spark: SparkSession,
    lake: Lake,
    plan: Plan,
    whole: Range,
    tell: Tell,
    observe: Observe,
    stop: threading.Event,
    known: Known,
) -> Derived:
    derived, done = Derived(), 0
    for piece in pieces(spark, lake, whole, plan.at_once):
        if stop.is_set():
            break
        found = _derive(spark, lake, piece, observe, known)
        derived, done = derived + found, done + piece.size
        at, total = (derived.records, None) if whole.sparse else (done, whole.size)
        tell(Told("derive", at, total, found))
    return derived


def _derive(
    spark: SparkSession, lake: Lake, piece: Range, observe: Observe, known: Known
) -> Derived:
    """Again where ``maintain`` has rewritten files under our hands, or nobody knows whether a commit was made:
    what the tables have by then is not done twice."""
    for _ in range(RETRIES):
        try:
            return derive(spark, lake, piece, observe, known)
        except Exception as error:
            if not any(conflict in str(error) for conflict in _CONFLICTS):
                raise
            piece = resumed(spark, lake, piece)
    return derive(spark, lake, piece, observe, known)


def _rows(batches: list[Batch]) -> int:
    return sum(int(each["numInputRows"]) for each in batches)


def _end(seen: Seen) -> int:
    """At the end of the batch at hand. In its midst would be as safe, and its work in vain."""
    query = seen.query
    last = seen.number()
    while query.isActive and query.status["isTriggerActive"] and seen.number() == last:
        time.sleep(LOOK / 10)
    query.stop()
    return _rows(seen.more())


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
    raise ArchiveFailed(f"the stream ended: {first_line(error)}")
