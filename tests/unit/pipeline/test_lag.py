"""How far the lake is behind: never told smaller than it is (runbook archive-lag)."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest

from app.errors import SetupError
from app.pipeline.archive.copying import CopyRange
from app.pipeline.archive.derive import Derived
from app.pipeline.archive.lag import Lag
from app.pipeline.archive.lease import LakeHold
from app.pipeline.archive.metrics import BUCKETS, METRICS, ArchiveMetrics, exporting
from app.pipeline.archive.table_state import TableState
from free_ports import free_ports

START = 1_700_000_000.0
PULSAR = "persistent://public/default/a"


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def batch(
    at: float, end: dict[str, Any], latest: dict[str, Any], start: dict[str, Any] | None = None
) -> CopyRange:
    """A batch that began so many seconds after the start."""
    return CopyRange(begun=START + at, start=start or end, end=end, latest=latest)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lag(clock: Clock) -> Lag:
    return Lag(["a", "b"], clock)


def test_a_batch_to_the_end_of_a_topic_takes_in_what_was_there_when_it_began(lag, clock):
    """What came while it ran may not be in it. The other topic was not read to its end."""
    lag.reached(batch(60, {"a": {0: 7}, "b": {0: 3}}, {"a": {0: 7}, "b": {0: 9}}))
    clock.now += 100
    assert lag.seconds() == {"a": 40, "b": 100}


def test_one_partition_behind_is_the_topic_behind(lag, clock):
    """Also one that the batch had nothing of."""
    lag.reached(batch(60, {"a": {0: 7, 1: 0}, "b": {}}, {"a": {0: 7, 1: 1}, "b": {}}))
    clock.now += 100
    assert lag.seconds()["a"] == 100


def test_offsets_of_pulsar_count_no_records(clock):
    """Their ages are known as those of Kafka."""
    lag, topic = Lag([PULSAR], clock), {PULSAR: {0: 1 << 40}}
    clock.now += 100
    lag.reached(batch(90, topic, topic))
    lag.seen(batch(95, {PULSAR: {0: 1 << 41}}, {PULSAR: {0: 1 << 41}}, topic))
    assert lag.seconds() == {PULSAR: 10}
    assert lag.records() == {}


def test_an_archive_that_stands_is_told_by_a_lag_that_grows(lag, clock):
    """Nobody has to say anything for the alert to ring; an older word changes nothing."""
    lag.reached(batch(60, {"a": {0: 7}}, {"a": {0: 7}}))
    lag.reached(batch(30, {"a": {0: 7}}, {"a": {0: 7}}))
    clock.now += 3600
    assert lag.seconds()["a"] == 3540


def test_records_that_are_not_in_the_lake_are_counted(lag):
    """Those of a batch that is copied count until its events are made; those after the batch too."""
    begun = batch(60, {"a": {0: 7}}, {"a": {0: 9, 1: 2}}, start={"a": {0: 4, 1: 0}})
    lag.seen(begun)
    assert lag.records() == {"a": 7}
    lag.reached(begun)
    assert lag.records() == {"a": 4}
    lag.reached(batch(70, {"a": {0: 9, 1: 2}}, {"a": {0: 9, 1: 2}}))
    assert lag.records() == {"a": 0}


class Lease(LakeHold):
    taken_over = True
    left = 20.0

    def seconds_left(self) -> float:
        return self.left


def test_prometheus_is_told(clock):
    """By the names that alerts watch, and with the first of each failure as an increase."""
    (port,) = free_ports(1)
    metrics, lease = ArchiveMetrics(["a", "b"], clock), Lease()

    def scraped() -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return {
            name.removeprefix("skybridge_archive_"): float(value)
            for name, _, value in (each.rpartition(" ") for each in lines if each[0] != "#")
        }

    metrics.holds(lease)
    clock.now += 9
    with exporting(metrics, f"127.0.0.1:{port}"):
        before = scraped()
        lease.left = 0.0
        found = batch(2, {"a": {0: 1}, "b": {0: 1}}, {"a": {0: 1}, "b": {0: 3}})
        metrics.copied(found, 1.5)
        rules = {"bad-time": 3}
        metrics.derived(Derived(10, 5, 2, 3, rules=rules))
        metrics.lag.reached(found)
        metrics.looked("events", TableState(1, 5, 4, 900, 2))
        metrics.failed("derive")
        metrics.conflicted("events", 2)
        metrics.merged("events", 10)
        after = scraped()
        with (
            pytest.raises(SetupError, match="cannot be served"),
            exporting(metrics, f"127.0.0.1:{port}"),
        ):
            """The port is taken."""
    assert before['lag_seconds{topic="a"}'] == 9.0
    assert before['failures_total{step="derive"}'] == 0.0
    assert (before["lease_held"], before["lease_seconds"]) == (1.0, 20.0)
    assert before["lease_takeovers_total"] == 1.0
    found = {name: value for name, value in after.items() if before.get(name) != value}
    buckets = [each for each in found if "_bucket" in each]
    assert len(buckets) == len(BUCKETS) + 1
    assert {name: value for name, value in found.items() if name not in buckets} == {
        'lag_seconds{topic="a"}': 7.0,
        'lag_records{topic="b"}': 2.0,
        'batch_seconds_count{step="copy"}': 1.0,
        'batch_seconds_sum{step="copy"}': 1.5,
        "duplicates_total": 2.0,
        'quarantined_total{rule="bad-time"}': 3.0,
        'rows_total{table="events"}': 5.0,
        'files{table="events"}': 4.0,
        'file_bytes{table="events"}': 900.0,
        'snapshots{table="events"}': 2.0,
        'failures_total{step="derive"}': 1.0,
        'conflicts_total{table="events"}': 2.0,
        'merged_files_total{table="events"}': 10.0,
        "lease_held": 0.0,
        "lease_seconds": 0.0,
    }  # fmt: skip


def test_every_metric_is_in_the_table_of_the_reference(clock):
    """And none is there that the archive does not have."""
    metrics = ArchiveMetrics(["a"], clock)
    metrics.holds(Lease())
    found = {
        f"{each.name}_total" if each.type == "counter" else each.name
        for each in metrics.registry.collect()
    }
    assert found == {f"skybridge_{name}" for name in METRICS}


def test_without_an_address_nothing_listens(clock):
    with exporting(ArchiveMetrics(["a"], clock), None):
        """Nothing is served."""
