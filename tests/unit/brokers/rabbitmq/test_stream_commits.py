"""The commits of a member that owns streams."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

import pytest

from app.brokers.driver import JoinRequest
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.stream import OwnedStream, StreamConsumer
from app.errors import StoreUnavailable
from app.interfaces import Commit
from app.model.message import Assigned, Lost, Partition
from app.model.start import EARLIEST
from memory_tables import OffsetRows

PLACES = [Partition("t", number) for number in range(3)]
EPOCH, NEWER = 7, 1  # random numbers: the claim that came last counts
FINISHED = Commit(5)


class FinishedStream(OwnedStream):
    """A stream of which this member has finished all messages."""

    commit = FINISHED  # type: ignore[assignment]


class Member(StreamConsumer):
    """A member that owns streams, without a broker."""

    def own(self, partition: Partition) -> None:
        owned = FinishedStream(partition, cast("Any", None), lambda: None)
        owned.begin(Commit(0))
        owned.epoch = EPOCH
        self._owned[partition] = owned


class AwayStore(OffsetRows):
    """A store that does not answer while ``away``."""

    away = False

    async def save_offsets(
        self, broker: str, group: str, epoch: int, commits: Mapping[Partition, Commit]
    ) -> None:
        if self.away:
            raise StoreUnavailable("nobody listens")
        await super().save_offsets(broker, group, epoch, commits)


async def member_of(offsets: OffsetRows) -> Member:
    """Return a member that owns three streams and has finished their messages."""
    await offsets.start_offsets("r", "g", dict.fromkeys(PLACES, Commit(0)))
    await offsets.own_offsets("r", "g", EPOCH, PLACES)
    joining = JoinRequest(group="g", topics=["t"], start=EARLIEST, client_id="c")
    member = Member(RabbitSettings(name="r"), cast("Any", None), joining, offsets)
    for place in PLACES:
        member.own(place)
    return member


async def test_a_store_that_is_away_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Positions are committed whenever the streams come to rest, which is many times a second."""
    offsets = AwayStore()
    member = await member_of(offsets)
    for offsets.away in (True, True, False, True):
        for partition in PLACES:
            member.own(partition)
        with caplog.at_level(logging.INFO):
            await member.commit()
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO", "WARNING"]
    assert "nobody listens" in caplog.text


async def test_a_member_gives_up_the_streams_of_which_a_commit_is_refused() -> None:
    """Two owners may send at the same time for at most the lease (guarantees). The broker tells neither of them, if the guard
    was lost with its node; the store refuses the commits of one."""
    offsets = OffsetRows()
    member = await member_of(offsets)
    await offsets.own_offsets("r", "g", NEWER, PLACES[:1])
    await member.commit()
    stored = await offsets.offsets("r", "g", PLACES)
    assert list(stored.values()) == [Commit(0), FINISHED, FINISHED]
    assert await member.poll(0) == Lost((PLACES[0],), EPOCH)
    await offsets.own_offsets("r", "g", NEWER, PLACES)
    await member.commit()
    assert await member.poll(0) is None, "nothing is due, so nothing is refused"


async def test_a_stream_that_was_paused_when_its_connection_was_lost_is_read_again() -> None:
    """A member forgot to end the pause, and handed out nothing of the stream for 25 minutes."""
    member = await member_of(OffsetRows())
    member.pause(PLACES)
    member._lose(list(member._owned.values()))
    assert isinstance(await member.poll(0), Lost)
    for place in PLACES:
        member.own(place)
    member._enqueue(Assigned(tuple(PLACES), EPOCH))
    assert isinstance(await member.poll(0), Assigned)
    assert member._paused == {}
