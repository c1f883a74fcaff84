"""Appends to a partition that the sender chose, stored all or none, perhaps numbered by an idempotent producer."""

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


class StoredAppend(msgspec.Struct, frozen=True):
    """The offset of the first record, and the time of the records in ms; None for a batch that was stored before."""

    base: int
    time_ms: int | None


class PartitionAppend:
    """An append to one partition. ``fate`` is the future of its only result; cancelling it early prevents the
    append."""

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
        self.stored = StoredAppend(-1, None)  # set by the commit group
        self.fate: asyncio.Future[StoredAppend] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        return self.fate.done()

    def resolve_all(self, results: list[PublishResult]) -> None:
        """Resolve the future: with the error if a record has one, else with ``stored``."""
        if self.fate.done():
            return
        error = next((each for each in results if isinstance(each, BrokerError)), None)
        if error is None:
            self.fate.set_result(self.stored)
        else:
            self.fate.set_exception(error)
