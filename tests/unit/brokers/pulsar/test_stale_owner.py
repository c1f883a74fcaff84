"""A broker that was cut off still takes itself for the owner of a partition. What it does not know ends no replay."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pulsar
import pytest

from app.brokers.pulsar import PulsarSettings, start_positions
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.errors import AdminError
from app.brokers.pulsar.reader import read
from app.errors import PositionOutOfRange
from app.model.message import Partition
from app.model.start import StartAt
from threaded_http import QuietHandler, ThreadedServer

PLACE = Partition("orders", 0)


class Broker(ThreadedServer):
    """A broker of one partition.

    Attributes:
        owner: The broker that it names as the owner.
        last: The entry after which the partition ends, as it knows it.
    """

    def __init__(self, owner: str, last: int) -> None:
        super().__init__(_Handler)
        self.owner, self.last = owner, last


class _Handler(QuietHandler):
    server: Broker

    def get(self) -> None:
        if self.path.startswith("/lookup/"):
            found: dict[str, Any] = {"brokerUrl": self.server.owner}
        elif self.path.endswith("/partitions"):
            found = {"partitions": 1}
        elif "/partitioned-stats" in self.path:
            found = {"partitions": {"persistent://public/default/orders-partition-0": {}}}
        else:
            last = f"7:{self.server.last}"
            found = {"lastConfirmedEntry": last, "ledgers": [{"ledgerId": 7}], "cursors": {}}
        self.answer(200, json.dumps(found).encode())


class Reader:
    """A reader of the client library at a broker that has the entries up to ``last``. Each reconnection leads to the next."""

    def __init__(self, *last: int) -> None:
        self._last, self._next = list(last), 0

    def has_message_available(self) -> bool:
        if self._next <= self._last[0]:
            return True
        if len(self._last) > 1:
            self._last.pop(0)
        return False

    def read_next(self, _wait: int) -> Any:
        if self._next > self._last[0]:
            raise pulsar.Timeout
        self._next += 1
        entry = self._next - 1
        place = SimpleNamespace(ledger_id=lambda: 7, entry_id=lambda: entry, batch_index=lambda: -1)
        return SimpleNamespace(
            message_id=lambda: place,
            data=lambda: b"x",
            properties=dict,
            partition_key=lambda: "",
            has_null_value=lambda: False,
            publish_timestamp=lambda: 1,
            event_timestamp=lambda: 0,
        )

    def close(self) -> None:
        """Close nothing."""


class Connection:
    """A connection that gives out one reader, and runs its calls in place."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.bridge = self

    async def reader(self, *_: object) -> Reader:
        return self._reader

    async def ask(self, call: Any, *arguments: Any, within: float) -> Any:
        return call(*arguments)


@pytest.fixture
def brokers() -> Iterator[Sequence[Broker]]:
    """The first one was cut off when it had three entries. The second one is the owner and has six."""
    with Broker("pulsar://stale", 2) as stale, Broker("pulsar://owner", 5) as owner:
        yield stale, owner


def admin_of(brokers: Sequence[Broker]) -> PulsarAdmin:
    hosts = ",".join(each.address.removeprefix("http://") for each in brokers)
    return PulsarAdmin(
        PulsarSettings(name="main", service_url="pulsar://h:6650", admin_url=f"http://{hosts}")
    )


async def entries(brokers: Sequence[Broker], reader: Reader, start: str, until: str) -> list[str]:
    admin = admin_of(brokers)
    connection: Any = Connection(reader)
    try:
        return [each.position async for each in read(admin, connection, PLACE, start, until)]
    finally:
        await admin.stop()


@pytest.mark.parametrize("start", ["7:1", "7:4"], ids=["it has the start", "it has nothing of it"])
async def test_a_broker_that_lost_the_partition_ends_no_replay(
    brokers: Sequence[Broker], start: str
) -> None:
    """The replay ended after entry 2, and three messages of it were never sent."""
    with pytest.raises(AdminError, match=r"different owners of .*: pulsar://owner, pulsar://st"):
        await entries(brokers, Reader(2), start, "7:6")
    brokers[0].owner, brokers[0].last = "pulsar://owner", 5  # the cut is over
    expected = [f"7:{number}" for number in range(int(start[2:]), 6)]
    assert await entries(brokers, Reader(5), start, "7:6") == expected


async def test_a_reader_that_is_connected_to_it_ends_no_replay(brokers: Sequence[Broker]) -> None:
    """The owner tells the ends, but the connection of the reader leads to the broker that was cut off."""
    stale, owner = brokers
    with pytest.raises(AdminError, match="name different owners"):
        await entries((owner, stale), Reader(2), "7:0", "7:6")
    stale.owner = "pulsar://owner"
    assert len(await entries((owner, stale), Reader(2, 5), "7:0", "7:6")) == 6


async def test_an_owner_whom_all_name_ends_it_where_its_messages_end(
    brokers: Sequence[Broker],
) -> None:
    """A position that no broker has, and entries that are no messages, must not keep a replay waiting."""
    assert len(await entries(brokers[1:], Reader(5), "7:0", "7:9")) == 6
    assert len(await entries(brokers[1:], Reader(3), "7:0", "7:6")) == 4
    with pytest.raises(PositionOutOfRange):
        await entries(brokers[1:], Reader(5), "7:8", "7:9")


async def test_it_refuses_no_start_of_a_subscription(
    brokers: Sequence[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscription stops until a person acts if its start is out of range."""
    monkeypatch.setattr(start_positions, "MADE_WITHIN", 0.0)
    admin = admin_of(brokers)
    try:
        with pytest.raises(AdminError, match="name different owners"):
            start = StartAt("position", positions={0: "7:5"})
            await start_positions.prepare(admin, "workers", ["orders"], start)
    finally:
        await admin.stop()
