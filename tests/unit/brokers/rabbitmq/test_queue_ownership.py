"""When a member believes that it no longer owns a queue."""

from __future__ import annotations

from typing import Any, cast

from app.brokers.rabbitmq.queue_ownership import QueueOwnership
from app.brokers.rabbitmq.settings import RabbitSettings
from app.errors import BrokerRefused

HOUR = 3600.0


class Broker:
    """Answers with the count of consumers. None means that the queue was deleted."""

    consumers: int | None = 1

    async def depth(self, _connection: object, queue: str) -> tuple[int, int]:
        if self.consumers is None:
            raise BrokerRefused(f"no queue {queue}", kind="unknown-topic")
        return 0, self.consumers


def ownership(broker: Broker, metadata_age: float) -> QueueOwnership:
    settings = RabbitSettings(name="r", metadata_age=metadata_age)
    return QueueOwnership(settings, cast("Any", broker))


async def answers(member: QueueOwnership, broker: Broker, *counts: int | None) -> list[bool]:
    found = []
    for broker.consumers in counts:
        found.append(await member.still_owned(cast("Any", None), "q"))
    return found


async def test_a_queue_that_elects_a_leader_is_kept() -> None:
    """While the leader was cut off, all members gave up all queues, and nothing was delivered for 26 s (seen by ``make proof
    ARGS="--scenario rabbitmq-leader"``)."""
    broker = Broker()
    assert await answers(ownership(broker, HOUR), broker, 1, 0, 0, 1, 0) == [True] * 5


async def test_a_queue_that_stays_without_a_consumer_is_given_up() -> None:
    """RabbitMQ 3.10 does not always report that a queue was deleted, if one of the same name is created at once."""
    broker = Broker()
    assert await answers(ownership(broker, 0.0), broker, 1, 0) == [True, False]


async def test_a_queue_that_was_deleted_is_given_up_at_once() -> None:
    broker = Broker()
    assert await answers(ownership(broker, HOUR), broker, 0, None, 0) == [True, False, True]
