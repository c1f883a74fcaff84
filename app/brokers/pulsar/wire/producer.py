"""Publish to one partition over a connection to its broker."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from pulsar import Result

from app.bindings.record import Record
from app.brokers.pulsar.batchers import OnResult
from app.brokers.pulsar.errors import ClientError
from app.brokers.pulsar.positions import NOT_BATCHED, Position
from app.brokers.pulsar.settings import Batching
from app.brokers.pulsar.wire.commands import SendReceipt
from app.brokers.pulsar.wire.connection import MAX_MESSAGE, WireConnection
from app.brokers.pulsar.wire.frames import FrameWriter
from app.brokers.pulsar.wire.properties import EncodedRecord, encode

MOST_IN_BATCH = 1_000  # records, as the client library has it
REFUSED_FOR_GOOD = frozenset({Result.TopicTerminated, Result.NotAllowedError})
SMALL = 256 << 10  # bytes of content; with its properties far below the usual bound of brokers
RESERVE = (
    10 << 10
)  # bytes below the broker's bound for the frame of a batch, whose size is an estimate


class WaitingRecord(NamedTuple):
    """A record that is not answered yet.

    Attributes:
        encoded: The parts of the record.
        done: Called with the result.
        dropped: Returns True if the caller has a result already, so that the record must not be sent.
        size: The bytes that it adds to a batch, about.
    """

    encoded: EncodedRecord
    done: OnResult
    dropped: Callable[[], bool]
    size: int


class SentFrame(NamedTuple):
    """A frame without a receipt: its sequence id, and its records."""

    sequence: int
    records: Sequence[WaitingRecord]


class WireProducer:
    """The producer of one partition.

    Args:
        connection: the connection to its broker.
        number: its number on the connection.
        writer: writes its frames.
        sequence: the first sequence id.
        batching: which records form batches.
        on_lost: called once if the broker or the connection ends the producer. The records without an answer get
            none: the caller has them.
    """

    def __init__(
        self,
        connection: WireConnection,
        number: int,
        writer: FrameWriter,
        sequence: int,
        batching: Batching,
        on_lost: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._number = number
        self._writer = writer
        self._sequence = sequence
        self._batching = batching
        self._on_lost = on_lost
        self._bound = connection.max_message
        self._most = connection.max_message - RESERVE  # of a batch
        self._measures = batching != "none" or connection.max_message < MAX_MESSAGE
        self._waiting: list[WaitingRecord] = []
        self._sent: deque[SentFrame] = deque()
        self._ended = False
        connection.attach(number, self)

    def is_connected(self) -> bool:
        """Return True while the broker accepts records of this producer."""
        return not self._ended

    def send(self, record: Record, done: OnResult, dropped: Callable[[], bool]) -> None:
        """Publish a record at the end of this turn of the loop. ``done`` is called with the result, but never if the
        producer is lost before. Raise ValueError for a property name that is not UTF-8; nothing is sent then."""
        encoded = encode(record)
        content = encoded.content
        if not self._measures and (content is None or len(content) < SMALL):
            size = 0  # far below the bound, and no batch needs it
        else:
            size = encoded.size
        if size > self._bound:
            done(Result.MessageTooBig, None)
            return
        self._waiting.append(WaitingRecord(encoded, done, dropped, size))
        self._connection.wake(self._number, self)

    def close(self) -> None:
        """End the producer. Records without an answer get none."""
        if not self._ended:
            self._ended = True
            self._connection.detach(self._number)

    def flush(self) -> list[bytes]:
        """Return the frames of the records that wait."""
        waiting, self._waiting = self._waiting, []
        now_ms = time.time_ns() // 1_000_000
        return [self._frame(group, now_ms) for group in self._groups(waiting)]

    def _groups(self, waiting: Sequence[WaitingRecord]) -> Iterator[Sequence[WaitingRecord]]:
        """Yield the records of each frame. Records whose caller has a result are left out."""
        records = []
        for each in waiting:
            if each.dropped():
                each.done(Result.Interrupted, None)
            else:
                records.append(each)
        if self._batching == "none" or len(records) == 1:
            yield from ((each,) for each in records)
        elif self._batching == "mixed":
            yield from self._bounded(records)
        else:
            records.sort(key=_key_of)  # a stable sort: the order of one key stays
            for _, of_key in groupby(records, key=_key_of):
                yield from self._bounded(list(of_key))

    def _bounded(self, records: Sequence[WaitingRecord]) -> Iterator[Sequence[WaitingRecord]]:
        """Yield parts of the records that fit into one frame."""
        part: list[WaitingRecord] = []
        size = 0
        for each in records:
            if part and (len(part) == MOST_IN_BATCH or size + each.size > self._most):
                yield part
                part, size = [], 0
            part.append(each)
            size += each.size
        if part:
            yield part

    def _frame(self, records: Sequence[WaitingRecord], now_ms: int) -> bytes:
        sequence = self._sequence
        self._sequence += len(records)
        self._sent.append(SentFrame(sequence, records))
        if len(records) == 1:
            return self._writer.single(records[0].encoded, sequence, now_ms)
        return self._writer.batch([each.encoded for each in records], sequence, now_ms)

    def stored(self, receipt: SendReceipt) -> None:
        """Note the receipt of a frame. Receipts arrive in the order of the frames."""
        frame = self._taken(receipt.sequence)
        if frame is None:
            return
        _, _, ledger, entry = receipt
        for index, each in enumerate(frame.records):
            batch = NOT_BATCHED if len(frame.records) == 1 else index
            each.done(Result.Ok, Position(ledger, entry, batch))

    def refused(self, sequence: int, error: ClientError) -> None:
        """Note that the broker has refused a frame. If another try may help, the producer ends, so that its records
        are sent again in their order."""
        if error.result not in REFUSED_FOR_GOOD:
            self.close()
            self._on_lost(str(error))
            return
        frame = self._taken(sequence)
        for each in frame.records if frame is not None else ():
            each.done(error.result, None)

    def _taken(self, sequence: int) -> SentFrame | None:
        """Return the frame with this sequence id, or None if it was answered already."""
        if self._sent and self._sent[0].sequence == sequence:
            return self._sent.popleft()
        if not self._sent or sequence < self._sent[0].sequence:
            return None
        self._connection.close(f"a receipt for {sequence} arrived before {self._sent[0].sequence}")
        return None

    def lost(self, why: str) -> None:
        """Note that the broker or the connection has ended this producer."""
        if not self._ended:
            self._ended = True
            self._on_lost(why)


def _key_of(record: WaitingRecord) -> bytes:
    return record.encoded.key or b""
