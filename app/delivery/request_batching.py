"""Choose the events of one batch request, and when to send it (setting ``batch`` of a subscription).

Lanes are the queues of one key each. The heads of ready lanes come first, in their turns. Then each of these
lanes adds one more event in turn, so that a busy key does not displace other keys. The events of a lane keep
their order. A lane is taken only when its event is added, so other lanes stay ready."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Generic, Protocol, TypeVar

import msgspec

from app.bindings.record import Decoded
from app.delivery.lanes import Lane, Lanes

FRAME = 2  # bytes around the events of a request
JOINT = 6  # extra bytes per event at most: a comma in JSON, a tag and a length in Protobuf


class Piece(Protocol):
    """An event as a part of a batch request. ``size`` is its number of bytes in the request."""

    @property
    def size(self) -> int: ...


class DocumentPiece(msgspec.Struct, frozen=True, gc=False):  # cannot be part of a reference cycle
    """An event as one document inside a batch document. ``key`` is the key of its record."""

    decoded: Decoded
    document: bytes
    key: bytes | None = None

    @property
    def size(self) -> int:
        return len(self.document)


class BatchLimits(msgspec.Struct, frozen=True):
    """The limits of one request: events, bytes, and the seconds that the first event may wait for others."""

    events: int
    bytes: int
    wait: float


class Batchable(Protocol):
    """An item that may be sent in a batch request.

    ``max_batch`` is the largest number of items in a request that contains this item. It is halved after a
    refusal. ``attempts`` is the number of its attempts so far. An item that was tried before does not wait
    for others. ``size`` is its approximate number of bytes."""

    @property
    def max_batch(self) -> int: ...
    @property
    def attempts(self) -> int: ...
    @property
    def size(self) -> int: ...


Item = TypeVar("Item", bound=Batchable)


def next_request_at(lanes: Lanes[Item], bounds: BatchLimits) -> float | None:
    """Return when the next request must be sent (monotonic seconds), which may be in the past. Return None if
    no lane (queue of one key) is ready.

    The caller must call ``Lanes.stamp`` first."""
    first = lanes.next_ready()
    if first is None or first.ready_at is None:
        return None
    if not bounds.wait or first.head.attempts or _is_full(lanes, bounds):
        return first.ready_at
    return first.ready_at + bounds.wait


def _is_full(lanes: Lanes[Item], bounds: BatchLimits) -> bool:
    """Return True if the ready lanes have enough events for a full request. The check stops as soon as the
    result is known."""
    events = size = 0
    for lane in lanes.ready_lanes():
        for item in islice(lane.items, bounds.events - events):
            events += 1
            size += item.size
            if events >= bounds.events or size >= bounds.bytes:
                return True
    return False


class BatchBuilder(Generic[Item]):
    """A builder of one request from the ready lanes (queues of one key).

    Args:
        lanes: the lanes of the subscription.
        bounds: the limits of the request.
        piece: a function that returns an item as a part of the request, or None for an item that is sent
            alone.
    """

    def __init__(
        self,
        lanes: Lanes[Item],
        bounds: BatchLimits,
        piece: Callable[[Item], Piece | None],
    ) -> None:
        self._lanes = lanes
        self._bytes = bounds.bytes - FRAME
        self._most = bounds.events
        self._piece = piece
        self.lanes: list[Lane[Item]] = []
        self.pieces: list[Piece] = []
        self.items: list[Item] = []

    def begin(self, lane: Lane[Item], piece: Piece) -> None:
        """Begin the request with the head of a lane in flight, even if it exceeds the limit of bytes. Then
        add all items that fit."""
        self._add(lane.head, piece)
        self.lanes.append(lane)
        self._add_heads()
        self._add_more()

    def _add_heads(self) -> None:
        """Add the heads of ready lanes until one does not fit. Then stop, so that no other head overtakes
        it."""
        while (lane := self._lanes.next_ready()) is not None:
            piece = self._fitting(lane.head)
            if piece is None or self._lanes.take() is None:
                return
            self._add(lane.head, piece)
            self.lanes.append(lane)

    def _add_more(self) -> None:
        open_ones = self.lanes
        while open_ones:
            open_ones = [lane for lane in open_ones if self._add_next(lane)]

    def _add_next(self, lane: Lane[Item]) -> bool:
        item = self._lanes.take_next_of(lane)
        if item is None:
            return False
        piece = self._fitting(item)
        if piece is None:
            self._lanes.undo_take(lane)
            return False
        self._add(item, piece)
        return True

    def _fitting(self, item: Item) -> Piece | None:
        if len(self.pieces) >= min(self._most, item.max_batch):
            return None
        piece = self._piece(item)
        if piece is None or piece.size + JOINT > self._bytes:
            return None
        return piece

    def _add(self, item: Item, piece: Piece) -> None:
        self._most = min(self._most, item.max_batch)
        self._bytes -= piece.size + JOINT
        self.pieces.append(piece)
        self.items.append(item)
