"""A scripted sink that takes several events in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from app.delivery.request_batching import DocumentPiece
from app.interfaces import DeliveryRequest, SinkAnswer
from worker_doubles import OK, ScriptedSink, event_id

ALONE = "alone"  # the type of events that cannot be in a batch


class ScriptedBatchSink(ScriptedSink):
    """A scripted sink of batches. ``sent`` has the event ids of each request.

    ``answer_to`` returns the answer for these ids. If it returns None, the request waits until
    ``gate`` is set.
    """

    begins = False

    def __init__(self, answer_to: Callable[[list[str]], SinkAnswer | None] = lambda _: OK) -> None:
        super().__init__()
        self.answer_to = answer_to
        self.sent: list[list[str]] = []
        self.open = self.most_open = 0
        self.gate = asyncio.Event()

    def piece(self, outgoing: DeliveryRequest) -> DocumentPiece | None:
        decoded = outgoing.decoded
        if decoded is None or decoded.event.type == ALONE:
            return None
        return DocumentPiece(decoded, b"x" * 100)

    async def send(self, outgoing: DeliveryRequest) -> SinkAnswer:
        return await self._answered([event_id(outgoing)])

    def room(self) -> int:
        return 1_000

    async def send_together(self, pieces: Sequence[DocumentPiece], within: float) -> SinkAnswer:
        return await self._answered([piece.decoded.event.id for piece in pieces])

    async def _answered(self, ids: list[str]) -> SinkAnswer:
        self.sent.append(ids)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        answer = self.answer_to(ids)
        try:
            await asyncio.sleep(0)
            if answer is None:
                await self.gate.wait()
                answer = OK
        finally:
            self.open -= 1
        return answer

    @property
    def delivered(self) -> list[str]:
        """Return the ids of delivered events, in the order of their requests."""
        return [each for ids in self.sent if self.answer_to(ids) == OK for each in ids]
