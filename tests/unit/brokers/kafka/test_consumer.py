"""What a member does when its client, or its own background work, turns against it."""

from __future__ import annotations

from typing import Any

import pytest

from app.brokers.driver import JoinRequest
from app.brokers.kafka.consumer import KafkaConsumer
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.tail import PartitionTail
from app.model.message import Partition
from app.model.start import EARLIEST

SETTINGS = KafkaSettings(name="kafka", bootstrap_servers="127.0.0.1:1", commit_interval=0.0)


def no_tail(_: Partition) -> PartitionTail:
    raise NotImplementedError


@pytest.fixture
async def consumer() -> Any:
    """A member that never joined: what its client would do is the test's to say."""
    consumer = KafkaConsumer(
        SETTINGS, JoinRequest("g", ["orders"], EARLIEST), no_tail, lambda: None
    )
    yield consumer
    await consumer.close()


async def test_a_committing_task_that_dies_is_told_by_poll(
    consumer: KafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nothing would ever be committed again, and nobody would know (rule 2)."""

    async def broken() -> None:
        raise ZeroDivisionError

    consumer._commits.start()
    with monkeypatch.context() as breaking:
        breaking.setattr(consumer._commits, "now", broken)
        await consumer.settle([])
        with pytest.raises(ZeroDivisionError):
            await consumer.poll(5.0)
