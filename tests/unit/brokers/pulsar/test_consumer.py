"""A member whose broker is out of reach."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from app.brokers.driver import JoinRequest
from app.brokers.pulsar.bridge import Bridge
from app.brokers.pulsar.consumer import PulsarConsumer
from app.brokers.pulsar.owned_partition import STANDBY
from app.brokers.pulsar.settings import PulsarSettings
from app.model.message import Partition
from app.model.start import EARLIEST

SETTINGS = PulsarSettings(
    name="pulsar",
    service_url="pulsar://127.0.0.1:1",
    admin_url="http://127.0.0.1:1",
    reconnect_within=-1.0,
)


class Connection:
    """Never answers."""

    def __init__(self) -> None:
        self.bridge = Bridge(asyncio.get_running_loop())
        self.asked: list[str] = []

    async def consumer(self, wire: str, _group: str, _name: str, _listener: object) -> None:
        self.asked.append(wire)
        await asyncio.Event().wait()


class Owners:
    async def leave(self, _member: object) -> None:
        """Nobody asks."""


async def test_a_partition_out_of_reach_keeps_nobody_waiting() -> None:
    """Owners are asked for all members in turn: a look that waits lets the leases of the others run
    out, and what they deliver stands still (rule 5)."""
    connection = Connection()
    consumer = PulsarConsumer(
        SETTINGS, None, connection, Owners(), JoinRequest("g", ["t"], EARLIEST, client_id="c")
    )
    wires = [f"t-partition-{number}" for number in range(3)]
    for number, wire in enumerate(wires):
        consumer._owned_at(Partition("t", number), wire)
    before = asyncio.all_tasks()
    async with asyncio.timeout(60):
        await consumer.check_connections()
        await asyncio.sleep(0)
        await consumer.check_connections()
        await asyncio.sleep(0)
        assert sorted(connection.asked) == wires, "each once, while it is under way"
        await consumer.close()
    assert asyncio.all_tasks() == before


class Handle:
    """A consumer of the library that is connected until it is closed."""

    def __init__(self, listener: Callable[[Any, Any], None]) -> None:
        self.listener = listener
        self.closed = False

    def is_connected(self) -> bool:
        return not self.closed

    def close(self) -> None:
        self.closed = True

    def pause_message_listener(self) -> None: ...
    def resume_message_listener(self) -> None: ...


class Library:
    """Opens consumers at once."""

    def __init__(self) -> None:
        self.bridge = Bridge(asyncio.get_running_loop())
        self.handles: list[Handle] = []

    async def consumer(self, _wire: str, _group: str, _name: str, listener: Any) -> Handle:
        assert all(each.closed for each in self.handles), "two consumers would have one name"
        self.handles.append(Handle(listener))
        return self.handles[-1]


async def test_a_consumer_whose_messages_were_forgotten_is_replaced_before_it_owns_again() -> None:
    """The broker made another consumer the owner, and this one again, and sent it nothing again. So events
    were late and out of order, or waited until the connection was lost."""
    library = Library()
    member = PulsarConsumer(
        SETTINGS, None, library, Owners(), JoinRequest("g", ["t"], EARLIEST, client_id="c")
    )  # fmt: skip
    await member._join_partitions("t", {0: "t-partition-0"})
    (owned,) = member._owned.values()

    async def told(active: str) -> None:
        subscription = SimpleNamespace(active_consumer_name=active)
        stats = SimpleNamespace(subscriptions={"g": subscription})
        await member.apply_ownership("t", {"t-partition-0": stats}, time.monotonic())
        for task in list(member._returning.values()):
            await task

    await told(member._name)
    assert owned.epoch != STANDBY
    owned._waiting.append((None, None))  # type: ignore[arg-type] - is forgotten
    owned.leaving = True
    owned.release()
    await told("another")
    assert len(library.handles) == 1, "a member that does not own it keeps its consumer"
    await told(member._name)
    assert (owned.epoch, len(library.handles)) == (STANDBY, 2)
    await told(member._name)
    assert owned.epoch != STANDBY
    assert len(library.handles) == 2
    await member.close()
