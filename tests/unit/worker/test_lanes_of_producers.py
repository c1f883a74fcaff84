"""``ordering: per_producer_key``: an event that fails holds up its own producer's events of that key, and no other's."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.model.message import Partition
from parking_steps import AT_ONCE, BUSY, parked_numbers
from waiting import until
from worker_doubles import an_event

ORDERS = Partition("orders", 0)
GROUP = "skybridge.test.billing"


def sent(number, producer, key="k", **attributes):
    """``producer``: "" for an event that no producer sent."""
    record = an_event(number, key, **attributes)
    beside = (("skybridge-producer", producer.encode()),) if producer else ()
    return replace(record, headers=(*record.headers, *beside))


async def finished(rig, count):
    while rig.log.committed(GROUP, ORDERS) < count:
        await rig.clock.advance(0.1)


@pytest.mark.parametrize(
    ("ordering", "waiting"), [("per_key", [0, 1, 2, 3]), ("per_producer_key", [0, 2])]
)
async def test_a_failing_event_holds_up_its_own_producer_alone(rig, ordering, waiting):
    """Another producer, and senders that are none, go on; under ``per_key`` they wait, for the order is a promise."""
    rig.sink.answer(0, BUSY)
    await rig.publish(sent(0, "a"), sent(1, "b"), sent(2, "a"), sent(3, ""), sent(4, "a", "other"))
    await rig.begin(retry=AT_ONCE, ordering=ordering)
    await until(lambda: parked_numbers(rig) == waiting)
    await finished(rig, 5)
    assert sorted(rig.sink.answered) == sorted(
        {"0", "1", "2", "3", "4"} - {str(n) for n in waiting[1:]}
    )


async def test_the_value_of_order_by_is_of_one_producer_too(rig):
    rig.sink.answer(0, BUSY)
    await rig.publish(
        *(sent(n, producer, f"k{n}", subject="s") for n, producer in enumerate("aba"))
    )
    await rig.begin(retry=AT_ONCE, ordering="per_producer_key", order_by="subject")
    await until(lambda: parked_numbers(rig) == [0, 2])
    await finished(rig, 3)


async def test_one_producers_events_of_a_key_keep_their_order(rig):
    rig.sink.answer(0, BUSY)
    await rig.publish(*(sent(n, "ab"[n % 2]) for n in range(8)))
    await rig.begin(retry=AT_ONCE, ordering="per_producer_key")
    await until(lambda: parked_numbers(rig) == [0, 2, 4, 6])
    await rig.clock.advance(3601)
    await until(lambda: not parked_numbers(rig))
    order = [int(each) for each in rig.sink.answered]
    assert [n for n in order if n % 2] == [1, 3, 5, 7]
    assert [n for n in order if not n % 2] == [0, 0, 2, 4, 6]


async def test_what_is_no_event_is_of_its_producer_too(rig):
    """It waits behind its own, not behind another's."""
    rig.sink.answer(0, BUSY)
    foreign = replace(sent(1, "b"), headers=(("skybridge-producer", b"b"),))
    await rig.publish(sent(0, "a"), foreign, sent(2, "a"))
    await rig.begin(retry=AT_ONCE, ordering="per_producer_key", on_foreign="wrap")
    await until(lambda: parked_numbers(rig) == [0, 2])
    await finished(rig, 3)
