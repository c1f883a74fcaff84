"""Records for a partition that the sender chose, stored as a whole or not at all; perhaps numbered by an
idempotent producer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from app.bindings.record import Record
from app.errors import BrokerError
from app.interfaces import PublishResult
from app.log.sequences import Batch
from app.model.message import Partition
from app.routing.identity import Identity


class Stored(msgspec.Struct, frozen=True):
    """``base``: offset of the first record. ``time_ms``: what they are stored under; None for a batch
    that had been stored before."""

    base: int
    time_ms: int | None


class Placed:
    """An append. ``fate`` is its only result; cancelled before it is stored, it is not (rule 9)."""

    __slots__ = ("batch", "fate", "owner", "partition", "records", "stored", "topic")
    identities: Sequence[Identity | None] | None = None

    def __init__(
        self,
        place: Partition,
        records: Sequence[Record],
        batch: Batch | None = None,
        owner: str = "",
    ) -> None:
        self.topic = place.topic
        self.partition = place.number
        self.records = records
        self.batch = batch
        self.owner = owner
        self.stored = Stored(-1, None)  # as the commit group would have it
        self.fate: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        return self.fate.done()

    def resolve_all(self, results: list[PublishResult]) -> None:
        """One error is that of all; else they are where ``stored`` says."""
        if self.fate.done():
            return
        error = next((each for each in results if isinstance(each, BrokerError)), None)
        if error is None:
            self.fate.set_result(self.stored)
        else:
            self.fate.set_exception(error)
