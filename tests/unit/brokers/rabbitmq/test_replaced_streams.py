"""A stream that is deleted and created again while its member stores a position."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.bindings.record import Record
from app.brokers.driver import JoinRequest
from app.brokers.rabbitmq import stream, stream_positions, stream_replicas
from app.brokers.rabbitmq.read_frames import Delivered
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.stream import OwnedStream, StreamConsumer
from app.brokers.rabbitmq.stream_ends import StreamEnds
from app.brokers.rabbitmq.topology import Topology
from app.interfaces import Commit
from app.model.message import Partition
from app.model.start import EARLIEST

PLACE = Partition("t", 0)
READ, STORED = 4, 9  # messages of the deleted stream that were read, and messages of the new one


class SlowOffsets:
    """A store of one position, which is saved when ``go_on`` is set."""

    def __init__(self) -> None:
        self.commit = Commit(0)
        self.saving, self.go_on = asyncio.Event(), asyncio.Event()

    async def offsets(self, *_: object) -> Mapping[Partition, Commit]:
        return {PLACE: self.commit}

    own_offsets = offsets

    async def save_offsets(self, *asked: Any) -> None:
        self.saving.set()
        await self.go_on.wait()
        self.commit = asked[-1][PLACE]


class Member(StreamConsumer):
    """A member that owns one stream, without a server."""

    def __init__(self, offsets: SlowOffsets) -> None:
        settings = RabbitSettings(name="r", addresses="one:5672")
        joining = JoinRequest("g", ["t"], EARLIEST)
        super().__init__(settings, Topology(settings), joining, cast("Any", offsets))
        self._queues.names = {PLACE: "t.0"}
        self._wire = cast("Any", SimpleNamespace(write=lambda _: None))

    async def own(self) -> OwnedStream:
        """Own the stream that exists, and return it."""
        owned = OwnedStream(PLACE, self._wire, lambda: None)
        owned.channel = cast("Any", SimpleNamespace(number=1, is_closed=False))
        await self._prepare_one(self._wire, owned)
        self._owned[PLACE] = owned
        return owned

    def lose(self) -> None:
        """Lose all streams, as when the broker ends their consumers."""
        self._lose(list(self._owned.values()))

    async def find_none(self) -> None:
        """Find that the stream does not exist."""
        await self._on_queue_missing(PLACE)


@pytest.fixture(autouse=True)
def streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give all streams the ends and the messages of the new one."""

    async def ends_of(*_: object) -> StreamEnds:
        return StreamEnds(0, STORED)

    async def peek(*asked: Any) -> list[Delivered]:
        return [Delivered(1, Record(None, (), b"new"), asked[2])]

    async def consume_from(*_: object) -> None: ...

    monkeypatch.setattr(stream_positions, "ends_of", ends_of)
    monkeypatch.setattr(stream_replicas, "ends_of", ends_of)
    monkeypatch.setattr(stream_positions, "peek", peek)
    monkeypatch.setattr(stream, "consume_from", consume_from)


async def lost(member: Member) -> None:
    member.lose()


async def lost_and_missing(member: Member) -> None:
    member.lose()
    await member.find_none()


@pytest.mark.parametrize("happens", [lost, lost_and_missing])
async def test_a_commit_under_way_skips_no_message_of_the_new_stream(
    happens: Callable[[Member], Awaitable[None]],
) -> None:
    """Rule 2. The stored position was taken for one that another member had stored in the new stream, so the member
    began there, and the first messages were never delivered."""
    offsets = SlowOffsets()
    member = Member(offsets)
    owned = await member.own()
    for number in range(READ):
        owned.delivered(Delivered(number + 1, Record(None, (), b"old"), number))
    owned.settle([each.offset for each in owned.take(READ)])
    committing = asyncio.create_task(member.commit())
    await offsets.saving.wait()
    noticed = asyncio.create_task(happens(member))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    offsets.go_on.set()
    await asyncio.gather(committing, noticed)
    assert offsets.commit == Commit(READ)
    assert (await member.own()).committed == Commit(0)


async def test_a_store_that_is_away_for_long_costs_no_memory() -> None:
    """Each commit without an answer may have been stored. The first and the last ones are remembered."""
    owned = await Member(SlowOffsets()).own()
    for offset in range(1, 1_000):
        owned.note_saving(Commit(offset))
    assert [each.offset for each in owned.stored] == [0, 1, *range(993, 1_000)]
