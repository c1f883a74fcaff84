"""Events that a route stores once on a broker whose transactions cannot hold their identities."""

from __future__ import annotations

import asyncio

import pytest

from app.bindings.record import Record
from app.brokers.recent import RecentPublishes
from app.errors import BrokerUnavailable, PublishUnknown
from app.model.receipt import Receipt
from app.routing.identity import Identity, Window
from scripted_log import ScriptedLog

RECORD = Record(b"k", (), b"{}")
WINDOW = Window("orders", 1_000, 3)


def identity(number: int = 1, data: bytes = b"same-one") -> Identity:
    return Identity(WINDOW, number.to_bytes(16), data)


class House:
    def __init__(self) -> None:
        self.broker = ScriptedLog("kafka")
        self.now = 0
        self.recent = RecentPublishes("kafka", self.broker.submit, lambda: self.now)

    def submit(self, *identities: Identity | None) -> asyncio.Future[list]:
        return self.recent.submit("orders", [RECORD] * len(identities), identities)

    async def settled(self, which: int, *results: object) -> None:
        self.broker.settle(which, *results)
        await asyncio.sleep(0)  # callbacks of futures run in the next turn

    @property
    def sent(self) -> int:
        return len(self.broker.submits)


@pytest.fixture
async def house() -> House:
    return House()


async def test_a_repeat_gets_the_receipt_of_the_first(house):
    first = house.submit(identity())
    await house.settled(0)
    (receipt,) = await house.submit(identity())
    assert receipt == Receipt("kafka", "orders", 0, "0", "duplicate")
    assert ((await first)[0].repeat, house.sent) == ("", 1)


async def test_a_repeat_waits_for_the_first(house):
    first, second = house.submit(identity()), house.submit(identity())
    assert house.sent == 1
    await house.settled(0)
    assert [(await each)[0].repeat for each in (first, second)] == ["", "duplicate"]


@pytest.mark.parametrize("error", [PublishUnknown("late"), BrokerUnavailable("away")])
async def test_a_repeat_is_published_where_the_first_failed_or_is_unknown(house, error):
    first, second, third = (house.submit(identity()) for _ in range(3))
    await house.settled(0, error)
    assert house.sent == 2  # the second is the event now, and the third waits for it
    await house.settled(1)
    assert (await first)[0] is error
    assert [(await each)[0].repeat for each in (second, third)] == ["", "duplicate"]


async def test_other_data_is_stored_and_said_at_once_or_later(house):
    first, other = house.submit(identity()), house.submit(identity(data=b"other-on"))
    await house.settled(0)
    await house.settled(1)
    assert [(await each)[0].repeat for each in (first, other)] == ["", "differs"]
    third = house.submit(identity())
    await house.settled(2)
    assert (await third)[0].repeat == "differs"


async def test_the_window_and_the_number_are_bounds(house):
    for number in range(4):
        house.submit(identity(number))
        await house.settled(number)
    assert house.recent.count == 3
    assert house.submit(identity(3)).done()
    assert not house.submit(identity(0)).done()
    house.now = 1_001
    assert not house.submit(identity(3)).done()


async def test_a_batch_keeps_its_order_and_tells_of_each(house):
    batch = house.submit(identity(1), None, identity(1), identity(2))
    assert house.sent == 3
    for which in range(3):
        await house.settled(which)
    assert [receipt.repeat for receipt in await batch] == ["", "", "duplicate", ""]
    assert [receipt.position for receipt in await batch] == ["0", "1", "0", "2"]


@pytest.mark.parametrize("broken", [None, RuntimeError("broken")])
async def test_a_batch_ends_also_where_a_part_breaks_its_word(house, broken):
    """An end that nobody told would leave the request open for ever."""
    batch = house.submit(identity(1), identity(2))
    await house.settled(0)
    second = house.broker.submits[1].future
    second.cancel() if broken is None else second.set_exception(broken)
    with pytest.raises(asyncio.CancelledError if broken is None else RuntimeError):
        async with asyncio.timeout(10):
            await batch


async def test_a_route_remembers_no_more_however_many_topics_it_has(house):
    """Topics of RabbitMQ are routing keys: a template makes as many as a sender likes."""
    for number in range(50):
        house.recent.submit(f"orders.{number}", [RECORD], [identity(number)])
        await house.settled(number)
    assert house.recent.count == WINDOW.most
    assert len(house.recent._recent) == 1


async def test_one_identity_on_two_topics_is_two_events(house):
    for number, topic in enumerate(("a", "b")):
        house.recent.submit(topic, [RECORD], [identity()])
        await house.settled(number)
    assert house.sent == 2
