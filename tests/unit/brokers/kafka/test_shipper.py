"""What is sent to each leader, and what becomes of it: each record has one fate, whatever happens between."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import TopicPartition

from app.bindings.record import Record
from app.brokers.aiokafka_adapter import batches_of
from app.brokers.kafka import shipper as module
from app.brokers.kafka.batcher import Batcher, TopicBatchers
from app.brokers.kafka.produce_request import ProducerId
from app.brokers.kafka.refusals import Refusals
from app.brokers.kafka.sequences import Sequences
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.shipper import Shipper
from app.brokers.portable import Submission
from app.errors import BrokerRefused, BrokerUnavailable, PublishUnknown
from app.model.receipt import Receipt
from waiting import until

SETTINGS = KafkaSettings(name="main", bootstrap_servers="127.0.0.1:1")
PLACE = struct.Struct(">ii")


class Ledger:
    def release(self, submission: Submission) -> None:
        if not submission.done():
            submission.set_result(submission.results)


class Link:
    """Keeps what it is given. ``told`` are the callbacks of requests without an answer."""

    produce_version = 8

    def __init__(self) -> None:
        self.wire: list[dict[int, bytes]] = []  # by request: the wire batch of each partition
        self.told: list[Callable[[bytes | None], None]] = []
        self.failure: Exception | None = None

    def send(self, _api: int, _version: int, parts: list[bytes], told: Any) -> None:
        if self.failure is not None:
            raise self.failure
        places = [PLACE.unpack(each)[0] for each in parts[4::2]]
        self.wire.append(dict(zip(places, map(bytes, parts[5::2]), strict=True)))
        self.told.append(told)

    @property
    def sent(self) -> list[dict[int, Any]]:
        return [
            {number: next(batches_of(wire)) for number, wire in request.items()}
            for request in self.wire
        ]

    @property
    def bodies(self) -> list[dict[int, list[bytes]]]:
        return [
            {number: [each.value for each in batch] for number, batch in request.items()}
            for request in self.sent
        ]

    def answer(self, *codes: int, offset: int = 40, throttle_ms: int = 0) -> None:
        """Answer the oldest request: a code for each partition in it, 0 for those that are left out."""
        request, told = self.sent[-len(self.told)], self.told.pop(0)
        answers = [
            struct.pack(">ihqqqih", number, code, offset, -1, 0, 0, -1)
            for number, code in zip(
                request, [*codes, *[0] * len(request)][: len(request)], strict=True
            )
        ]
        told(
            struct.pack(">ih1si", 1, 1, b"t", len(answers))
            + b"".join(answers)
            + struct.pack(">i", throttle_ms)
        )

    def lose(self) -> None:
        self.told.pop(0)(None)


class Connection:
    """A cluster of one node that leads each partition, unless ``leaders`` says otherwise."""

    def __init__(self) -> None:
        self.links = {1: Link()}
        self.leaders: dict[int, int | None] = {}
        self.closed = False
        self.sequences = Sequences(idempotent=True, batch_bytes=10_000, compression=None)
        self.sequences.identity = ProducerId(1, 0)
        self.asked = self.renewed = 0

    def leader(self, place: TopicPartition) -> int | None:
        return self.leaders.get(place.partition, 1)

    def link(self, node: int) -> Any:
        return self.links.get(node)

    def refresh(self) -> None:
        self.asked += 1

    def renew(self) -> None:
        self.renewed += 1


class Rig:
    """A shipper for a topic ``t`` on a connection that tests control."""

    def __init__(self, partitions: int = 1) -> None:
        refusals = Refusals("main", compressed=False, no_right=lambda *_: None)
        self.codes: list[int] = []
        self.tainted: list[str] = []
        self.shipper = Shipper(SETTINGS, refusals, self.codes.append)
        self.topic = TopicBatchers("t", partitions)
        self.connect()

    def connect(self) -> None:
        self.connection = Connection()
        self.link = self.connection.links[1]
        self.shipper.begin(self.connection, self._taint)  # type: ignore[arg-type]

    def _taint(self, why: str) -> None:
        self.tainted.append(why)
        self.shipper.end()

    def publish(self, body: str, number: int = 0) -> Submission:
        made = Submission(loop=asyncio.get_running_loop())
        made.owner, made.topic, made.size, made.on_result = Ledger(), "t", 0, None
        made.records, made.results, made.open = [Record(b"k", (), body.encode())], [None], 1
        batcher = self.topic.batchers[number]
        batcher.queue.append((made, 0, made.records[0]))
        if not batcher.waiting and not batcher.in_flight:
            self.shipper.await_turn(batcher)
        return made

    async def sent(self, requests: int) -> list[dict[int, list[bytes]]]:
        await until(lambda: len(self.link.sent) >= requests, f"request {requests}")
        return self.link.bodies

    @property
    def only(self) -> Batcher:
        (batcher,) = self.topic.batchers
        return batcher


async def until_resolved(submission: Submission) -> list[Any]:
    await until(lambda: not submission.open, "a result")
    return submission.results


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST", 0.0)


async def test_one_request_has_all_partitions_of_a_leader_that_wait() -> None:
    rig = Rig(3)
    published = [rig.publish(f"{n}", n % 3) for n in range(6)]
    assert await rig.sent(1) == [{0: [b"0", b"3"], 1: [b"1", b"4"], 2: [b"2", b"5"]}]
    later = rig.publish("later", 1)
    await asyncio.sleep(0)
    assert len(rig.link.sent) == 1, "the leader has a request in flight"
    rig.link.answer()
    assert [each.results for each in published[:2]] == [
        [Receipt("main", "t", 0, "40")],
        [Receipt("main", "t", 1, "40")],
    ]
    assert (await rig.sent(2))[1] == {1: [b"later"]}
    rig.link.answer(offset=42)
    assert later.results == [Receipt("main", "t", 1, "42")]


async def test_what_is_too_much_for_one_request_goes_into_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker closes the connection of a request that is too large, and would do so at each repetition."""
    monkeypatch.setattr(module, "MOST_BYTES", 150)
    rig = Rig(3)
    for number in range(3):
        rig.publish(f"{number}" * 60, number)
    for request in range(3):
        assert (await rig.sent(request + 1))[request] == {request: [b"%d" % request * 60]}
        rig.link.answer()
    assert not any(batcher.in_flight or batcher.waiting for batcher in rig.topic.batchers)


async def test_a_refusal_costs_no_other_partition_anything() -> None:
    """Neither its connection, nor its producer id, nor its numbers."""
    rig = Rig(2)
    refused, stored = rig.publish("refused", 0), rig.publish("stored", 1)
    await rig.sent(1)
    rig.link.answer(87)
    assert isinstance(refused.results[0], BrokerRefused)
    assert isinstance(stored.results[0], Receipt)
    rig.publish("next", 0)
    rig.publish("next", 1)
    await rig.sent(2)
    numbers = {n: (each.producer_id, each.base_sequence) for n, each in rig.link.sent[1].items()}
    assert numbers == {0: (1, 0), 1: (1, 1)}, "of what was refused nothing was stored"
    assert (rig.tainted, rig.codes) == ([], [87])


@pytest.mark.parametrize("code", [None, 6, 7, 20])
async def test_a_batch_without_a_final_answer_is_sent_again_as_it_was(code: int | None) -> None:
    """The broker recognises it by its numbers if it has stored it: no loss, and no duplicate."""
    rig = Rig()
    published = rig.publish("a")
    await rig.sent(1)
    if code is None:
        rig.link.lose()
    else:
        rig.link.answer(code)
    rig.publish("b")
    assert await rig.sent(2) == [{0: [b"a"]}] * 2, "what came later waits behind it"
    first, second = (request[0] for request in rig.link.sent)
    assert (first.base_sequence, first.crc) == (second.base_sequence, second.crc)
    rig.link.answer()
    assert isinstance(published.results[0], Receipt)
    assert (await rig.sent(3))[2] == {0: [b"b"]}
    assert rig.link.sent[2][0].base_sequence == 1


async def test_a_batch_of_which_a_caller_has_a_result_is_not_sent_again() -> None:
    """Rule 9. The others of the batch go out under another producer id, so that none is taken for it."""
    rig = Rig()
    answered, open_still = rig.publish("answered"), rig.publish("open")
    await rig.sent(1)
    answered.set_result([PublishUnknown("late")])
    rig.link.lose()
    await until(lambda: rig.connection.renewed, "a new producer id")
    rig.connection.sequences.identity = ProducerId(2, 0)
    rig.shipper.ship_soon()
    assert (await rig.sent(2))[1] == {0: [b"open"]}
    assert rig.link.sent[1][0].producer_id == 2
    rig.link.answer()
    assert isinstance(open_still.results[0], Receipt)
    assert rig.tainted == []


async def test_a_repetition_whose_offset_the_broker_has_forgotten_is_stored() -> None:
    rig = Rig()
    published = rig.publish("a")
    await rig.sent(1)
    rig.link.lose()
    await rig.sent(2)
    rig.link.answer(46)
    assert published.results == [Receipt("main", "t", 0, "")]


@pytest.mark.parametrize("code", [45, 46, 47, 59, 90])
async def test_a_producer_id_of_no_use_is_replaced_for_its_partition_alone(code: int) -> None:
    rig = Rig(2)
    published = rig.publish("a", 0)
    rig.publish("b", 1)
    await rig.sent(1)
    rig.link.answer(code)
    await until(lambda: rig.connection.renewed, "a new producer id")
    rig.connection.sequences.identity = ProducerId(2, 0)
    rig.publish("c", 1)
    await rig.sent(2)
    while len(rig.link.sent) < 3 and 0 not in rig.link.sent[1]:
        rig.link.answer()
        await rig.sent(3)
    ids = {n: each.producer_id for request in rig.link.sent[1:] for n, each in request.items()}
    assert ids == {0: 2, 1: 1}
    while rig.link.told:
        rig.link.answer()
    assert isinstance(published.results[0], Receipt)
    assert rig.tainted == []


@pytest.mark.parametrize("resent", [True, False])
async def test_a_number_is_used_again_only_if_it_is_certain_that_nothing_was_stored(
    resent: bool,
) -> None:
    """A batch that was sent twice may have been stored the first time, and be refused the second."""
    rig = Rig()
    rig.publish("a")
    await rig.sent(1)
    if resent:
        rig.link.lose()
        await rig.sent(2)
    rig.link.answer(10)
    assert (rig.connection.sequences.identity is None) is resent


@pytest.mark.parametrize("code", [-1, 2, 131])
async def test_a_code_without_a_clear_meaning_leaves_no_number_in_use(code: int) -> None:
    rig = Rig()
    rig.publish("a")
    await rig.sent(1)
    rig.link.answer(code)
    assert rig.connection.sequences.identity is None
    assert rig.tainted == []


async def test_what_was_on_the_wire_when_its_connection_was_closed_is_unknown() -> None:
    rig = Rig()
    published = rig.publish("a")
    await rig.sent(1)
    rig.shipper.end()
    assert published.results == [None], "the broker may still answer"
    rig.connection.closed = True
    rig.link.lose()
    assert isinstance(published.results[0], PublishUnknown)
    assert rig.shipper.quiet.is_set()


async def test_what_was_lost_while_its_connection_is_replaced_goes_out_with_the_next_one() -> None:
    rig = Rig()
    published = rig.publish("a")
    await rig.sent(1)
    rig.shipper.end()
    rig.link.lose()
    rig.connect()
    assert await rig.sent(1) == [{0: [b"a"]}]
    rig.link.answer()
    assert isinstance(published.results[0], Receipt)


async def test_a_batch_that_waits_to_be_sent_again_goes_out_with_the_next_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REST", 3600.0)
    rig = Rig()
    rig.publish("a")
    await rig.sent(1)
    rig.link.lose()
    rig.shipper.end()
    rig.only.rests_until = 0.0
    rig.connect()
    assert await rig.sent(1) == [{0: [b"a"]}]


async def test_what_a_failed_shipment_held_goes_out_with_the_next_connection() -> None:
    """Else its partition would stand still for ever, and its records count as in flight (rule 8)."""
    rig = Rig()
    rig.link.failure = RuntimeError("a bug of the client")
    rig.publish("1")
    await until(lambda: rig.tainted, "the end of the connection")
    rig.publish("2")
    rig.connect()
    assert await rig.sent(1) == [{0: [b"1", b"2"]}]


async def test_an_answer_that_cannot_be_read_is_no_answer() -> None:
    rig = Rig()
    rig.publish("a")
    await rig.sent(1)
    rig.link.told.pop(0)(b"\xff")
    assert (await rig.sent(2))[1] == {0: [b"a"]}


async def test_a_record_that_comes_while_another_is_refused_is_in_one_batch_alone() -> None:
    """A connection's next request may publish in the step that tells the last one of its refusal. Its partition
    must not be queued again meanwhile, or two batches would be told the fate of the first (rule 1)."""
    rig = Rig()
    rig.topic.learn(too_large=50)

    class Publishing(Ledger):
        def release(self, submission: Submission) -> None:
            super().release(submission)
            rig.publish("2")

    rig.publish("1" * 60).owner = Publishing()
    assert await rig.sent(1) == [{0: [b"2"]}]
    assert (rig.only.waiting, rig.shipper.waiting) == (False, [])


async def test_a_partition_without_a_leader_holds_back_itself_alone() -> None:
    """Also when its records were told that their time is over: the others keep their connection."""
    rig = Rig(2)
    rig.connection.leaders[0] = None
    stuck = rig.publish("stuck", 0)
    stuck.set_result([])  # its time is over
    rig.publish("well", 1)
    assert await rig.sent(1) == [{1: [b"well"]}]
    assert rig.connection.asked
    assert stuck.open == 0  # out of the bounds
    assert rig.tainted == []


async def test_a_partition_that_waits_costs_the_requests_of_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its queue may be long, and there may be hundreds of such requests a second."""
    monkeypatch.setattr(module, "REST", 3600.0)
    walks: list[Batcher] = []
    drop = Batcher.drop_answered
    monkeypatch.setattr(Batcher, "drop_answered", lambda each: walks.append(each) or drop(each))
    rig = Rig(2)
    rig.connection.leaders[0] = None
    rig.publish("stuck", 0)
    for number in range(5):
        rig.publish("well", 1)
        await rig.sent(number + 1)
        rig.link.answer()
    assert walks == [rig.topic.batchers[0]]


async def test_a_leader_that_cannot_be_reached_until_time_is_over_costs_the_connection() -> None:
    """Only a new connection finds out whether the whole cluster is away, and says so at once."""
    rig = Rig()
    rig.connection.leaders[0] = 2
    waiting = rig.publish("waiting")
    await asyncio.sleep(0)
    assert rig.tainted == []
    waiting.set_result([])
    await until(lambda: rig.tainted, "the end of the connection")
    assert "node 2" in rig.tainted[0]


async def test_a_batch_in_flight_for_a_topic_that_was_deleted_is_not_sent_again() -> None:
    rig = Rig()
    published = rig.publish("a")
    await rig.sent(1)
    rig.link.lose()
    rig.topic.end(BrokerUnavailable("deleted"))
    await until(lambda: not published.open, "its fate")
    assert isinstance(published.results[0], PublishUnknown), "the topic may have had it"
    assert len(rig.link.sent) == 1


@pytest.mark.parametrize("code", [3, 6, 10, 19, 29, 87])
@pytest.mark.parametrize("before", [None, 7, 20])
async def test_what_may_be_stored_is_never_called_refused_or_unavailable(
    before: int | None, code: int
) -> None:
    """An earlier attempt without a certain answer may have stored it, whatever the last attempt was told (rule 9)."""
    rig = Rig()
    published = rig.publish("a")
    await rig.sent(1)
    if before is None:
        rig.link.lose()
    else:
        rig.link.answer(before)
    await rig.sent(2)
    rig.link.answer(code)
    rig.shipper.end()
    rig.only.fail_queued(BrokerUnavailable("no node can be reached"))
    assert isinstance(published.results[0], PublishUnknown)


async def test_what_was_certainly_not_stored_is_called_unavailable() -> None:
    rig = Rig()
    published = rig.publish("a")
    await rig.sent(1)
    rig.link.answer(6)
    rig.shipper.end()
    rig.only.fail_queued(away := BrokerUnavailable("no node can be reached"))
    assert published.results == [away]


async def test_a_size_that_became_too_large_between_two_attempts_is_unknown() -> None:
    rig = Rig()
    published = rig.publish("a" * 60)
    await rig.sent(1)
    rig.link.lose()
    rig.shipper.end()
    rig.topic.learn(too_large=50)
    rig.connect()
    await until(lambda: not published.open, "its fate")
    assert isinstance(published.results[0], PublishUnknown)
    assert isinstance((await until_resolved(rig.publish("b" * 60)))[0], BrokerRefused)


async def test_a_topic_that_was_looked_up_again_has_numbers_of_its_own() -> None:
    """A batch of before is on the wire still. With its numbers, another batch would be taken for a repetition of it by a
    new leader, and be lost (rule 1)."""
    rig = Rig()
    before = rig.publish("before")
    await rig.sent(1)
    old, other = rig.topic, rig.connection.links.setdefault(2, Link())
    old.end(BrokerUnavailable("nothing of it was in the metadata"))
    rig.connection.sequences.forget(*old.batchers)
    rig.topic, rig.connection.leaders[0] = TopicBatchers("t", 1), 2
    rig.publish("after")
    await until(lambda: rig.connection.renewed, "a new producer id")
    rig.connection.sequences.identity = ProducerId(2, 0)
    await until(lambda: other.sent, "the batch of the new look-up")
    rig.link.answer()
    assert isinstance(before.results[0], Receipt)
    other.answer()
    rig.publish("last")
    await until(lambda: len(other.sent) > 1, "the next batch")
    numbers = [(one[0].producer_id, one[0].base_sequence) for one in other.sent]
    assert numbers == [(2, 0), (2, 1)]


async def test_a_node_that_a_quota_stops_is_sent_nothing_until_it_reads_again() -> None:
    """A request would time out there, and be stored later than its callers wait. Other nodes notice nothing."""
    rig = Rig(2)
    rig.connection.leaders[1], other = 2, rig.connection.links.setdefault(2, Link())
    rig.publish("a", 0)
    await rig.sent(1)
    rig.link.answer(throttle_ms=3_600_000)
    late = rig.publish("late", 0)
    rig.publish("b", 1)
    await until(lambda: other.sent, "the request to the other node")
    assert len(rig.link.sent) == 1
    late.set_result([PublishUnknown("late")])
    await until(lambda: not late.open, "its end")
    assert (rig.tainted, rig.connection.asked) == ([], 0)


async def test_a_throttle_ends() -> None:
    rig = Rig()
    rig.publish("a")
    await rig.sent(1)
    rig.link.answer(throttle_ms=1)
    rig.publish("b")
    assert (await rig.sent(2))[1] == {0: [b"b"]}


async def test_without_a_producer_id_until_time_is_over_the_connection_is_replaced() -> None:
    """Only a new connection finds out why, and says so."""
    rig = Rig()
    rig.connection.sequences.identity = None
    rig.publish("a").set_result([PublishUnknown("late")])
    await until(lambda: rig.tainted, "the end of the connection")


async def test_a_bug_leaves_no_number_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that was stored without being counted would lend its number to the next one, which would be lost."""
    rig = Rig()
    published = rig.publish("a")
    await rig.sent(1)
    monkeypatch.setattr(rig.connection.sequences, "count_stored", lambda *_: 1 // 0)
    rig.link.answer()
    assert isinstance(published.results[0], PublishUnknown)
    assert rig.connection.sequences.identity is None
