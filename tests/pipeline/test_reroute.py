"""``pipeline reroute`` publishes what the gateway's own routing publishes: record for record (issue 8 point 6)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from app.bindings import kafka as binding
from app.bindings.record import Record
from app.errors import SenderError
from app.model.route import Route
from app.routing.plan import Router
from app.spark.reroute import job as jobs
from app.spark.reroute.plan import check_job
from app.spark.session import QUERY_SETTINGS
from app.spark.settings import KafkaPlace, Reroute
from corpus import cases
from corpus_records import record_of
from reroute_records import make_topics, publish, random_records, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 3

ROUTES = [
    {  # as it came, under the sender's key
        "name": "cancelled",
        "filters": [{"suffix": {"type": ".cancelled"}}, {"not": {"exact": {"region": "us"}}}],
        "to": {"broker": "main", "topic": "{prefix}cancelled"},
        "content_mode": "as_received",
    },
    {  # documents
        "name": "documents",
        "filters": [
            {"sql": "type LIKE 'com.%.created' AND EXISTS subject AND LENGTH(subject) > 1"}
        ],
        "to": {"broker": "main", "topic": "{prefix}documents"},
        "content_mode": "structured",
        "specversion": "1.0",
        "key": {"mapper": "template", "template": "{{source}}#{{subject}}"},
    },
    {  # binary under a topic of the event's own, and to a second one
        "name": "regional",
        "filters": [{"sql": "region IN ('eu', 'a b', '..') OR priority > 3"}],
        "to": [
            {"broker": "main", "topic": "{prefix}{{region}}"},
            {"broker": "main", "topic": "{prefix}all"},
        ],
        "key": {"mapper": "hash", "attributes": ["source", "partitionkey"]},
        "empty_body": "empty",
    },
    {  # keyed or refused
        "name": "keyed",
        "filters": [{"prefix": {"type": "org.text"}}],
        "to": {"broker": "main", "topic": "{prefix}keyed"},
        "key": {"mapper": "partitionkey", "missing": "reject"},
    },
    {  # an older version
        "name": "older",
        "filters": [{"exact": {"type": "org.other", "source": "/shop"}}],
        "to": {"broker": "main", "topic": "{prefix}older"},
        "specversion": "0.3",
        "content_mode": "structured",
        "key": {"mapper": "attribute", "attribute": "subject"},
    },
    {  # a key out of the data
        "name": "pointed",
        "filters": [{"any": [{"exact": {"source": "urn:a:b"}}, {"sql": "NOT EXISTS time"}]}],
        "to": {"broker": "main", "topic": "{prefix}pointed"},
        "key": {"mapper": "pointer", "pointer": "/a"},
    },
    {
        "name": "plain",
        "filters": [
            {"any": [{"exact": {"type": "com.example.order.created"}}, {"sql": "HAS_DATA('/a')"}]}
        ],
        "to": {"broker": "main", "topic": "{prefix}plain"},
        "key": {"mapper": "none"},
    },
]


class _House:
    """A source and targets of its own on the shared Kafka, and the job that stands between."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.prefix = f"r{uuid4().hex[:8]}-"
        self.source = f"from-{self.prefix}x"  # no name that a template makes
        self.rejects = f"{self.prefix}rejects"
        self.routes = [Route.model_validate(_named(each, self.prefix)) for each in ROUTES]
        self.place = KafkaPlace("main", servers)
        regions = ["eu", "us", ".."]
        fixed = ["cancelled", "documents", "all", "keyed", "older", "pointed", "plain", "rejects"]
        self.topics = {f"{self.prefix}{name}": PARTITIONS for name in [*fixed, *regions]}
        make_topics(servers, {**self.topics, self.source: PARTITIONS})

    def job(self) -> Reroute:
        places = {"main": self.place}
        found = Reroute(self.place, [self.source], self.routes, places, self.rejects)
        assert check_job(found) == []
        return found

    def due(self, records: Sequence[Record]) -> dict[str, list[list[Record]]]:
        """By topic, what the gateway's own code publishes of each partition of the source, in order."""
        router, found = Router(self.routes), defaultdict(lambda: [[] for _ in range(PARTITIONS)])
        for n, record in enumerate(records):
            try:
                planned = router.plan(binding.decode(record), record.key)
            except SenderError as error:
                why = (jobs.REJECTED, error.code.encode())
                kept = Record(record.key, (*record.headers, why), record.body)
                found[self.rejects][n % PARTITIONS].append(kept)
            else:
                for each in planned:
                    found[each.topic][n % PARTITIONS].append(each.record)
        return found


def _named(value: object, prefix: str) -> object:
    if isinstance(value, Mapping):
        return {name: _named(each, prefix) for name, each in value.items()}
    if isinstance(value, list):
        return [_named(each, prefix) for each in value]
    if isinstance(value, str) and "{" in value:
        return value.replace("{prefix}", prefix).replace("{{", "{").replace("}}", "}")
    return value


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    found = spark.newSession()
    for name, value in QUERY_SETTINGS.items():
        found.conf.set(name, value)
    return found


def _corpus() -> Iterator[Record]:
    return (record_of(case) for case in cases("kafka"))


def _run(session: SparkSession, house: _House, folder: Path, most: int) -> jobs.Tally:
    tallies: list[jobs.Tally] = []
    query = jobs.started(
        session,
        house.job(),
        checkpoint=str(folder / "checkpoint"),
        once=True,
        most=most,
        progress=tallies.append,
    )
    query.awaitTermination()
    return sum(tallies, jobs.Tally())


def _assert_equal(house: _House, due: Mapping[str, list[list[Record]]]) -> None:
    """The same records, and those of a key as they stood in each partition of the source."""
    for topic in house.topics:
        came = [record for _, record in read(house.servers, topic)]
        expected = [each for partition in due.get(topic, []) for each in partition]
        sent, found = Counter(map(_wire, expected)), Counter(map(_wire, came))
        lacking, more = sent - found, found - sent
        assert (list(lacking)[:3], list(more)[:3]) == ([], []), topic
        for partition in due.get(topic, []):
            _assert_in_order(partition, came)


def _wire(record: Record) -> object:
    return record.key, record.headers, record.body


def _assert_in_order(sent: Sequence[Record], came: Sequence[Record]) -> None:
    found: dict[bytes, list[Record]] = defaultdict(list)
    for record in came:
        if record.key is not None:
            found[record.key].append(record)
    rest = {key: iter(records) for key, records in found.items()}
    for record in sent:
        if record.key is not None:
            assert record in rest[record.key], f"out of order: {record}"


def _equal_through_kafka(
    session: SparkSession, servers: str, folder: Path, count: int, most: int
) -> jobs.Tally:
    """``most``: records of a batch."""
    house = _House(servers)
    records = [*_corpus(), *random_records(count, seed=count)]
    due = house.due(records)
    publish(servers, house.source, records, PARTITIONS)
    tally = _run(session, house, folder, most)
    _assert_equal(house, due)
    assert tally.read == len(records)
    rejected = sum(map(len, due[house.rejects]))
    assert sum(tally.rejected.values()) == rejected
    assert tally.written == sum(len(each) for found in due.values() for each in found) - rejected
    return tally


def test_a_job_publishes_what_the_gateway_publishes(
    session: SparkSession, kafka: str, tmp_path: Path
) -> None:
    """The corpus of the binding and events made by chance, in all versions and modes, by seven routes: topic,
    key, value and headers equal, every key in order, what no route takes kept with its reason.
    """
    tally = _equal_through_kafka(session, kafka, tmp_path, 400, most=10_000)
    assert set(tally.routes) == {route["name"] for route in ROUTES}


@pytest.mark.nightly
def test_a_long_job_publishes_what_the_gateway_publishes(
    session: SparkSession, kafka: str, tmp_path: Path
) -> None:
    """In two batches: the corpus comes on top."""
    _equal_through_kafka(session, kafka, tmp_path, 20_000, most=20_000)
