"""Cases of the broker contract on bounds, health, outages and shutdown."""

from __future__ import annotations

import asyncio
import time

import pytest

from app.brokers.portable import PortableLog, PublishBounds
from app.errors import (
    BoundReached,
    BrokerError,
    BrokerUnavailable,
)
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from contract_tools import (
    PATIENCE,
    SERVER,
    Harness,
    assigned,
    fresh_group,
    lacks,
    publish,
    text,
    until_healthy,
)
from waiting import until


class OutageCase:
    """The test case of an outage. Some suites run this case alone, on a server that no other test
    uses."""

    async def test_it_heals_when_the_broker_comes_back(self, harness: Harness) -> None:
        """The log reports an outage as unhealthy, and recovers without help when the broker is
        back.
        """
        if lacks(harness, SERVER):
            return
        log = await harness.make_log(bounds=PublishBounds(publish_timeout=1.0))
        topic = await harness.fresh_topic(log)
        await harness.take_away()
        (result,) = await log.submit(topic, [text("lost", "k")])
        assert isinstance(result, BrokerUnavailable)
        await self._health_becomes(log, expected=False)
        await harness.bring_back()
        await self._health_becomes(log, expected=True)
        await self._takes_again(log, topic)
        await log.stop()

    async def _takes_again(self, log: PortableLog, topic: str) -> None:
        """Publish until the log stores a record. A broker that is back may still be opening the
        topic.
        """
        async with asyncio.timeout(PATIENCE):
            while True:
                (result,) = await log.submit(topic, [text("stored", "k")])
                if isinstance(result, Receipt):
                    return
                assert isinstance(result, BrokerUnavailable), result
                await asyncio.sleep(0.1)

    async def _health_becomes(self, log: PortableLog, *, expected: bool) -> None:
        deadline = time.monotonic() + PATIENCE
        while (await log.health()).healthy is not expected:
            assert time.monotonic() < deadline, f"health did not become {expected}"
            await asyncio.sleep(0.05)


class RunningCases(OutageCase):
    """Test cases of a running log. A base of ``BrokerContract``."""

    async def test_a_full_bound_is_answered_with_when_to_come_back(self, harness: Harness) -> None:
        """Submissions above a bound are refused with a time to wait (Retry-After), so that memory
        does not grow."""
        log = await harness.make_log(bounds=PublishBounds(records=2, retry_after=3.0))
        topic = await harness.fresh_topic(log)
        results = await log.submit(topic, [text(str(n)) for n in range(3)])
        assert all(isinstance(result, BoundReached) for result in results)
        assert {r.retry_after for r in results if isinstance(r, BrokerError)} == {3.0}
        await publish(log, topic, [text("a"), text("b")])
        assert log.stats().records_in_flight == 0
        await log.stop()

    async def test_health_is_true_while_running_and_false_after_stop(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """The health of a log is true while the log runs and false after it was stopped."""
        await until_healthy(log)
        await log.stop()
        health = await log.health()
        assert not health.healthy
        assert health.cause
        (result,) = await log.submit("anything", [text("x")])
        assert isinstance(result, BrokerUnavailable)

    async def test_closing_and_cancelling_leave_no_task_behind(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """Closed consumers and cancelled requests leave no task running, which would exhaust a
        long-lived process.
        """
        before = asyncio.all_tasks()
        topic = await harness.fresh_topic(log)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await assigned(consumer)
        polling = asyncio.create_task(consumer.poll(30.0))
        await asyncio.sleep(0)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        abandoned = log.submit(topic, [text("x")])
        abandoned.cancel()
        await consumer.close()
        await consumer.close()
        await log.stop()
        await log.stop()
        await until(lambda: asyncio.all_tasks() <= before)
        assert log.stats().records_in_flight == 0

    async def test_closing_ends_a_poll_that_waits(self, harness: Harness, log: PortableLog) -> None:
        """Closing a consumer ends a waiting poll, so that shutdown does not wait for the next
        message.
        """
        topic = await harness.fresh_topic(log)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await assigned(consumer)
        polling = asyncio.create_task(consumer.poll(60.0))
        await asyncio.sleep(0)
        await consumer.close()
        assert not isinstance(await asyncio.wait_for(polling, PATIENCE), tuple)
