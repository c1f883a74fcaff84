"""Which events leave in one request, and when (``batch`` of a subscription).

Heads of lanes first, in their turns, then more of the same lanes, one of each in turn: a busy key
takes what is left, never another's place. Those of one lane stand in their order, and are settled in
it. While a request gathers nothing is taken: its lanes are *ready* as any others, so that whatever
happens meanwhile happens to them as always.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Generic, Protocol, TypeVar

import msgspec

from app.bindings.record import Decoded
from app.delivery.lanes import Lane, Lanes

FRAME = 2  # bytes around the events of a request
JOINT = 6  # bytes beside each, at most: a comma in JSON, a tag and a length in Protobuf


class Piece(Protocol):
    """An event as a part of a request of several. ``size``: bytes in it."""

    @property
    def size(self) -> int: ...


class DocumentPiece(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """An event as it stands in a document of several. ``key``: of its record."""

    decoded: Decoded
    document: bytes
    key: bytes | None = None

    @property
    def size(self) -> int:
        return len(self.document)


class BatchLimits(msgspec.Struct, frozen=True):
    """Of one request: most events, most bytes; ``wait``: seconds that the first may wait for others."""

    events: int
    bytes: int
    wait: float


class Batchable(Protocol):
    """What is gathered.

    ``most``      events of the largest request that it may be in: halved when one was refused.
    ``attempts``  made so far: what was tried before waits for nobody.
    ``size``      bytes, about.
    """

    @property
    def max_batch(self) -> int: ...
    @property
    def attempts(self) -> int: ...
    @property
    def size(self) -> int: ...


Item = TypeVar("Item", bound=Batchable)


def next_request_at(lanes: Lanes[Item], bounds: BatchLimits) -> float | None:
    """The moment at which the next request is to leave, perhaps past; None while nothing is ready.
    The lanes have been stamped."""
    first = lanes.next_ready()
    if first is None or first.ready_at is None:
        return None
    if not bounds.wait or first.head.attempts or _is_full(lanes, bounds):
        return first.ready_at
    return first.ready_at + bounds.wait


def _is_full(lanes: Lanes[Item], bounds: BatchLimits) -> bool:
    """Whether there is enough for a whole request. Walks no further than that."""
    events = size = 0
    for lane in lanes.ready_lanes():
        for item in islice(lane.items, bounds.events - events):
            events += 1
            size += item.size
            if events >= bounds.events or size >= bounds.bytes:
                return True
    return False


class BatchBuilder(Generic[Item]):
    """One request that takes what may go along.

    ``piece``  of an item as a part of such a request; None for one that goes alone.
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
        """With the head of a lane in flight, however large it is."""
        self._add(lane.head, piece)
        self.lanes.append(lane)
        self._add_heads()
        self._add_more()

    def _add_heads(self) -> None:
        """The first that does not fit ends it: nobody passes it by."""
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
