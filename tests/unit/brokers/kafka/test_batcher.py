"""The queue of a partition: what leaves, what is dropped, what is looked for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from app.bindings.record import Record
from app.brokers.aiokafka_adapter import batch_builder
from app.brokers.driver import DROPPED
from app.brokers.kafka import topic_state
from app.brokers.kafka.batcher import Batcher, Entry, TopicBatchers
from app.brokers.portable import LIMIT_KNOWN, Submission
from app.brokers.topic_resolver import REFUSED_FOR
from app.errors import BrokerRefused, UnclearRefusal
from app.model.receipt import Receipt
from app.routing.partitions import partition_of


class Owner:
    """Stands where the portable log stands: it hears when a submission has all its fates."""

    def __init__(self) -> None:
        self.released: list[Submission] = []

    def release(self, submission: Submission) -> None:
        self.released.append(submission)
        if not submission.done():
            submission.set_result(submission.results)


def submission(owner: Owner, records: Sequence[Record]) -> Submission:
    made = Submission(loop=asyncio.get_running_loop())
    made.owner = owner  # type: ignore[assignment]
    made.topic = "t"
    made.records = records
    made.results = [None] * len(records)
    made.open = len(records)
    made.size = 0
    return made


def record(text: str, key: bytes | None = b"k") -> Record:
    return Record(key, (), text.encode())


def batch(size: int = 16_384) -> Any:
    return batch_builder(size)


def queue(lane: Batcher, owner: Owner, *texts: str) -> list[Submission]:
    made = [submission(owner, [record(text)]) for text in texts]
    lane.queue.extend((each, 0, each.records[0]) for each in made)
    return made


def texts(entries: Sequence[Entry]) -> list[str]:
    return [(entry[2].body or b"").decode() for entry in entries]


@pytest.fixture
def lane() -> Batcher:
    return TopicBatchers("t", 1).batchers[0]


@pytest.fixture
async def owner() -> Owner:
    return Owner()


async def test_whoever_went_away_is_not_sent(lane: Batcher, owner: Owner) -> None:
    """What is on the wire cannot be recalled (reliability 5.1): this send never begins."""
    _, gone, _ = queue(lane, owner, "first", "gone", "last")
    gone.cancel()
    assert lane.fill(batch())
    assert texts(lane.in_flight) == ["first", "last"]
    assert owner.released == [gone], "it leaves the bounds at once"


async def test_whoever_was_answered_is_not_sent_again(lane: Batcher, owner: Owner) -> None:
    """Rule 9: after the answer, what was aboard of a failed batch is dropped."""
    _, answered, _ = queue(lane, owner, "first", "answered", "last")
    lane.fill(batch())
    assert not lane.holds_answered()
    answered.set_result([DROPPED])
    assert lane.holds_answered(), "this batch may not go on the wire again"
    lane.requeue()
    assert texts(lane.queue) == ["first", "last"]
    assert owner.released == [answered]


async def test_a_full_batch_leaves_the_rest_for_the_next(lane: Batcher, owner: Owner) -> None:
    """Nobody waits for room: what does not fit stays in the queue, in its order."""
    queue(lane, owner, *(f"{n:03d}" + "x" * 100 for n in range(50)))
    order: list[str] = []
    while lane.fill(batch(1_000)):
        assert lane.size <= 1_000
        order += [text[:3] for text in texts(lane.in_flight)]
        lane.succeed("main", 0)
    assert order == [f"{n:03d}" for n in range(50)]


async def test_the_work_grows_with_the_records_and_not_with_their_square(
    lane: Batcher, owner: Owner
) -> None:
    """aiokafka's own send wakes every waiter for each batch that leaves (reliability 5.1, #528).
    Here each record is offered to a batch once, and once more where it closes one."""
    offered = batches = 0

    class Counting:
        def __init__(self) -> None:
            self._builder = batch(2_000)
            self.size, self.build = self._builder.size, self._builder.build

        def append(self, *fields: Any) -> object:
            nonlocal offered
            offered += 1
            return self._builder.append(*fields)

    queue(lane, owner, *("x" * 100 for _ in range(5_000)))
    while lane.fill(Counting()):
        batches += 1
        lane.succeed("main", 0)
    assert batches > 100
    assert offered <= 5_000 + batches


async def test_offsets_follow_the_order_in_the_batch(lane: Batcher, owner: Owner) -> None:
    """The broker tells the first offset only."""
    made = queue(lane, owner, "a", "b", "c")
    lane.fill(batch())
    lane.succeed("main", 41)
    assert [each.results for each in made] == [
        [Receipt("main", "t", 0, position)] for position in ("41", "42", "43")
    ]


async def test_the_culprit_is_found_by_halving(lane: Batcher, owner: Owner) -> None:
    """The broker objects to a batch without saying to which record: only the culprit is refused."""
    made = queue(lane, owner, *(f"{n}" for n in range(37)))
    attempts = 0
    while lane.fill(batch()):
        attempts += 1
        if "23" not in texts(lane.in_flight):
            lane.succeed("main", 0)
        elif len(lane.in_flight) > 1:
            lane.narrow()
            lane.requeue()
        else:
            lane.fail(BrokerRefused("no"))
    refused = [n for n, each in enumerate(made) if isinstance(each.results[0], BrokerRefused)]
    assert refused == [23]
    assert attempts < 37
    queue(lane, owner, *"abcdefgh")
    lane.fill(batch())
    assert len(lane.in_flight) == 8, "afterwards batches are as large as ever"


async def test_a_record_that_is_none_is_refused_alone(lane: Batcher, owner: Owner) -> None:
    """What cannot be written is a bug of a caller, and harms no neighbour and no task."""
    good = submission(owner, [record("good")])
    odd = submission(owner, [Record(b"k", (("\ud800", b""),), b"")])
    lane.queue.extend([(odd, 0, odd.records[0]), (good, 0, good.records[0])])
    assert lane.fill(batch())
    assert texts(lane.in_flight) == ["good"]
    assert isinstance(odd.results[0], BrokerRefused)
    assert odd.results[0].kind == "unwritable"


async def test_records_without_a_key_move_on_with_each_wire_batch() -> None:
    """Sticky per wire batch: large batches, and no partition is left out."""
    topic = TopicBatchers("t", 3)
    used = []
    for _ in range(6):
        lane = topic.batcher(None)
        assert topic.batcher(None) is lane, "until a batch leaves"
        topic.on_batch_sent(lane.number)
        used.append(lane.number)
    assert used == [0, 1, 2, 0, 1, 2]
    topic.grow(4)
    for _ in range(4):
        used.append(topic.batcher(None).number)
        topic.on_batch_sent(used[-1])
    assert used[6:] == [0, 1, 2, 3]


async def test_a_key_keeps_its_partition_whatever_leaves() -> None:
    """Order per key (reliability G3)."""
    topic = TopicBatchers("t", 8)
    for key in (b"a", b"b", b"\xff\x00"):
        assert topic.batcher(key).number == partition_of(key, 8)
        topic.on_batch_sent(topic.batcher(key).number)
        assert topic.batcher(key).number == partition_of(key, 8)


async def test_what_was_learnt_of_a_size_is_forgotten_after_a_while(
    lane: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator raises max.message.bytes: nobody is told 413 for ever."""
    now = 100.0
    monkeypatch.setattr(topic_state, "monotonic", lambda: now)
    topic = lane.topic
    topic.learn(too_large=1, max_bytes=2)
    assert topic.knows_bounds()
    now += LIMIT_KNOWN
    assert not topic.knows_bounds()
    assert (topic.too_large, topic.max_bytes) == (0, 0)


@pytest.mark.parametrize(("compressed", "learnt"), [(False, True), (True, False)])
async def test_a_compressed_record_says_nothing_of_the_size_of_another(
    lane: Batcher, owner: Owner, compressed: bool, learnt: bool
) -> None:
    """One of 120 kB that does not compress is refused; the next may be a few hundred bytes on the wire."""
    queue(lane, owner, "large")
    assert lane.fill(batch())
    lane.learn_size(compressed=compressed)
    assert lane.topic.knows_bounds() is learnt


async def test_records_that_the_broker_names_are_refused_and_the_others_keep_their_order(
    lane: Batcher, owner: Owner
) -> None:
    made = queue(lane, owner, *"abcdef")
    lane.fill(batch())
    queue(lane, owner, "g")
    assert lane.refuse({1, 4, 17}, lambda index, _: BrokerRefused(f"{index}"))
    assert [str(each.results[0]) for each in made if each.results[0]] == ["1", "4"]
    assert texts(lane.queue) == list("acdfg")
    lane.fill(batch())
    assert not lane.refuse({17, -1}, lambda *_: BrokerRefused("no")), (
        "the broker named none of them"
    )
    assert texts(lane.in_flight) == list("acdfg")


async def test_a_record_is_at_fault_if_it_fails_alone_while_its_topic_takes_others(
    owner: Owner,
) -> None:
    """Between two failures of the same record another one must have been stored."""
    topic = TopicBatchers("t", 2)
    bad, good = topic.batchers

    def fails(text: str) -> bool:
        queue(bad, owner, text)
        bad.fill(batch())
        at_fault = bad.is_at_fault()
        bad.fail(BrokerRefused("no"))
        return at_fault

    def succeeds(lane: Batcher, text: str) -> None:
        queue(lane, owner, text)
        lane.fill(batch())
        lane.succeed("main", 0)

    succeeds(good, "before")
    assert not fails("x")
    assert not fails("x"), "nothing was stored since"
    succeeds(good, "other")
    assert not fails("y"), "it fails for the first time: the topic may have begun to refuse all"
    assert fails("x")
    succeeds(bad, "x")
    succeeds(good, "other")
    assert not fails("x"), "what was stored once is under no suspicion"


async def test_a_record_is_known_again_by_its_event(owner: Owner) -> None:
    """A mirror that traces writes another traceparent at each attempt."""
    topic = TopicBatchers("t", 1)
    event = (("ce_id", b"1"), ("ce_source", b"/s"))
    first, again, other = (
        Record(b"k", (*event[:1], *more, *event[1:]), b"x")
        for more in (
            [("ce_traceparent", b"00-1")],
            [("ce_traceparent", b"00-2")],
            [("ce_id", b"2")],
        )
    )
    topic.doubts(first)
    topic.count_stored([])
    assert topic.doubts(again)
    assert not topic.doubts(other)


async def test_the_number_of_records_under_suspicion_is_bounded(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_state, "DOUBTS", 3)
    topic = TopicBatchers("t", 1)
    for number in range(5):
        assert not topic.doubts(record(f"{number}"))
    topic.count_stored([])
    assert [topic.doubts(record(f"{number}")) for number in (4, 3, 2)] == [True] * 3
    assert not topic.doubts(record("0")), "the oldest were forgotten"


async def test_a_topic_that_takes_nothing_is_not_asked_for_each_record(
    lane: Batcher, owner: Owner
) -> None:
    made = queue(lane, owner, *(f"{n}" for n in range(100)))
    later = queue(lane, owner, "later")
    lane.most, attempts = 100, 0
    while lane.fill(batch()):
        attempts += 1
        if later[0] in [entry[0] for entry in lane.in_flight]:
            break
        if len(lane.in_flight) > 1:
            lane.narrow()
            lane.requeue()
        elif not lane.is_at_fault():
            lane.give_up_suspects(UnclearRefusal("?"))
    assert all(isinstance(each.results[0], UnclearRefusal) for each in made)
    assert later[0].results == [None], "it was not in the batch that failed"
    assert attempts < 15


async def test_a_topic_that_demands_keys_is_not_asked_for_each_record_without_one(
    lane: Batcher, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refusal costs a wire batch, and its other records a repetition. An operator may change the topic."""
    now = 100.0
    monkeypatch.setattr(topic_state, "monotonic", lambda: now)
    error = BrokerRefused("no key", kind="rejected")
    lane.topic.demand_keys(error)
    bare = submission(owner, [record("bare", None)])
    lane.queue.append((bare, 0, bare.records[0]))
    queue(lane, owner, "keyed")
    assert lane.fill(batch())
    assert texts(lane.in_flight) == ["keyed"]
    assert bare.results == [error]
    lane.succeed("main", 0)
    now += REFUSED_FOR
    again = submission(owner, [record("again", None)])
    lane.queue.append((again, 0, again.records[0]))
    assert lane.fill(batch())
    assert texts(lane.in_flight) == ["again"]


async def test_the_records_of_a_topic_that_is_gone_are_not_sent_again(
    lane: Batcher, owner: Owner
) -> None:
    """Else they would go into a topic of that name that is created later, beside its own records."""
    flying, queued = queue(lane, owner, "flying", "queued")
    lane.most = 1
    lane.fill(batch())
    gone = BrokerRefused("gone")
    lane.topic.end(gone)
    assert (flying.results, queued.results) == ([None], [gone])
    lane.requeue()
    assert (flying.results, lane.wire, lane.queue) == ([gone], None, deque())
