"""librdkafka, by its Python binding: it produces and consumes as on Kafka."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_foreign import PATIENCE, parts_of, produce, read, settings_of

RECORDS = [
    (b"k", b"body", [("ce_id", b"1"), ("nothing", None), ("ce_id", b"2"), ("empty", b"")]),
    (None, b"without a key", []),
    (b"gone", None, [("why", b"\x00\xff")]),
    (b"", b"", []),
    (b"\x00\xff", bytes(range(256)), []),
]
REFUSALS = (
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError._UNSUPPORTED_FEATURE,
)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_what_is_produced_is_consumed_exactly(servers, topic, compression, idempotent):
    """Key, value, headers in their order, nulls apart from what is empty, offsets from 0 on."""
    settings = {"compression.type": compression, "enable.idempotence": idempotent}
    places = produce(servers, topic, RECORDS, **settings)
    assert places == [(0, n) for n in range(len(RECORDS))]
    found = read(servers, topic, len(RECORDS))
    assert [parts_of(message) for message in found] == RECORDS
    assert [message.offset() for message in found] == list(range(len(RECORDS)))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_are_kept_whatever_acks_says(servers, topic, acks):
    """With acks 0 nobody hears of it; it is stored all the same, in order."""
    records = [(None, b"%d" % n, []) for n in range(500)]
    produce(servers, topic, records, acks=acks)
    assert [parts_of(message) for message in read(servers, topic, 500)] == records


def test_a_hundred_kilobytes_a_record_in_large_batches(servers, topic):
    """Records far beyond what one answer of a Fetch is asked to hold."""
    records = [(b"%d" % n, bytes([n]) * 100_000, []) for n in range(100)]
    produce(servers, topic, records)
    assert [parts_of(message) for message in read(servers, topic, 100)] == records


def test_a_consumer_begins_where_it_is_told(servers, topic):
    """In the middle of a batch, too."""
    produce(servers, topic, [(None, b"%d" % n, []) for n in range(50)])
    found = read(servers, topic, 10, start=37)
    assert [(each.offset(), each.value()) for each in found] == [
        (n, b"%d" % n) for n in range(37, 47)
    ]


def test_watermarks_and_offsets_for_times_are_those_of_the_log(servers, topic):
    """The times are the log's own."""
    produce(servers, topic, [(None, b"a", []), (None, b"b", [])])
    first = read(servers, topic, 1)[0].timestamp()[1]
    consumer = Consumer(settings_of(servers, "nobody", {}))
    try:
        place = TopicPartition(topic, 0)
        assert consumer.get_watermark_offsets(place, timeout=PATIENCE) == (0, 2)
        at = [TopicPartition(topic, 0, time) for time in (first, first + 3_600_000)]
        assert [consumer.offsets_for_times([each], PATIENCE)[0].offset for each in at] == [0, -1]
    finally:
        consumer.close()


def test_metadata_names_one_node_that_leads_everything(servers, topic):
    produce(servers, topic, RECORDS)
    found = AdminClient({"bootstrap.servers": servers}).list_topics(topic, timeout=PATIENCE)
    (broker,) = found.brokers.values()
    assert f"{broker.host}:{broker.port}" == servers
    ((number, partition),) = found.topics[topic].partitions.items()
    assert (number, partition.leader, partition.replicas, partition.isrs) == (0, 0, [0], [0])


def test_a_transactional_producer_is_refused_politely(servers):
    """No transactions here: an error that ends its start at once, no time-out."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "x"})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(PATIENCE)
    error = refused.value.args[0]
    assert error.fatal(), error
    assert error.code() in REFUSALS, error
