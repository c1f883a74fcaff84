"""What a member owns, what a commit would change, and until when it may be sure."""

from __future__ import annotations

from types import SimpleNamespace

from aiokafka import TopicPartition
from aiokafka.protocol.group import HeartbeatRequest, SyncGroupRequest

from app.bindings.record import Record
from app.brokers.kafka.membership import KafkaMembership
from app.brokers.kafka.ownership import OwnedPartitions
from app.delivery.offsets import FinishedRuns
from app.model.message import Message, Partition

PLACE = Partition("t", 0)
KAFKA_PLACE = TopicPartition("t", 0)


def message(offset: int, epoch: int, partition: Partition = PLACE) -> Message:
    return Message(Record(None, (), b""), partition, str(offset), offset, 0, epoch)


def owned(epoch: int = 3, committed: int = 10) -> OwnedPartitions:
    made = OwnedPartitions(epoch, {PLACE: FinishedRuns(committed)})
    for offset in range(committed, committed + 5):
        assert made.take(PLACE, offset)
    return made


def test_a_commit_is_due_only_when_it_would_change_something() -> None:
    """An idle member must not write commits for ever."""
    made = owned()
    assert made.due() == {}
    made.settle([message(10, 3), message(12, 3)])
    due = made.due()
    assert due == {KAFKA_PLACE: (11, "f1:1")}
    made.committed(due, now=0.0)
    assert made.due() == {}


def test_what_was_written_long_ago_is_written_again_though_nothing_changed() -> None:
    """Rule 10: a subscription may be paused for longer than the cluster remembers positions. How old
    the commit is that we found at the assignment nobody knows."""
    made = OwnedPartitions(3, {PLACE: FinishedRuns(10)})
    assert made.due(before=0.0) == {KAFKA_PLACE: (10, "")}
    made.committed(made.due(before=0.0), now=100.0)
    assert made.due(before=100.0) == {}
    assert made.due(before=100.1) == {KAFKA_PLACE: (10, "")}


def test_what_is_settled_under_an_older_epoch_is_void() -> None:
    """Somebody else may have owned the partition in between (rule 5)."""
    made = owned(epoch=3)
    made.settle([message(10, 2), message(11, 4)])
    assert made.due() == {}
    assert not made.has(message(10, 2))
    assert made.has(message(10, 3))


def test_what_is_not_ours_is_neither_taken_nor_settled() -> None:
    """A fetch may end after the ownership did."""
    made, other = owned(), Partition("t", 1)
    assert not made.take(other, 5)
    made.settle([message(5, 3, other)])
    assert made.due() == {}
    assert made.window(other) == 0


async def test_a_lease_counts_from_when_the_answered_heartbeat_left() -> None:
    """The group may give partitions away one session after it last heard of us; by our clock that
    began no earlier than when we spoke (rule 5). An answer that says "unknown member" renews nothing."""
    now, code = 100.0, 0

    async def send(_node: int, _request: object, **_options: object) -> SimpleNamespace:
        nonlocal now
        now += 2.0  # the answer takes its time
        return SimpleNamespace(error_code=code)

    consumer = SimpleNamespace(_client=SimpleNamespace(send=send, ready=None))
    membership = KafkaMembership(consumer, session_timeout=10.0, monotonic=lambda: now)
    assert not membership.has_lease()
    await consumer._client.send(1, SyncGroupRequest("g", 1, "m", None, []))
    assert membership.has_lease()
    now = 109.9
    assert membership.has_lease()
    now = 110.0
    assert not membership.has_lease()
    code = 25
    await consumer._client.send(1, HeartbeatRequest("g", 1, "m"))
    assert not membership.has_lease(), "thrown out"
    code = 27
    await consumer._client.send(1, HeartbeatRequest("g", 1, "m"))
    assert membership.has_lease(), "a rebalance is under way, and the member still counts"
