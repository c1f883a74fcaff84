"""Produce, Fetch, ListOffsets, Metadata and InitProducerId over the wire, request by request."""

from __future__ import annotations

import asyncio
import socket
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.fetch.v12 import request as fetching
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.list_offsets.v8 import request as listing
from kio.schema.metadata.v9 import request as asking
from kio.schema.produce.v9 import request as producing

from app.bindings.record import Record
from app.kafka_listener.wire import ErrorCode
from app.model.message import Partition
from kafka_batches import batch, read_back
from kafka_listening import KafkaTestListener, RawClient, framed, kafka_listening, unframed
from versioned_client import VersionedClient, part, versions
from waiting import until

KIB, MIB = 1 << 10, 1 << 20
ZSTD = 4


@pytest.fixture
async def kafka(tmp_path: Path) -> AsyncIterator[KafkaTestListener]:
    settings = {"partitions": 3}
    async with kafka_listening(tmp_path, validated=("strict",), log=settings) as listening:
        for topic in ("t", "strict"):
            await listening.engine.create_topic(topic)
        yield listening


@pytest.fixture
async def client(kafka: KafkaTestListener) -> AsyncIterator[RawClient]:
    client = await kafka.connect()
    yield client
    await client.close()


def plain(*bodies: bytes) -> list[Record]:
    return [Record(None, (), body) for body in bodies]


def produce(
    data: bytes | None, topic: str = "t", partition: int = 0, acks: int = -1, **rest: Any
) -> Any:
    part = producing.PartitionProduceData(index=partition, records=data)
    return producing.ProduceRequest(
        acks=acks,
        timeout=timedelta(seconds=10),
        topic_data=(producing.TopicProduceData(name=topic, partition_data=(part,)),),
        **rest,
    )


def many(data: bytes, count: int, topic: str = "t", acks: int = -1, timeout: float = 60) -> Any:
    """One request with the same batch so many times."""
    part = producing.PartitionProduceData(index=0, records=data)
    topics = (producing.TopicProduceData(name=topic, partition_data=(part,) * count),)
    patience = timedelta(seconds=timeout)
    return producing.ProduceRequest(acks=acks, timeout=patience, topic_data=topics)


@asynccontextmanager
async def connected(kafka: KafkaTestListener, count: int) -> AsyncIterator[list[RawClient]]:
    clients = [await kafka.connect() for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            await client.close()


def reads_nothing(kafka: KafkaTestListener, client: RawClient, asked: Any, times: int = 1) -> Any:
    """Sends so many requests at once. Its transport, to read on with; the system keeps little of the answers."""
    (server,) = [
        each._writer
        for each in kafka.listener._connections.values()
        if each._writer.get_extra_info("peername") == client.writer.get_extra_info("sockname")
    ]
    server.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    transport: Any = client.writer.transport
    transport.pause_reading()
    frame = framed(asked)
    client.writer.write((len(frame).to_bytes(4, "big") + frame) * times)
    return transport


@contextmanager
def stalled(kafka: KafkaTestListener) -> Iterator[None]:
    """The log stores nothing meanwhile."""
    go_on = threading.Event()
    writer = kafka.engine._writer
    assert writer is not None
    writer.run(lambda _: go_on.wait(60))
    try:
        yield
    finally:
        go_on.set()


def codes(answer: Any) -> list[ErrorCode]:
    (topic,) = answer.responses
    return [part.error_code for part in topic.partition_responses]


async def produced(client: RawClient, *given: Any, **named: Any) -> Any:
    answer = await client.call(produce(*given, **named))
    return answer.responses[0].partition_responses[0]


def fetch(
    offsets: Sequence[tuple[int, int]],
    *,
    topic: str = "t",
    wait: float = 0,
    least: int = 1,
    most: int = MIB,
    of_each: int = MIB,
    session: int = 0,
    epoch: int = -1,
) -> Any:
    return fetching.FetchRequest(
        max_wait=timedelta(seconds=wait),
        min_bytes=least,
        max_bytes=most,
        session_id=session,
        topics=(
            fetching.FetchTopic(
                topic=topic,
                partitions=tuple(
                    fetching.FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=of_each,
                        current_leader_epoch=epoch,
                    )
                    for partition, offset in offsets
                ),
            ),
        ),
        forgotten_topics_data=(),
    )


def bodies(part: Any) -> list[bytes | None]:
    return [record.body for _, _, _, record in read_back(part.records or b"")]


# --- Produce


async def test_an_answer_says_where_and_when(kafka: KafkaTestListener, client: RawClient) -> None:
    """Offset and the log's own time, once it is durable."""
    first = await produced(client, batch(plain(b"a", b"b")))
    second = await produced(client, batch(plain(b"c")), acks=1)
    assert (first.error_code, first.base_offset, second.base_offset) == (ErrorCode.none, 0, 2)
    assert first.log_append_time is not None
    ((_, time, _, record),) = read_back(
        (await client.call(fetch([(0, 2)]))).responses[0].partitions[0].records
    )
    assert time == round(second.log_append_time.timestamp() * 1000)
    assert record.body == b"c"
    assert kafka.counters.values()["kafka_records"]["produced",] == 3


async def test_a_batch_that_is_sent_again_is_answered_as_before(client: RawClient) -> None:
    """Whoever lost an answer gets it; the last five are known."""
    sent = [batch(plain(b"%d" % n, b"+"), 0, 7, 0, 2 * n) for n in range(7)]
    offsets = [(await produced(client, data)).base_offset for data in sent]
    assert offsets == [0, 2, 4, 6, 8, 10, 12]
    again = [await produced(client, data) for data in sent]
    unknown = ErrorCode.out_of_order_sequence_number
    assert [each.error_code for each in again] == [unknown] * 2 + [ErrorCode.none] * 5
    assert [each.base_offset for each in again[2:]] == offsets[2:]
    assert (await client.call(fetch([(0, 0)]))).responses[0].partitions[0].high_watermark == 14


async def test_numbers_that_do_not_follow_are_refused(client: RawClient) -> None:
    """A gap is a batch that is still on its way; an old epoch is a producer that was replaced."""
    await produced(client, batch(plain(b"a"), 0, 7, 1, 0))
    gap = await produced(client, batch(plain(b"c"), 0, 7, 1, 2))
    old = await produced(client, batch(plain(b"b"), 0, 7, 0, 1))
    anew = await produced(client, batch(plain(b"b"), 0, 7, 2, 0))
    assert gap.error_code is ErrorCode.out_of_order_sequence_number
    assert old.error_code is ErrorCode.invalid_producer_epoch
    assert (anew.error_code, anew.base_offset) == (ErrorCode.none, 1)


async def test_what_is_sent_at_once_is_stored_in_order(client: RawClient) -> None:
    """Large and compressed batches are read in a thread, small ones are not: none overtakes another."""
    requests, first = [], 0
    for n in range(15):
        of = plain(*[b"x" * 2_000] * (100 if n % 3 == 0 else 1))
        requests.append(produce(batch(of, 4 if n % 3 == 1 else 0, 7, 0, first)))
        first += len(of)
    for n, request in enumerate(requests):
        await client.send(framed(request, n))
    bases = [
        unframed(request, await client.take(), n).responses[0].partition_responses[0].base_offset
        for n, request in enumerate(requests)
    ]
    assert bases == sorted(bases)
    assert len(set(bases)) == 15


async def test_a_batch_whose_topic_goes_before_the_answer_is_acknowledged(
    kafka: KafkaTestListener, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stored; an answer that fails would take the acknowledgements of other batches along."""
    append = kafka.engine.append_to

    def append_and_delete(*given: Any) -> asyncio.Future[Any]:
        async def stored() -> Any:
            fate = await append(*given)
            await kafka.engine.delete_topic("t")
            return fate

        return asyncio.ensure_future(stored())

    monkeypatch.setattr(kafka.engine, "append_to", append_and_delete)
    part = await produced(client, batch(plain(b"a")))
    assert (part.error_code, part.base_offset, part.log_start_offset) == (ErrorCode.none, 0, -1)


async def test_no_answer_is_given_where_none_is_wanted(
    kafka: KafkaTestListener, client: RawClient
) -> None:
    """acks 0: the next answer is that of the next request; what is refused ends the connection."""
    await client.send(framed(produce(batch(plain(b"a")), acks=0)))
    assert (await produced(client, batch(plain(b"b")))).base_offset == 1
    await client.send(framed(produce(b"rubbish", acks=0)))
    assert await client.take() == b""
    assert kafka.counters.total("kafka_refused_frames") == 1
    assert kafka.counters.values()["kafka_refused_batches"] == {("invalid_record",): 1}


async def test_what_needs_no_answer_holds_its_room_until_it_is_stored(tmp_path: Path) -> None:
    """acks 0: a log that does not keep up makes its producers wait, like those of any other acks. Nobody
    waits for an answer, so the time that the producer gives it says nothing."""
    request = framed(many(batch(plain(bytes(10 * KIB))), 1, acks=0, timeout=0))
    async with (
        kafka_listening(tmp_path, receiving=200 * KIB) as kafka,
        connected(kafka, 3) as clients,
    ):
        await kafka.engine.create_topic("t", 1)
        with stalled(kafka):
            for client in clients:
                for _ in range(40):
                    await client.send(request)
            await until(lambda: kafka.listener.held > 180 * KIB)
            assert kafka.listener.held <= 200 * KIB
            assert kafka.counters.total("kafka_requests") < 20
        stored = kafka.engine.partition(Partition("t", 0))
        await until(lambda: stored.next_offset == 120 and kafka.listener.held == 0)
        assert kafka.counters.values()["kafka_records"]["produced",] == 120


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (produce(batch(plain(b"x")), partition=3), ErrorCode.unknown_topic_or_partition),
        (produce(batch(plain(b"x")), partition=-1), ErrorCode.unknown_topic_or_partition),
        (produce(batch(plain(b"x")), topic="other"), ErrorCode.unknown_topic_or_partition),
        (produce(None), ErrorCode.invalid_record),
        (produce(batch(plain(b"x")), acks=2), ErrorCode.invalid_required_acks),
        (
            produce(batch(plain(b"x")), transactional_id="tx"),
            ErrorCode.transactional_id_authorization_failed,
        ),
    ],
)
async def test_what_cannot_be_stored_is_said_so(
    client: RawClient, request_: Any, code: ErrorCode
) -> None:
    """With a sentence for a person, and the connection goes on."""
    found = (await client.call(request_)).responses[0].partition_responses[0]
    assert found.error_code is code
    assert found.error_message
    assert (await produced(client, batch(plain(b"fine")))).base_offset == 0


@pytest.mark.parametrize("version", versions(0))
async def test_a_refused_batch_is_answered_in_every_version(tmp_path: Path, version: int) -> None:
    """Versions 3 to 7 cannot name the records: their connections ended with a traceback, and the good batch of the
    same request was stored again at each try."""
    async with kafka_listening(tmp_path, validated=("strict",), log={"partitions": 1}) as kafka:
        for topic in ("t", "strict"):
            await kafka.engine.create_topic(topic)
        client = VersionedClient(await kafka.connect())
        data = part("PartitionProduceData", index=0, records=batch([Record(None, (), b"x")]))
        told = await client.ask(
            0, version, transactional_id=None, acks=-1, timeout=timedelta(seconds=60),
            topic_data=[
                part("TopicProduceData", name=name, partition_data=[data]) for name in ("t", "strict")
            ],
        )  # fmt: skip
        answers = {each.name: each.partition_responses[0] for each in told.responses}
        assert answers["t"].error_code is ErrorCode.none
        assert answers["strict"].error_code is ErrorCode.invalid_record
        assert (answers["strict"].base_offset, answers["strict"].log_append_time) == (-1, None)
        if version >= 8:
            assert [each.batch_index for each in answers["strict"].record_errors] == [0]
        assert kafka.engine.partition(Partition("t", 0)).next_offset == 1
        await client.close()


async def test_a_topic_of_cloudevents_takes_nothing_else(
    kafka: KafkaTestListener, client: RawClient
) -> None:
    """``validate: cloudevents``: refused as a whole, each index with its reason (KIP-467)."""
    event = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]
    good = Record(None, tuple(event), b"")
    bad = Record(None, tuple(event[:2]), b"")
    found = await produced(client, batch([good, bad, *plain(b"?")]), "strict")
    assert found.error_code is ErrorCode.invalid_record
    assert [each.batch_index for each in found.record_errors] == [1, 2]
    assert "source" in found.record_errors[0].batch_index_error_message
    assert (await produced(client, batch([good, good]), "strict")).base_offset == 0
    structured = Record(
        None,
        (("content-type", b"application/cloudevents+json"),),
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}',
    )
    assert (await produced(client, batch([structured]), "strict")).base_offset == 2
    assert (await produced(client, batch(plain(b"?")), "t")).error_code is ErrorCode.none
    assert kafka.counters.values()["kafka_refused_batches"]["invalid_record",] == 1


async def test_what_is_for_no_partition_is_not_expanded(client: RawClient) -> None:
    """60 batches of a megabyte each are 8 kB on the wire: nothing is made of them for nobody."""
    request = many(batch(plain(bytes(MIB)), ZSTD), 60, "none")
    assert len(framed(request)) < 8 * KIB
    await client.call(many(b"", 1, "none"))  # what is loaded once is there
    tracemalloc.start()
    try:
        answer = await client.call(request)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
    assert codes(answer) == [ErrorCode.unknown_topic_or_partition] * 60


async def test_what_is_expanded_has_a_bound_over_all_connections(tmp_path: Path) -> None:
    """Two requests of a few kB, each of which becomes 6 MB: where there is room for one, the other waits
    with what came, until the first is stored."""
    request = many(batch(plain(bytes(100 * KIB)), ZSTD), 60)
    bounds = {"max_batch": 128 * KIB, "receiving": 8 * MIB}
    async with kafka_listening(tmp_path, **bounds) as kafka, connected(kafka, 3) as clients:
        await kafka.engine.create_topic("t", 1)
        await clients[0].call(many(b"", 1))  # what is loaded once is there
        tracemalloc.start()
        try:
            with stalled(kafka):
                for client in clients:
                    await client.send(framed(request))
                await until(lambda: kafka.counters.total("kafka_requests") == 4)
                await until(lambda: 6_000 * KIB < kafka.listener.held < 6_100 * KIB)
                assert tracemalloc.get_traced_memory()[0] < 8 * MIB
            for client in clients:
                assert codes(unframed(request, await client.take())) == [ErrorCode.none] * 60
        finally:
            tracemalloc.stop()
        await until(lambda: kafka.listener.held == 0)


async def test_what_is_expanded_of_one_request_is_no_more_than_a_request_may_be(
    tmp_path: Path,
) -> None:
    """What would not be taken as it is is not taken compressed; what is not compressed counts nothing."""
    async with (
        kafka_listening(tmp_path, max_frame=MIB) as kafka,
        connected(kafka, 1) as (client,),
    ):
        await kafka.engine.create_topic("t", 1)
        found = await client.call(many(batch(plain(bytes(300 * KIB)), ZSTD), 5))
        assert codes(found) == [ErrorCode.none] * 3 + [ErrorCode.message_too_large] * 2
        found = await client.call(many(batch(plain(bytes(200 * KIB))), 5))
        assert codes(found) == [ErrorCode.none] * 5
        await until(lambda: kafka.listener.held == 0)


# --- Fetch


async def test_a_fetch_waits_for_what_comes(kafka: KafkaTestListener, client: RawClient) -> None:
    """It wakes when a record is there, not when its time is over."""
    await client.send(framed(fetch([(0, 0), (1, 0)], wait=50)))
    other = await kafka.connect()
    await until(lambda: kafka.counters.values()["kafka_requests"]["Fetch",] == 1)
    await produced(other, batch(plain(b"a")), partition=1)
    answer = unframed(fetch([(0, 0)]), await client.take())
    assert [bodies(part) for part in answer.responses[0].partitions] == [[], [b"a"]]
    await other.close()


async def test_a_partition_that_is_named_often_is_fetched_once(client: RawClient) -> None:
    """As in Kafka; the last time counts."""
    await produced(client, batch(plain(b"a", b"b")))
    answer = await client.call(fetch([(0, 0), (1, 0), *[(0, 1)] * 3]))
    parts = {each.partition_index: bodies(each) for each in answer.responses[0].partitions}
    assert (parts, len(answer.responses[0].partitions)) == ({0: [b"b"], 1: []}, 2)


async def test_a_fetch_waits_for_enough(kafka: KafkaTestListener, client: RawClient) -> None:
    """``min_bytes`` over all partitions; what was read first is not read again."""
    await client.send(framed(fetch([(0, 0), (1, 0)], wait=50, least=2_500)))
    other = await kafka.connect()
    for n in range(3):
        await produced(other, batch(plain(b"%d" % n * 1_000)), partition=n % 2)
    answer = unframed(fetch([(0, 0)]), await client.take())
    sizes = [len(bodies(part)) for part in answer.responses[0].partitions]
    assert sizes == [2, 1]
    await other.close()


async def test_a_fetch_ends_with_its_time(client: RawClient) -> None:
    """With nothing, and no error."""
    (part,) = (await client.call(fetch([(0, 0)], wait=0.05))).responses[0].partitions
    assert (part.error_code, part.records, part.high_watermark) == (ErrorCode.none, b"", 0)


async def test_a_client_that_goes_ends_its_fetch(kafka: KafkaTestListener) -> None:
    """Nobody waits a minute for nobody."""
    client = await kafka.connect()
    await client.send(framed(fetch([(0, 0)], wait=60)))
    await until(lambda: kafka.counters.total("kafka_requests") == 1)
    await client.close()
    await until(lambda: kafka.listener.connections == 0)
    assert kafka.listener.held == 0


async def test_one_large_answer_is_made_for_a_client_that_reads_none(
    kafka: KafkaTestListener,
) -> None:
    """Requests go in faster than answers are taken: what is made of them is bounded (reliability G4)."""
    async with connected(kafka, 2) as (client, slow):
        for _ in range(2):
            await produced(client, batch(plain(*[b"x" * 1_000] * 900)))
        transport = reads_nothing(kafka, slow, fetch([(0, 0)]), 4)
        await until(lambda: kafka.listener.unread > 900 * KIB)
        for _ in range(20):  # of others' turns
            await client.call(fetch([(1, 0)]))
            assert 900 * KIB < kafka.listener.unread <= MIB
        transport.resume_reading()
        for _ in range(4):
            assert len(await slow.take()) > 900 * KIB
    await until(lambda: kafka.listener.unread == 0)


async def test_answers_that_nobody_takes_are_bounded_over_all_connections(tmp_path: Path) -> None:
    """Where they have taken all room, a Fetch still gets something (reliability G4)."""
    async with kafka_listening(tmp_path, receiving=2 * MIB) as kafka:
        await kafka.engine.create_topic("t", 1)
        async with connected(kafka, 3) as (client, slow, other):
            for _ in range(5):
                await produced(client, batch(plain(*[b"x" * 1_000] * 900)))
            wanted = fetch([(0, 0)], most=4 * MIB, of_each=4 * MIB)
            transport = reads_nothing(kafka, slow, wanted)
            await until(lambda: kafka.listener.unread > MIB)
            (part,) = (await other.call(wanted)).responses[0].partitions
            assert 1 <= len(bodies(part)) < 1_000
            assert kafka.listener.unread <= 2 * MIB
            transport.abort()
        await until(lambda: kafka.listener.unread == 0)


async def test_bounds_of_a_fetch_hold(client: RawClient) -> None:
    """Per partition and in all; one batch comes at least, and everybody's turn comes."""
    for partition in range(3):
        await produced(client, batch(plain(*[b"x" * 1_000] * 50)), partition=partition)
    (part,) = (await client.call(fetch([(0, 0)], of_each=10_000))).responses[0].partitions
    assert len(bodies(part)) == 9
    assert len(part.records) <= 10_000
    (tiny,) = (await client.call(fetch([(0, 0)], of_each=1))).responses[0].partitions
    assert len(bodies(tiny)) == 1
    served = set()
    for _ in range(3):
        answer = await client.call(fetch([(0, 0), (1, 0), (2, 0)], most=20_000))
        sizes = {p.partition_index: len(p.records) for p in answer.responses[0].partitions}
        assert sum(sizes.values()) <= 20_000
        served |= {index for index, size in sizes.items() if size}
    assert served == {0, 1, 2}


async def test_positions_that_are_not_there_are_told(client: RawClient) -> None:
    """A client then looks for earliest or latest, as it is set to."""
    for offsets, topic, code in (
        ([(0, 1)], "t", ErrorCode.offset_out_of_range),
        ([(0, -5)], "t", ErrorCode.offset_out_of_range),
        ([(3, 0)], "t", ErrorCode.unknown_topic_or_partition),
        ([(0, 0)], "no", ErrorCode.unknown_topic_or_partition),
    ):
        (part,) = (await client.call(fetch(offsets, topic=topic, wait=9))).responses[0].partitions
        assert part.error_code is code
    (part,) = (await client.call(fetch([(0, 0)], epoch=5))).responses[0].partitions
    assert part.error_code is ErrorCode.unknown_leader_epoch


async def test_sessions_are_refused_politely(client: RawClient) -> None:
    """KIP-227: clients then name all partitions in each request."""
    answer = await client.call(fetch([(0, 0)], session=5))
    assert answer.error_code is ErrorCode.fetch_session_id_not_found
    assert (await client.call(fetch([(0, 0)]))).session_id == 0


async def test_reading_much_does_not_hold_the_loop(
    kafka: KafkaTestListener, client: RawClient
) -> None:
    """Others are answered meanwhile."""
    for _ in range(8):
        await produced(client, batch(plain(*[b"x" * 1_000] * 900)))
    await client.send(framed(fetch([(0, 0)], most=8 * MIB, of_each=8 * MIB)))
    other = await kafka.connect()
    answers = 0
    taking = asyncio.create_task(client.take())
    while not taking.done():
        await other.call(fetch([(1, 0)]))
        answers += 1
    (part,) = unframed(fetch([(0, 0)]), await taking).responses[0].partitions
    assert 3 * MIB < len(part.records) <= kafka.node.settings.max_answer
    assert answers > 5
    await other.close()


# --- the others


async def test_offsets_are_listed(client: RawClient) -> None:
    """Earliest, latest, by time and the newest time; nothing where nothing is."""
    stored = await produced(client, batch(plain(b"a", b"b")))
    time = round(stored.log_append_time.timestamp() * 1000)

    async def listed(at: int, partition: int = 0, topic: str = "t") -> tuple[Any, int, int]:
        asked = listing.ListOffsetsPartition(partition_index=partition, timestamp=at)
        answer = await client.call(
            listing.ListOffsetsRequest(
                replica_id=-1,
                isolation_level=1,
                topics=(listing.ListOffsetsTopic(name=topic, partitions=(asked,)),),
            )
        )
        (found,) = answer.topics[0].partitions
        return found.error_code, found.offset, found.timestamp

    none = ErrorCode.none
    assert await listed(-1) == (none, 2, -1)
    assert await listed(-2) == await listed(-4) == (none, 0, -1)
    assert await listed(-3) == await listed(time) == await listed(0) == (none, 0, time)
    assert await listed(time + 1) == (none, -1, -1)
    assert await listed(-3, 1) == (none, -1, -1)
    assert (await listed(-9))[0] is ErrorCode.unsupported_version
    assert (await listed(-1, 9))[0] is ErrorCode.unknown_topic_or_partition
    assert (await listed(-1, 0, "no"))[0] is ErrorCode.unknown_topic_or_partition


async def test_topics_come_to_be_where_that_is_allowed(
    kafka: KafkaTestListener, tmp_path: Path
) -> None:
    """By the setting, and by the request."""

    def asked(*names: str, create: bool = True) -> Any:
        return asking.MetadataRequest(
            topics=tuple(asking.MetadataRequestTopic(name=name) for name in names),
            allow_auto_topic_creation=create,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )

    client = await kafka.connect()
    found = await client.call(asked("new", "in valid", "t"))
    assert [(t.name, t.error_code, len(t.partitions)) for t in found.topics] == [
        ("new", ErrorCode.none, 3),
        ("in valid", ErrorCode.invalid_topic_exception, 0),
        ("t", ErrorCode.none, 3),
    ]
    assert found.cluster_id == kafka.engine.cluster
    assert (found.brokers[0].host, found.brokers[0].port) == kafka.listener.address
    unknown = ErrorCode.unknown_topic_or_partition
    assert (await client.call(asked("no", create=False))).topics[0].error_code is unknown
    await client.close()
    async with kafka_listening(tmp_path / "2", create_topics=False) as other:
        client = await other.connect()
        assert (await client.call(asked("no"))).topics[0].error_code is unknown
        await client.close()


async def test_a_topic_that_is_named_often_is_described_once(client: RawClient) -> None:
    """Kilobytes that repeat one name would be answered with megabytes, and hold the loop for seconds (rule 8)."""
    names = ["t", "no", *["t"] * 20_000]
    asked = asking.MetadataRequest(
        topics=tuple(asking.MetadataRequestTopic(name=name) for name in names),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    found = await client.call(asked)
    assert [(each.name, len(each.partitions)) for each in found.topics] == [("t", 3), ("no", 0)]


@pytest.mark.parametrize("version", [10, 11, 12])
async def test_a_topic_by_its_id_is_not_known(client: RawClient, version: int) -> None:
    """Topics have no ids here; the connection goes on."""
    topic = part("MetadataRequestTopic", name=None, topic_id=uuid4())
    found = await VersionedClient(client).ask(
        3, version, topics=[topic], allow_auto_topic_creation=False,
        include_topic_authorized_operations=False, include_cluster_authorized_operations=False,
    )  # fmt: skip
    assert [each.error_code for each in found.topics] == [ErrorCode.unknown_topic_id]


async def test_each_producer_gets_an_id_and_none_gets_transactions(client: RawClient) -> None:
    """What is not offered is refused with an error that ends a client's attempts."""

    def asked(transactional: str | None) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=transactional, transaction_timeout=timedelta(seconds=1)
        )

    ids = {(await client.call(asked(None))).producer_id for _ in range(5)}
    assert len(ids) == 5
    refused = await client.call(asked("tx"))
    assert refused.error_code is ErrorCode.transactional_id_authorization_failed
    assert refused.producer_id == -1
