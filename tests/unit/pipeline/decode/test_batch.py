"""What is decoded by column is what ``judge`` says of each row (issue 20, "Equality"; ADR 0036)."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from app.bindings import kafka, pulsar
from app.bindings.record import Header, Record
from app.pipeline.decode import batch as by_column
from app.pipeline.decode.batch import decode_without_times, decoded_batch, decoded_batches, parts
from decode_comparison import decoded_by_row, wrong_columns
from decode_mutating import mutated
from decode_records import (
    ENDS,
    LOOSE_ENDS,
    PULSAR_TOPIC,
    REQUIRED,
    clean,
    corpus,
    ending,
    generated,
    poison,
    raw_table,
)

CLEAR = 0.99
TOPICS = ("t", PULSAR_TOPIC)
BATCH = 700  # rows: several batches, each of many kinds


def batches(records: Sequence[Record], topic: str = "t", rows: int = BATCH) -> list[pa.RecordBatch]:
    return raw_table(records, topic).combine_chunks().to_batches(max_chunksize=rows)


def one(records: Sequence[Record], topic: str = "t") -> pa.RecordBatch:
    return batches(records, topic, rows=1 << 30)[0]


@pytest.fixture(autouse=True)
def no_defect(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A batch that goes row by row because of a defect would be told rightly too."""
    yield
    if "brings_the_decoder_down" not in request.node.name:
        assert not caplog.get_records("call")


def check(records: Sequence[Record], topic: str = "t", rows: int = BATCH) -> None:
    told = [each for batch in batches(records, topic, rows) for each in wrong_columns(batch)]
    assert not told, "\n".join(told[:20])


@cache
def usual(topic: str = "t", count: int = 200) -> list[Record]:
    """Events as producers write them to a topic of Kafka or Pulsar."""
    if topic != PULSAR_TOPIC:
        return clean(count)
    found = clean(count, pulsar.encode)
    return [replace(each, headers=tuple(map(_of_pulsar, each.headers))) for each in found]


def _of_pulsar(header: Header) -> Header:
    return (pulsar.CONTENT_TYPE, header[1]) if header[0] == kafka.CONTENT_TYPE else header


KINDS: dict[str, Callable[[], list[Record]]] = {
    "corpora": corpus,
    "ends": lambda: list(map(ending, (*ENDS, *LOOSE_ENDS))),
    "generated": lambda: generated(280),
    "mutated": lambda: list(mutated(usual(), 2_000)),
    "poison": lambda: list(poison().values()),
    "usual": usual,
}


@pytest.fixture(scope="module")
def every() -> dict[str, list[Record]]:
    return {kind: make() for kind, make in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_of_kafka(every: dict[str, list[Record]], kind: str) -> None:
    assert every[kind]
    check(every[kind])


@pytest.mark.parametrize("kind", ["corpora", "poison"])
def test_records_of_kafka_in_a_topic_of_pulsar(every: dict[str, list[Record]], kind: str) -> None:
    check(every[kind], PULSAR_TOPIC)


def test_of_pulsar() -> None:
    records = usual(PULSAR_TOPIC)
    check([*records, *mutated(records, 1_500)], PULSAR_TOPIC)


@pytest.mark.parametrize("rows", [1, 13])
def test_small_batches(every: dict[str, list[Record]], rows: int) -> None:
    """Batches share their buffers: a decoder that forgets where its rows begin reads those of another."""
    mixed = [record for records in every.values() for record in records]
    check(random.Random(8).sample(mixed, 10 * rows + 50), rows=rows)


def test_brokers_in_one_batch() -> None:
    tables = [raw_table(usual(topic), topic) for topic in TOPICS]
    table = pa.concat_tables(tables).take(random.Random(8).sample(range(400), 400))
    (batch,) = table.combine_chunks().to_batches()
    assert not wrong_columns(batch)


@pytest.mark.nightly
@pytest.mark.parametrize("topic", TOPICS)
def test_twenty_thousand_mutated_records(topic: str) -> None:
    check(list(mutated(usual(topic, 2_000), 20_000, seed=20)), topic)


@pytest.mark.nightly
def test_twenty_thousand_generated_records() -> None:
    check(generated(20_000))


@pytest.mark.parametrize("topic", TOPICS)
def test_usual_events_go_by_column(topic: str) -> None:
    """In any version, mode and layout: looked at one by one, an event costs many times as much."""
    records = usual(topic)
    doubtful = decoded_by_row(one(records, topic))
    assert len(doubtful) <= (1 - CLEAR) * len(records), f"{len(doubtful)}: {doubtful[:5]}"


def test_one_broken_record_does_not_slow_the_others(every: dict[str, list[Record]]) -> None:
    doubtful = decoded_by_row(one([*usual(), *every["poison"]]))
    assert len(doubtful) <= (1 - CLEAR) * len(usual()) + len(every["poison"])


def test_a_batch_that_brings_the_decoder_down_goes_row_by_row(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a query that meets it would end, and again each time."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(by_column, "read_documents", broken)
    check([*usual(), *poison().values()])
    assert "row by row" in caplog.text


def test_no_rows() -> None:
    found = decoded_batch(one([Record(None, (), None)]).slice(0, 0))
    assert found.num_rows == 0
    assert found.column_names == decoded_batch(one([Record(None, REQUIRED, b"")])).column_names


def test_values_and_headers_that_are_null() -> None:
    """A null list may have pairs below it, which are none of its row's."""
    batch = one([Record(None, REQUIRED, b"1"), Record(None, REQUIRED, None), Record(None, (), b"")])
    headers = batch.column("headers")
    hidden = pa.ListArray.from_arrays(
        headers.offsets, headers.values, mask=pa.array([True, False, True])
    )
    place = batch.schema.get_field_index("headers")
    nulled = batch.set_column(place, batch.schema.field(place), hidden)
    assert not wrong_columns(nulled)
    assert decode_without_times(nulled).column("verdict").to_pylist() == [
        "foreign",
        None,
        "foreign",
    ]


def test_offsets_of_sixty_four_bits(every: dict[str, list[Record]]) -> None:
    """As Spark sends them with ``spark.sql.execution.arrow.useLargeVarTypes``."""
    batch = one(every["usual"])
    large = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
    kinds = {"topic": pa.large_string(), "value": pa.large_binary(), "headers": pa.list_(large)}
    columns = [
        batch.column(name).cast(kinds.get(name, batch.column(name).type))
        for name in batch.schema.names
    ]
    found = decode_without_times(pa.RecordBatch.from_arrays(columns, batch.schema.names))
    for name in ("id", "extensions", "data", "data_bytes", "headers"):
        assert found.column(name).equals(decode_without_times(batch).column(name))


def test_a_large_batch_is_decoded_in_parts() -> None:
    """Offsets of 32 bits reach for 2 GB, and what is made of a batch may be larger than it."""
    batch = one([Record(None, REQUIRED, b"x" * size) for size in (10, 10, 4_000, 10)])
    cut = list(parts(batch, 1_000))
    assert pa.Table.from_batches(cut).combine_chunks() == pa.Table.from_batches([batch])
    assert [each.num_rows for each in cut] == [2, 1, 1]
    assert [each.num_rows for each in decoded_batches([batch])] == [4]


def test_many_names() -> None:
    """More names of extensions, and of shapes, than are looked at by column."""
    headers = [Record(None, (*REQUIRED, (f"ce_a{n}", b"1")), b"") for n in range(600)]
    documents = [ending(b'1,"b%d":"c"' % n) for n in range(600)]
    check([*headers, *documents], rows=2_000)


@pytest.mark.parametrize("seed", range(3))
def test_slices(every: dict[str, list[Record]], seed: int) -> None:
    batch = one([*every["usual"], *every["poison"], *every["ends"]])
    chance = random.Random(seed)
    start = chance.randrange(batch.num_rows - 1)
    some = batch.slice(start, chance.randrange(1, 100))
    assert not wrong_columns(some)
    assert np.all([len(column) == some.num_rows for column in decode_without_times(some).columns])


def test_mutations_are_of_every_kind(every: dict[str, list[Record]]) -> None:
    """Else nothing is tried: some are refused, most are not, and both go by column and one by one."""
    records = list(islice(every["mutated"], 1_000))
    refused = decode_without_times(one(records)).column("verdict").is_valid().true_count
    assert 200 < refused < 800
    assert refused < len(decoded_by_row(one(records))) < 900


@pytest.mark.parametrize("topic", TOPICS)
def test_content_codings_are_undone(topic: str) -> None:
    """gzip is; a row with any other coding is no event, and says which it has."""
    plain = [each for each in usual(topic) if each.body]

    def coded(record: Record, coding: bytes) -> Record:
        headers = (*record.headers, ("Content-Encoding", coding))
        return replace(record, headers=headers, body=gzip.compress(record.body or b""))

    undone = [coded(each, b"gzip") for each in plain]
    check([*undone, *plain], topic)
    content = decoded_batch(one(undone, topic)).column("data").to_pylist()
    assert content == decoded_batch(one(plain, topic)).column("data").to_pylist()
    other = decode_without_times(one([coded(plain[0], b"br")], topic))
    assert "'br'" in str(other.to_pylist()[0])
