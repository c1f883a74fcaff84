"""Counters and histograms: what they cost, what they show, and their bounds (rule 8)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter, thread_time

from prometheus_client.parser import text_string_to_metric_families

from app.api.status.metrics import render
from app.store import open_store
from app.telemetry import LABEL_BOUND, Counters
from app.telemetry.histograms import SERIES_BOUND


def scraped(counters: Counters) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = render(counters.values()).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("skybridge_")
    }


def of(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"skybridge_{name}", frozenset(labels.items())


def test_a_histogram_is_one_for_prometheus():
    """Buckets include those below them, the last one all; a value on a bound is within it."""
    counters = Counters()
    timing = counters.histogram("publish_seconds")["log",]
    for seconds in (0.0004, 0.001, 0.3, 99.0):
        timing.add(seconds)
    found = scraped(counters)
    assert found[of("publish_seconds_bucket", broker="log", le="0.0005")] == 1
    assert found[of("publish_seconds_bucket", broker="log", le="0.001")] == 2
    assert found[of("publish_seconds_bucket", broker="log", le="30.0")] == 3
    assert found[of("publish_seconds_bucket", broker="log", le="+Inf")] == 4
    assert found[of("publish_seconds_count", broker="log")] == 4
    assert abs(found[of("publish_seconds_sum", broker="log")] - 99.3014) < 1e-6


def test_what_is_beyond_the_bound_of_a_counter_counts_as_other_and_is_counted():
    """Also where the hot path adds to a series by itself."""
    counters = Counters()
    series = counters.series("events_published")
    for number in range(LABEL_BOUND + 7):
        counters.add("events_refused", f"code-{number}")
        series["route", f"broker-{number}"] += 2
    found = scraped(counters)
    assert found[of("events_refused_total", code="other")] == 7
    assert found[of("events_published_total", route="other", broker="other")] == 14
    assert found[of("labels_folded_total", metric="events_refused")] == 7
    assert found[of("labels_folded_total", metric="events_published")] == 14
    assert scraped(counters) == found, "a second look counts nothing anew"


def test_a_histogram_is_bounded_too():
    """A dozen series for each label set: its bound is lower."""
    counters = Counters()
    for number in range(SERIES_BOUND + 5):
        counters.histogram("attempt_seconds")[f"subscription-{number}",].add(0.1)
    found = scraped(counters)
    assert found[of("attempt_seconds_count", subscription="other")] == 5
    assert found[of("labels_folded_total", metric="attempt_seconds")] == 5


def test_an_observation_costs_the_hot_path_less_than_a_microsecond():
    """The cheapest of several rounds, both looks at the clock included: a busy machine only adds."""
    histogram = Counters().histogram("accept_seconds")

    def seconds(times: int = 20_000) -> float:
        begun = thread_time()
        for _ in range(times):
            started = perf_counter()
            histogram["2xx",].add(perf_counter() - started)
        return (thread_time() - begun) / times

    assert min(seconds() for _ in range(20)) < 1e-6


def test_the_store_tells_how_long_its_operations_take(tmp_path: Path):
    """By their names, reads and writes that share a transaction alike."""
    counters = Counters()

    async def use() -> None:
        store = open_store(
            tmp_path / "store.db", timeout=60, took=counters.histogram("store_seconds")
        )
        await store.start()
        try:
            await store.subscriptions.all()
            await asyncio.gather(*(store.parked.park([]) for _ in range(3)))
        finally:
            await store.stop()

    asyncio.run(use())
    found = scraped(counters)
    assert found[of("store_seconds_count", operation="subscriptions-all")] == 1
    assert found[of("store_seconds_count", operation="parked-park")] == 3
