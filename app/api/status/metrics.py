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
    "events_received": (("mode",), "Events that the gateway accepted, by content mode."),
    "events_refused": (("code",), "Events that the gateway refused, by problem code."),
    "intake_requests": (
        ("intake", "outcome"),
        "Requests to each intake. The outcome is accepted, duplicate, challenge, or the code of the refusal.",
    ),
    "producer_events": (("producer",), "Events of each producer that were within its quota."),
    "producer_refusals": (
        ("producer", "code"),
        "Requests of each producer that were refused, by problem code; on a Kafka listener batches, by Kafka's code.",
    ),
    "events_published": (("route", "broker"), "Events of each route that a broker stored."),
    "events_invalid": (
        ("route", "outcome"),
        "Events whose data does not match the schema of their route. They were rejected, counted or rerouted.",
    ),
    "events_repeated": (
        ("route", "broker", "repeat"),
        "Events whose source and id a route had stored before. A duplicate is not stored again; differs has other data.",
    ),
    "events_unpublished": (
        ("route", "broker", "code"),
        "Events of each route that a broker did not store, by error code.",
    ),
    "kafka_produce_errors": (
        ("broker", "code"),
        "Batches of records that a Kafka cluster refused, by the number of Kafka's error code.",
    ),
    "deliveries": (
        ("subscription", "outcome"),
        "Messages that a subscription finished, by outcome.",
    ),
    "filter_errors": (
        ("of", "name"),
        "Filter expressions that failed on an event, by the route or subscription that has the filter.",
    ),
    "attempts": (
        ("subscription", "outcome"),
        "Attempts to deliver an event, by outcome. The outcome is handed-out if the event is pulled.",
    ),
    "answers": (
        ("subscription", "answer"),
        "Attempts to deliver an event, by the status of the answer, or by the fault if no answer came, such as timeout, dns, connect, tls or reset.",
    ),
    "webhook_reconnects": (
        ("subscription",),
        "Requests to a webhook that were sent again, because the target had closed the reused connection. A high number means that the target closes idle connections within 15 s.",
    ),
    "parked": (
        ("subscription",),
        "Events that were moved to the store, because events of their key could not be delivered for long.",
    ),
    "dead_letters": (("subscription", "cause"), "Messages that became dead letters, by cause."),
    "dead_letter_copies_refused": (
        ("subscription", "code"),
        "Copies of dead letters that the dead-letter topic refused for good. The store has the dead letters.",
    ),
    "replies": (
        ("subscription", "outcome"),
        "Reply events in the answers of webhooks. The outcome is published, unreadable, refused, unstored or looping.",
    ),
    "attempts_dropped": (
        ("subscription",),
        "Records of attempts that were not stored, because the store was too slow.",
    ),
    "attempts_trimmed": (
        (),
        "Records of attempts that were deleted from the store, because they were too old or too many.",
    ),
    "operator_events": (
        ("kind", "outcome"),
        "Operator events that were published or dropped, by kind.",
    ),
    "rebalances": (
        ("subscription",),
        "Assignments of partitions to each subscription: at its start, and when members join or leave.",
    ),
    "labels_folded": (
        ("metric",),
        "Values that were counted with the label `other`, because the metric has as many series as it may have.",
    ),
    "task_failures": (("task",), "Background tasks that failed and were restarted."),
    "config_reloads": (
        ("outcome",),
        "Reloads of the configuration file. The outcome is ok, unchanged or refused.",
    ),
    "kafka_connections": (
        ("outcome",),
        "Connections to the Kafka listeners: accepted, refused at the bound, or displaced by a new one because they were silent.",
    ),
    "kafka_logins": (
        ("outcome",),
        "Logins to the Kafka listeners: accepted, denied, or postponed because the address sent too many wrong passwords.",
    ),
    "kafka_requests": (("api",), "Requests of Kafka clients to the Kafka listeners, by API."),
    "kafka_records": (
        ("direction",),
        "Records that Kafka clients produced or fetched at the Kafka listeners.",
    ),
    "kafka_refused_batches": (
        ("error",),
        "Batches of Kafka clients that a Kafka listener did not store, by Kafka's name of the error.",
    ),
    "kafka_refused_frames": (
        (),
        "Requests to a Kafka listener that could not be read. Their connections were closed.",
    ),
}
"""The labels and the help text of each counter, by name."""

HISTOGRAMS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "accept_seconds": (
        ("status",),
        "Seconds from the end of a request for /events to its answer, by 2xx, 4xx and 5xx.",
    ),
    "publish_seconds": (
        ("broker",),
        "Seconds until a broker had stored or refused the events of a request.",
    ),
    "attempt_seconds": (("subscription",), "Seconds of one attempt to deliver an event."),
    "delivery_seconds": (
        ("subscription",),
        "Seconds from the time of a record in its log to its delivery.",
    ),
    "store_seconds": (
        ("operation",),
        "Seconds of an operation of the store, including the wait for its turn.",
    ),
}
"""The labels and the help text of each histogram, by name. ``Counters`` stores a histogram with the bucket as
an additional last label."""

_BUILD = Family(
    "build_info", "The running version of Skybridge, in a label.", ("version",), {(__version__,): 1}
)


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
