"""Events that a route stores once: remembered in the transaction of their records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.bindings.record import Record
from app.brokers.embedded import ConsumerSettings, EmbeddedDriver, EngineSettings
from app.brokers.portable import PortableLog, PublishBounds
from app.event.value import CloudEvent
from app.model.receipt import Receipt
from app.model.route import Deduplicate, Route
from app.routing.identity import Identity, compile_identity
from log_steps import ManualTime

WINDOW = 600.0


def identity(
    number: int = 1, data: bytes | None = b"{}", producer: str = "", **setting: Any
) -> Identity:
    route = Route.model_validate(
        {
            "name": "orders",
            "to": {"broker": "log", "topic": "orders"},
            "deduplicate": {"window": WINDOW, **setting},
        }
    )
    identify = compile_identity(route)
    assert identify is not None
    event = CloudEvent({"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"}, data)
    found = identify(event, producer)
    assert found is not None
    return found


class House:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.time = ManualTime()

    async def open(self) -> None:
        settings = EngineSettings(
            path=self.folder, partitions=2, now_ms=self.time, retention_interval=3600
        )
        self.log = PortableLog(EmbeddedDriver(settings, ConsumerSettings()), PublishBounds())
        self.engine = self.log.driver.engine
        await self.log.start()

    async def reopen(self) -> None:
        await self.log.stop()
        await self.open()

    def submit(self, *identities: Identity | None, topic: str = "orders") -> Any:
        return self.log.submit(topic, [Record(b"k", (), b"{}")] * len(identities), identities)

    async def repeats(self, *identities: Identity | None, topic: str = "orders") -> list[str]:
        return [result.repeat for result in await self.submit(*identities, topic=topic)]

    @property
    def records(self) -> int:
        return sum(
            partition.next_offset
            for topic in self.engine.topics().values()
            for partition in topic.partitions
        )


@pytest.fixture
async def house(tmp_path):
    house = House(tmp_path / "log")
    await house.open()
    yield house
    await house.log.stop()


async def test_a_repeat_gets_the_receipt_of_the_first(house):
    ((first,), (second,)) = [await house.submit(identity()) for _ in range(2)]
    assert (first.repeat, second.repeat) == ("", "duplicate")
    assert second == Receipt("log", "orders", first.partition, first.position, "duplicate")
    assert house.records == 1


async def test_repeats_within_one_commit_group_and_one_submit(house):
    together = [house.submit(identity()), house.submit(identity(), identity(2), identity(2))]
    results = [receipt.repeat for results in await asyncio.gather(*together) for receipt in results]
    assert results == ["", "duplicate", "", "duplicate"]
    assert house.records == 2


async def test_a_restart_remembers(house):
    (first,) = await house.submit(identity())
    await house.reopen()
    (again,) = await house.submit(identity())
    assert (again.repeat, again.position) == ("duplicate", first.position)


async def test_other_data_is_stored_and_said(house):
    assert await house.repeats(identity(data=b"1"), identity(data=b"2")) == ["", "differs"]
    assert await house.repeats(identity(data=b"2")) == ["duplicate"]
    assert await house.repeats(identity(data=None)) == ["differs"]
    assert await house.repeats(identity(data=b"")) == ["differs"]


async def test_an_event_of_another_producer_is_another_event(house):
    assert await house.repeats(identity(producer="shop"), identity(producer="erp")) == ["", ""]


async def test_a_topic_remembers_for_itself(house):
    assert await house.repeats(identity()) == await house.repeats(identity(), topic="copy") == [""]


async def test_the_window_ends(house):
    await house.submit(identity())
    house.time.now_ms += round(WINDOW * 1000)
    assert await house.repeats(identity()) == ["duplicate"]
    house.time.now_ms += 1
    assert await house.repeats(identity()) == [""]
    assert house.records == 2


async def test_what_no_longer_counts_goes_from_the_file_and_the_memory(house):
    for number in range(5):
        await house.submit(identity(number))
    assert await house.engine.upkeep.forget_identities() == 0
    house.time.now_ms += round(WINDOW * 1000) + 1
    await house.submit(identity(9))
    assert await house.engine.upkeep.forget_identities() == 5
    assert house.engine.identities.count == 1
    await house.reopen()
    assert house.engine.identities.count == 1


async def test_the_newest_are_remembered_up_to_the_bound(house):
    bound = {"max_entries": 3}
    await house.submit(*[identity(number, **bound) for number in range(4)])
    await house.reopen()
    assert await house.repeats(identity(3, **bound), identity(1, **bound)) == ["duplicate"] * 2
    assert await house.repeats(identity(0, **bound)) == [""]


async def test_a_record_that_cannot_be_stored_is_not_remembered(house):
    bad, good = Record(b"k", (("\ud800", b""),), b"{}"), Record(b"k", (), b"{}")
    refused, stored = await house.log.submit("orders", [bad, good], [identity(1), identity(2)])
    assert not isinstance(refused, Receipt)
    assert stored.repeat == ""
    assert await house.repeats(identity(1), identity(2)) == ["", "duplicate"]


async def test_a_submission_that_nobody_waits_for_is_neither_stored_nor_remembered(house):
    """Rule 9: its sender was told "unknown", and the repeat is the event."""
    given_up = house.submit(identity())
    given_up.set_result([])
    assert await house.repeats(identity()) == [""]
    assert house.records == 1


async def test_a_topic_that_is_deleted_is_forgotten(house):
    await house.submit(identity())
    await house.engine.delete_topic("orders")
    assert await house.repeats(identity()) == [""]
    await house.reopen()
    assert await house.repeats(identity()) == ["duplicate"]


async def test_a_log_of_format_3_is_brought_up(house):
    await house.log.stop()
    db = apsw.Connection(str(house.folder / "log.db"))
    db.execute("DROP TABLE identities; DROP TABLE prints; PRAGMA user_version = 3")
    db.close()
    await house.open()
    assert await house.repeats(identity(), identity()) == ["", "duplicate"]


def test_a_window_has_bounds():
    for wrong in ({"window": "0s"}, {"window": "8d"}, {"max_entries": 0}, {"window": "soon"}):
        with pytest.raises(ValueError, match=r"window|max_entries"):
            Deduplicate.model_validate(wrong)


def test_a_document_that_nobody_reads_has_no_identity():
    identify = compile_identity(
        Route.model_validate({"name": "r", "to": {"broker": "b", "topic": "t"}, "deduplicate": {}})
    )
    assert identify is not None
    assert identify(CloudEvent({"type": "t"}), "") is None


def test_names_that_run_together_are_told_apart():
    """Length before text: producer "a" and source "b/s" are not producer "ab" and source "/s"."""
    identify = compile_identity(
        Route.model_validate({"name": "r", "to": {"broker": "b", "topic": "t"}, "deduplicate": {}})
    )
    assert identify is not None
    one = identify(CloudEvent({"id": "1", "source": "b/s"}), "a")
    other = identify(CloudEvent({"id": "1", "source": "/s"}), "ab")
    assert one is not None
    assert other is not None
    assert one.key != other.key
