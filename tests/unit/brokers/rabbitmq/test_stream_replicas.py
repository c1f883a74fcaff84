"""A node whose replica of a stream lacks messages, after it was away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from app.brokers.rabbitmq import stream_positions, stream_replicas
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.stream_ends import StreamEnds
from app.brokers.rabbitmq.stream_positions import StreamPositions
from app.brokers.rabbitmq.stream_replicas import StreamReplicas
from app.errors import BrokerUnavailable, PositionOutOfRange
from app.interfaces import Commit
from app.model.message import Partition

PLACE = Partition("t", 0)
HERE, OTHER = "one:5672", "two:5672"


class Connection:
    def __init__(self, address: str) -> None:
        self.address = address

    async def hang_up(self) -> None: ...


class Offsets:
    """The position of the group is 338."""

    saved: Commit | None = None
    known: Mapping[Partition, Commit] = {}

    async def offsets(self, *_: object) -> Mapping[Partition, Commit]:
        return self.known

    async def own_offsets(self, *_: object) -> dict[Partition, Commit]:
        return {PLACE: Commit(338)}

    async def save_offsets(
        self, _broker: str, _group: str, _epoch: int, commits: dict[Partition, Commit]
    ) -> None:
        self.saved = commits[PLACE]


async def own(
    monkeypatch: pytest.MonkeyPatch, ends: dict[str, int], *, missing_at: int | None = None
) -> tuple[Commit, Offsets]:
    """Own a stream whose replicas end at these offsets, by their addresses. The others are cut off.

    ``missing_at`` is the position of the group at the time when this member found no stream; -1 for none.
    """

    async def connect(settings: RabbitSettings) -> Connection:
        if settings.addresses not in ends:
            raise ConnectionError("no route to host")
        return Connection(settings.addresses)

    async def ends_of(connection: Connection, _: str) -> StreamEnds:
        return StreamEnds(0, ends[connection.address])

    monkeypatch.setattr(stream_replicas, "connect", connect)
    for module in (stream_positions, stream_replicas):
        monkeypatch.setattr(module, "ends_of", ends_of)
    replicas = StreamReplicas(RabbitSettings(name="r", addresses=f"{HERE}, {OTHER}"))
    offsets = Offsets()
    positions = StreamPositions("r", "g", cast("Any", offsets), replicas)
    if missing_at is not None:
        offsets.known = {PLACE: Commit(missing_at)} if missing_at >= 0 else {}
        await positions.on_stream_missing(PLACE)
    return await positions.own(cast("Any", Connection(HERE)), PLACE, "q", 1), offsets


@pytest.mark.parametrize("here", [0, 300])
@pytest.mark.parametrize("other", [{OTHER: 340}, {}], ids=["whole", "cut off"])
async def test_a_replica_that_lacks_messages_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, here: int, other: dict[str, int]
) -> None:
    """The subscription stopped for good, and with an empty replica it went back to the first message."""
    with pytest.raises(BrokerUnavailable):
        await own(monkeypatch, {HERE: here, **other})


async def test_a_position_that_no_replica_has_is_out_of_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(PositionOutOfRange):
        await own(monkeypatch, {HERE: 300, OTHER: 300})


async def test_a_stream_that_is_empty_everywhere_is_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit, offsets = await own(monkeypatch, {HERE: 0, OTHER: 0})
    assert commit == offsets.saved == Commit(0)


async def test_the_other_replicas_are_not_asked_without_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await own(monkeypatch, {HERE: 338}))[0] == Commit(338)


async def test_a_stream_that_did_not_exist_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    commit, _ = await own(monkeypatch, {HERE: 340}, missing_at=338)
    assert commit == Commit(0)


@pytest.mark.parametrize("before", [-1, 20], ids=["no position", "an earlier position"])
async def test_what_another_owner_has_read_is_not_read_again(
    monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """A worker that started before the stream was made found none. Minutes later it took the stream from another worker, and
    read all of it again (``rabbitmq-streams-killed``, seed 1)."""
    assert (await own(monkeypatch, {HERE: 340}, missing_at=before))[0] == Commit(338)
