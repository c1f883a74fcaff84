"""Render Prometheus text from the counters of the process and from values measured now.

The number of labels is limited. Routes, brokers and subscriptions come from the configuration, and codes and
outcomes from closed sets. ``Counters`` counts everything beyond its limit as ``other``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from app import __version__
from app.api.status.families import Family
from app.telemetry.histograms import REST, SUM

Counts = Mapping[str, Mapping[tuple[str, ...], int]]
"""Counters by name, then by labels."""

COUNTERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "events_received": (("mode",), "Accepted events, by content mode."),
    "events_refused": (("code",), "Events refused, by problem code."),
    "intake_requests": (
        ("intake", "outcome"),
        "Requests to intakes: accepted, duplicate, challenge, or the code of the refusal.",
    ),
    "producer_events": (("producer",), "Events of a producer within its quota."),
    "producer_refusals": (
        ("producer", "code"),
        "Requests of a producer that were refused, by problem code.",
    ),
    "events_published": (("route", "broker"), "Events stored by a broker."),
    "events_invalid": (
        ("route", "outcome"),
        "Events whose data does not match the schema of their route: rejected, counted or rerouted.",
    ),
    "events_repeated": (
        ("route", "broker", "repeat"),
        "Events that a route had stored before: duplicate (not stored again), or differs.",
    ),
    "events_unpublished": (("route", "broker", "code"), "Events a broker did not store."),
    "kafka_produce_errors": (
        ("broker", "code"),
        "Batches of records that a Kafka cluster refused, by the number of Kafka's error code.",
    ),
    "deliveries": (("subscription", "outcome"), "Deliveries concluded."),
    "filter_errors": (("of", "name"), "Filter expressions that failed on an event."),
    "attempts": (("subscription", "outcome"), "Attempts to deliver."),
    "answers": (
        ("subscription", "answer"),
        "Attempts by the status of their answer, or by the fault where none came.",
    ),
    "webhook_reconnects": (
        ("subscription",),
        "Requests sent again because their connection had been closed.",
    ),
    "parked": (("subscription",), "Events whose key could not be delivered for long."),
    "dead_letters": (("subscription", "cause"), "Messages moved to the dead letters."),
    "dead_letter_copies_refused": (
        ("subscription", "code"),
        "Copies of dead letters that their topic refused for good; the store has the letters.",
    ),
    "replies": (("subscription", "outcome"), "Events that webhooks answered with."),
    "attempts_dropped": (("subscription",), "Attempts dropped because the store was too slow."),
    "attempts_trimmed": ((), "Attempts deleted from the store, by age or by number."),
    "operator_events": (("kind", "outcome"), "Operator events published, or dropped."),
    "rebalances": (("subscription",), "How often a subscription was assigned partitions."),
    "labels_folded": (
        ("metric",),
        "Values counted as `other`, because the metric has the most series.",
    ),
    "task_failures": (("task",), "Background tasks that failed and were restarted."),
    "config_reloads": (("outcome",), "Reloads of the file: ok, unchanged or refused."),
    "kafka_connections": (("outcome",), "Connections to the Kafka listener."),
    "kafka_logins": (("outcome",), "Logins to the Kafka listener."),
    "kafka_requests": (("api",), "Requests of Kafka clients, by API."),
    "kafka_records": (("direction",), "Records that Kafka clients produced and fetched."),
    "kafka_refused_batches": (("error",), "Batches not stored, by Kafka's name of the error."),
    "kafka_refused_frames": ((), "Requests that could not be read; their connections were closed."),
}
"""The labels and the help text of each counter, by name."""

HISTOGRAMS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "accept_seconds": (("status",), "From a whole request for /events to its answer."),
    "publish_seconds": (
        ("broker",),
        "Until a broker had stored or refused the events of a request.",
    ),
    "attempt_seconds": (("subscription",), "One attempt to deliver."),
    "delivery_seconds": (
        ("subscription",),
        "From the record's time in its log until it was delivered.",
    ),
    "store_seconds": (
        ("operation",),
        "Operations of the store, including the wait for their turn.",
    ),
}
"""The labels and the help text of each histogram, by name. ``Counters`` stores a histogram with the bucket as
an additional last label."""

_BUILD = Family("build_info", "The running version.", ("version",), {(__version__,): 1})


def render(counts: Counts, families: Iterable[Family] = ()) -> bytes:
    """Return Prometheus text of the counters and of the measured families."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Metrics(counts, families))
    return generate_latest(registry)


class _Metrics(Collector):
    """A collector of the counters and the measured families."""

    def __init__(self, counts: Counts, families: Iterable[Family]) -> None:
        self._counts = counts
        self._families = families

    def collect(self) -> Iterable[Metric]:
        yield from _counters(self._counts)
        yield from _histograms(self._counts)
        yield from map(_metric, (_BUILD, *self._families))


def _counters(counts: Counts) -> Iterator[Metric]:
    """Yield the counters. Those in COUNTERS are always present. Any other counter follows, with numbered
    label names such as "label0"."""
    known = COUNTERS.keys() | HISTOGRAMS.keys()
    for name in [*COUNTERS, *(each for each in counts if each not in known)]:
        series = counts.get(name, {})
        unknown = (tuple(f"label{n}" for n in range(max(map(len, series), default=0))), name)
        labels, text = COUNTERS.get(name, unknown)
        yield _metric(Family(name, text, labels, series, "counter"))


def _metric(family: Family) -> Metric:
    """Return a family as a metric of prometheus_client."""
    of_kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric: CounterMetricFamily | GaugeMetricFamily = of_kind(
        f"skybridge_{family.name}", family.text, labels=family.labels
    )
    for texts, value in sorted(family.values.items()):
        metric.add_metric(texts, value)
    return metric


def _histograms(counts: Counts) -> Iterator[Metric]:
    """Yield the histograms."""
    for name, (labels, text) in HISTOGRAMS.items():
        family = HistogramMetricFamily(f"skybridge_{name}", text, labels=labels)
        for texts, buckets in sorted(_by_labels(counts.get(name, {})).items()):
            seconds = buckets.pop(SUM, 0) / 1e6
            family.add_metric(texts, _cumulative(buckets), seconds)
        yield family


def _by_labels(counts: Mapping[tuple[str, ...], int]) -> dict[tuple[str, ...], dict[str, int]]:
    """Group the buckets of a histogram by its other labels. The last label is the bucket."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for (*labels, bucket), count in counts.items():
        found.setdefault(tuple(labels), {})[bucket] = count
    return found


def _cumulative(buckets: Mapping[str, int]) -> list[tuple[str, float]]:
    """Return the cumulative count of each bucket, as Prometheus expects it."""
    bounds = sorted(buckets, key=lambda bound: float("inf") if bound == REST else float(bound))
    return list(zip(bounds, accumulate(buckets[bound] for bound in bounds), strict=True))
