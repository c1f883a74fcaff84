"""Steps that the parking tests share. They act on the ``rig`` of the worker tests."""

from __future__ import annotations

from typing import Any

from app.interfaces import Parked, SinkAnswer
from waiting import until
from worker_doubles import an_event

BUSY = SinkAnswer(409, body=b"busy")  # 409 blames this event, not the endpoint
AT_ONCE = {"schedule": ["1h", "1h"], "hold": 0}


def rows(rig: Any) -> list[Parked]:
    return sorted(rig.store.parked.rows_by_id.values(), key=lambda row: row.message.offset)


def parked(rig: Any) -> list[int]:
    """Return the numbers of the parked events, in order."""
    return [int(row.message.record.body or b"") for row in rows(rig)]


async def parked_and_refused(rig: Any) -> None:
    """Park event 0, then let the endpoint ask for a pause of 10 s at event 1, which has another
    key."""
    rig.sink.answer(0, BUSY)
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry=AT_ONCE, concurrency=1)
    await until(lambda: parked(rig) == [0])
    rig.sink.answer(1, SinkAnswer(503, retry_after="10"))
    await rig.publish(an_event(1, "b"))
    await rig.answered(0, 1)


async def parked_across(rig: Any, partitions: int) -> None:
    """Park six events of one subject, spread over the given number of partitions."""
    await rig.log.create_topic("orders", partitions)
    for number in range(6):
        rig.sink.answer(number, BUSY)
    await rig.publish(*(an_event(n, f"k{n}", subject="s") for n in range(6)))
    await rig.begin(order_by="subject", retry=AT_ONCE)
    await until(lambda: len(rows(rig)) == 6)
