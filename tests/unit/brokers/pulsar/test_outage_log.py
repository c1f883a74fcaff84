"""An outage of Pulsar is one line of the log, not one for each partition."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from pulsar import Result

from app.bindings.record import Record
from app.brokers.driver import Submission
from app.brokers.pulsar import producer as producers
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.batchers import TopicBatchers
from app.brokers.pulsar.errors import ClientError
from app.brokers.pulsar.outage_log import PartitionFaults, fault_of
from app.brokers.pulsar.settings import PulsarSettings
from waiting import until


def test_a_fault_is_new_until_a_partition_has_it() -> None:
    faults = PartitionFaults()
    assert [faults.is_new(each, "away") for each in ("a", "b", "a")] == [True, False, False]
    assert faults.is_new("b", "terminated")
    faults.clear("a")
    assert faults.is_new("b", "away")
    of_two = {fault_of(ClientError(Result.ConnectError, each)) for each in ("p-0", "p-1")}
    assert of_two == {"ClientError ConnectError"}


class Away:
    """A client whose cluster does not answer."""

    async def producer(self, wire: str, _on_lost: Any, /) -> Any:
        raise ClientError(Result.ConnectError, wire)

    async def close(self) -> None:
        """Nothing is open."""


class Owner:
    """The log that a submission belongs to."""

    def release(self, submission: Submission) -> None:
        if not submission.done():
            submission.set_result(submission.results)  # type: ignore[arg-type]


def submission() -> Submission:
    """A record without a key, which goes to the next partition."""
    made = Submission(loop=asyncio.get_running_loop())
    made.owner = Owner()
    made.topic, made.records = "t", [Record(None, (), b"x")]
    made.results, made.open, made.size, made.deadline = [None], 1, 1, 0.0
    return made


async def test_partitions_that_are_away_together_are_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(producers, "open_client", lambda _: Away())
    settings = PulsarSettings(name="p", service_url="pulsar://h:1", admin_url="http://h:1")
    publisher = producers.PulsarPublisher(settings, PulsarAdmin(settings))
    await publisher.start()
    topic = TopicBatchers("t", [f"t-partition-{number}" for number in range(20)])
    publisher.topics.known["t"] = topic
    with caplog.at_level(logging.INFO):
        for _ in topic.batchers:
            publisher.publish(submission())
        await until(lambda: all(each.cause for each in topic.batchers))
    assert len([each for each in caplog.messages if "perhaps not alone" in each]) == 1
    await publisher.stop()
