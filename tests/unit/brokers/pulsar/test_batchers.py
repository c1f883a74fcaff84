"""What becomes of records when a client is replaced: order, and nothing sent that was answered."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from app.bindings.record import Record
from app.brokers.driver import DROPPED, Submission
from app.brokers.pulsar import producer as producers
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.batchers import UNKNOWN, Batcher, QueuedRecord, TopicBatchers
from app.brokers.pulsar.settings import PulsarSettings
from app.errors import BrokerUnavailable, PublishUnknown
from app.model.receipt import Receipt
from app.routing.partitions import partition_of
from app.telemetry import tasks
from waiting import until


class Ledger:
    """Tells a caller its results, as the portable log does."""

    def release(self, submission: Submission) -> None:
        if not submission.done():
            submission.set_result(submission.results)  # type: ignore[arg-type]


def submission() -> Submission:
    made = Submission(loop=asyncio.get_running_loop())
    made.owner = Ledger()
    made.topic, made.records = "t", [Record(b"k", (), b"x")]
    made.results, made.open, made.size, made.deadline = [None], 1, 1, 0.0
    return made


def batcher() -> Batcher:
    return TopicBatchers("t", ["t-partition-0"]).batchers[0]


def aboard(on: Batcher, count: int) -> list[QueuedRecord]:
    entries = [QueuedRecord(on, submission(), 0, Record(b"k", (), b"x")) for _ in range(count)]
    for entry in entries:
        entry.tried = True
    on.in_flight.update(dict.fromkeys(entries))
    return entries


def receipt(position: str) -> Receipt:
    return Receipt("pulsar", "t", 0, position)


async def test_what_is_unanswered_goes_to_the_next_client_in_its_order() -> None:
    """Order per key through an outage (reliability G3), ahead of what came meanwhile."""
    on = batcher()
    first, second = aboard(on, 2)
    later = QueuedRecord(on, submission(), 0, Record(b"k", (), b"later"))
    on.queue.append(later)
    on.recall()
    assert [entry.submission for entry in on.queue] == [
        first.submission, second.submission, later.submission,
    ]  # fmt: skip
    assert first.gone
    assert second.gone
    assert not on.in_flight


async def test_what_was_answered_is_dropped() -> None:
    """Rule 9: an event answered 503 is never sent again by us."""
    on = batcher()
    answered, open_ = aboard(on, 2)
    answered.submission.set_result([PublishUnknown("timed out")])
    assert on.holds_answered()
    on.recall()
    assert [entry.submission for entry in on.queue] == [open_.submission]
    assert answered.submission.results == [DROPPED]


async def test_one_that_failed_before_one_that_landed_is_not_sent_after_it() -> None:
    """Sending it again would turn the order of its key round."""
    on = batcher()
    failed, landed = aboard(on, 2)
    failed.failed = True
    on.succeed(landed, receipt("1:1"))
    assert failed.submission.result() == [UNKNOWN]
    assert landed.submission.result() == [receipt("1:1")]
    assert not on.in_flight


async def test_what_a_client_had_once_is_never_said_to_be_unsent() -> None:
    """It may be stored: the answer is "unknown" (rule 9); what no client had is known not to be."""
    on = batcher()
    aboard(on, 1)
    on.recall()
    fresh = QueuedRecord(on, submission(), 0, Record(b"k", (), b"x"))
    on.queue.append(fresh)
    tried = on.queue[0]
    on.fail_queued(BrokerUnavailable("away"))
    assert isinstance(tried.submission.result()[0], PublishUnknown)
    assert str(fresh.submission.result()[0]) == "away"


async def test_keys_go_where_kafkas_client_puts_them_and_others_in_turn() -> None:
    """One partition a key, whoever writes it (design: partition)."""
    topic = TopicBatchers("t", [f"t-partition-{n}" for n in range(5)])
    assert topic.batcher(b"foobar").number == partition_of(b"foobar", 5)
    assert {topic.batcher(None).number for _ in range(5)} == set(range(5))
    topic.grow([f"t-partition-{n}" for n in range(7)])
    assert [each.wire for each in topic.batchers][5:] == ["t-partition-5", "t-partition-6"]


class Client:
    """Takes what it is sent, and says nothing. It does not close while ``stuck`` has an error."""

    def __init__(self, stuck: list[Exception]) -> None:
        self._stuck = stuck
        self.sent: list[Any] = []

    async def producer(self, _wire: str, _on_lost: Any) -> Any:
        return SimpleNamespace(
            is_connected=lambda: True,
            send=lambda record, _done, _dropped: self.sent.append(record.body),
        )

    async def close(self) -> None:
        if self._stuck:
            raise self._stuck.pop()


async def test_a_client_that_does_not_let_itself_be_replaced_is_replaced_at_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it had is sent by the next one, and health tells."""
    monkeypatch.setattr(tasks, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(producers, "WATCH", 0.001)
    stuck: list[Exception] = [RuntimeError("stuck")]
    clients: list[Client] = []

    def connect(_: Any) -> Client:
        clients.append(Client(stuck))
        return clients[-1]

    monkeypatch.setattr(producers, "open_client", connect)
    settings = PulsarSettings(name="p", service_url="pulsar://h:1", admin_url="http://h:1")
    producer = producers.PulsarPublisher(settings, PulsarAdmin(settings))
    await producer.start()
    producer.topics.known["t"] = TopicBatchers("t", ["t-partition-0"])
    producer.publish(submission())
    await until(lambda: len(clients[0].sent) == 1)
    producer._taint("for this test")
    await until(lambda: len(clients) == 2 and len(clients[1].sent) == 1)
    assert any("RuntimeError: stuck" in cause for cause in tasks.FAILURES.causes())
    await producer.stop()
