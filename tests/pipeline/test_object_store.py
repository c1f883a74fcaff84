"""A lake in S3 by the commands as an operator runs them: erasure, a cluster, and leases."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from lake_folders import holding
from object_store_lake import TABLE, ObjectStoreLake
from spark_cluster import running_cluster
from waiting import wait_until

PERSON = "customer-4711"

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly,  # a JVM for each command
    pytest.mark.fault,
    pytest.mark.timeout(2400),
]


def send_for(lake: ObjectStoreLake, subject: str, count: int) -> None:
    """Send events of one subject, and records that are none but name it."""
    producer = Producer({"bootstrap.servers": lake.kafka})
    for n in range(count):
        headers: list[tuple[str, str | bytes | None]] = [("ce_specversion", b"1.0"), ("ce_id", f"{subject}-{n}".encode()),
                   ("ce_type", b"com.example.shop"), ("ce_subject", subject.encode())]  # fmt: skip
        if n % 10:
            headers.append(("ce_source", b"/shop"))
        body = json.dumps({"n": n % 110, "pad": subject}).encode()
        producer.produce(lake.topic, key=subject.encode(), value=body, headers=headers)
    assert producer.flush(60) == 0


def test_erased_bytes_are_in_no_object(stored_lake: ObjectStoreLake) -> None:
    """Every byte of the store is read: objects, unfinished uploads, attributes.

    The commands run one after another: archive, erase, maintain.
    """
    stored_lake.fill(300)
    send_for(stored_lake, PERSON, 220)
    told = json.loads(stored_lake.run("archive", "--once", "--json").stdout)
    assert told["copied"] == stored_lake.sent.records + 220
    everything = stored_lake.s3.folder
    assert {each.suffix for each in holding(everything, PERSON)} >= {".parquet", ".avro"}
    preview = json.loads(
        stored_lake.run("erase", "--subject", PERSON, "--dry-run", "--json").stdout
    )
    assert {each["table"]: each["rows"] for each in preview["tables"]} == {
        "events_raw": 220, "quarantine": 22 + 18, "events": 198, TABLE: 180,
    }  # fmt: skip
    stored_lake.run("erase", "--subject", PERSON, "--yes", "--json")
    assert not holding(everything, PERSON)
    stored_lake.run("maintain", "--json")
    stored_lake.run("erase", "--subject", PERSON, "--yes", "--json")
    again = json.loads(stored_lake.run("archive", "--once", "--json").stdout)
    assert again["copied"] == again["events"] == 0
    stored_lake.check()


def test_an_erasure_that_is_killed_is_repeated_and_whole(stored_lake: ObjectStoreLake) -> None:
    """It is killed after the first table, after all tables, and while it removes files."""
    stored_lake.fill(300)
    send_for(stored_lake, PERSON, 220)
    stored_lake.run("archive", "--once", "--json")
    words = ("erase", "--subject", PERSON, "--yes", "--json")

    def changed(table: str) -> Callable[[], bool]:
        before = stored_lake.snapshot(table)
        return lambda: stored_lake.snapshot(table) != before

    def removing() -> bool:
        return stored_lake.history("events_raw") == 1

    for moment in (changed("events_raw"), changed(TABLE), removing):
        with stored_lake.running(*words) as process:
            wait_until(moment, "the moment of the kill", 600)
            assert process.poll() is None, "the kill must come before the end"
    assert holding(stored_lake.s3.folder, PERSON), "or the kills would prove nothing"
    stored_lake.run(*words)
    assert not holding(stored_lake.s3.folder, PERSON)
    again = json.loads(stored_lake.run("archive", "--once", "--json").stdout)
    assert again["copied"] == again["events"] == 0
    stored_lake.check()


def test_two_workers_write_to_the_store(
    stored_lake: ObjectStoreLake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The jars come to the executors, and the checkpoint stays with the driver."""
    stored_lake.fill(400)
    send_for(stored_lake, PERSON, 50)
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        stored_lake.use_cluster(cluster.url)
        stored_lake.run("archive", "--once", "--json")
        stored_lake.run("erase", "--subject", PERSON, "--yes", "--json")
    assert not holding(stored_lake.s3.folder, PERSON)
    stored_lake.check()


def test_a_second_archive_ends_with_the_name_of_the_first(stored_lake: ObjectStoreLake) -> None:
    """So does an erasure, which would remove the files of the first."""
    stored_lake.fill(200)
    with stored_lake.running("archive") as first:
        wait_until(lambda: stored_lake.has("quarantine", 1), "the first range", 300)
        for words in (("archive", "--once"), ("erase", "--subject", "1", "--yes")):
            done = stored_lake.run(*words, code=2)
            assert "is being written by" in done.stderr
        assert first.poll() is None
        first.send_signal(signal.SIGTERM)
        assert first.wait(120) == 0


def test_a_catalog_issues_the_credentials(rest_lake: ObjectStoreLake) -> None:
    """Archive, query by DuckDB, erase, and the lease that a REST catalog guards."""
    rest_lake.fill(200)
    send_for(rest_lake, PERSON, 100)
    rest_lake.run("archive", "--once", "--json")
    asked = rest_lake.run("query", "SELECT count(*) AS n FROM events", "--format", "json").stdout
    assert json.loads(asked.splitlines()[0])["n"] == len(rest_lake.sent.events) + 90
    rest_lake.run("erase", "--subject", PERSON, "--yes", "--json")
    assert not holding(rest_lake.s3.folder, PERSON)
    rest_lake.run("maintain", "--json")
    rest_lake.check()


def test_a_lake_that_does_not_answer_is_one_line(stored_lake: ObjectStoreLake) -> None:
    """The login, the database, the bucket, the key and the store are at fault, one after another."""
    catalog = stored_lake.settings["pipeline"]["lake"]["catalog"]
    faults = [
        ("jdbc.user", "nobody", "the catalog refuses"),
        ("s3.secret-access-key", "wrong", "the storage of the lake refuses"),
        ("warehouse", "s3://no-such-bucket/lake", "the storage of the lake refuses"),
    ]
    for name, value, words in faults:
        part = catalog["properties"] if "." in name else stored_lake.settings["pipeline"]["lake"]
        before, part[name] = part[name], value
        stored_lake.write()
        done = stored_lake.run("archive", "--once", code=3)
        part[name] = before
        error, cure = done.stderr.strip().splitlines()[-2:]
        assert words in error
        assert cure.startswith("cure")
        assert "\tat " not in done.stderr
