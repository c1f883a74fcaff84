"""Prometheus text from the process's counters and from what can be measured now.

Labels are bounded (rule 8): routes, brokers and subscriptions come from the configuration, codes
and outcomes from closed sets, and ``Counters`` folds what exceeds its bound into ``other``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple, TypeVar

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
from app.api.answers import (
    DiskView,
    KafkaListenerView,
    ParkedOfSubscription,
    RoleReadiness,
    SpoolView,
)
from app.api.running import Configured, Counts
from app.model.metadata import GroupLag, Health
from app.model.subscription_status import SubscriptionStatus
from app.telemetry import Counters
from app.telemetry.histograms import REST, SUM

L = TypeVar("L", bound=tuple[str, ...])

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
"""Of ``Counters`` too, with the bucket as a label more."""


class Snapshot(NamedTuple):
    """What ``/metrics`` measures at the moment it is asked."""

    counters: Counters
    roles: Mapping[str, RoleReadiness]
    brokers: Mapping[str, Health]
    subscriptions: Sequence[SubscriptionStatus]
    lag: Sequence[GroupLag]
    dead_letters: Mapping[tuple[str, str], int]
    parked: Mapping[str, ParkedOfSubscription]
    kafka_listeners: Sequence[KafkaListenerView] = ()
    disks: Mapping[str, DiskView] = MappingProxyType({})
    spools: Sequence[SpoolView] = ()
    certificates: Mapping[str, float] = MappingProxyType({})
    configured: Configured | None = None


class _Snapshots(Collector):
    def __init__(self, snapshot: Snapshot, counts: Counts) -> None:
        self._snapshot = snapshot
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        yield from _counters(self._counts)
        yield from _histograms(self._counts)
        yield from _gauges(self._snapshot)


def render(snapshot: Snapshot, counts: Counts | None = None) -> bytes:
    """Return Prometheus text. ``counts``: of the counters, where these change meanwhile."""
    counts = snapshot.counters.values() if counts is None else counts
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Snapshots(snapshot, counts))
    return generate_latest(registry)


def _counters(counts: Counts) -> Iterator[Metric]:
    """Those we know are always there; one that a part adds later shows with numbered labels."""
    known = COUNTERS.keys() | HISTOGRAMS.keys()
    for name in [*COUNTERS, *(each for each in counts if each not in known)]:
        series = counts.get(name, {})
        unknown = (tuple(f"label{n}" for n in range(max(map(len, series), default=0))), name)
        labels, text = COUNTERS.get(name, unknown)
        family = CounterMetricFamily(f"skybridge_{name}", text, labels=labels)
        for texts, count in sorted(series.items()):
            family.add_metric(texts, count)
        yield family


def _histograms(counts: Counts) -> Iterator[Metric]:
    for name, (labels, text) in HISTOGRAMS.items():
        family = HistogramMetricFamily(f"skybridge_{name}", text, labels=labels)
        for texts, buckets in sorted(_by_labels(counts.get(name, {})).items()):
            seconds = buckets.pop(SUM, 0) / 1e6
            family.add_metric(texts, _growing(buckets), seconds)
        yield family


def _by_labels(counts: Mapping[tuple[str, ...], int]) -> dict[tuple[str, ...], dict[str, int]]:
    """The buckets of each series."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for (*labels, bucket), count in counts.items():
        found.setdefault(tuple(labels), {})[bucket] = count
    return found


def _growing(buckets: Mapping[str, int]) -> list[tuple[str, float]]:
    """Each with all that is below it, as Prometheus has them."""
    bounds = sorted(buckets, key=lambda bound: float("inf") if bound == REST else float(bound))
    return list(zip(bounds, accumulate(buckets[bound] for bound in bounds), strict=True))


_OF_SUBSCRIPTIONS: Mapping[str, tuple[str, Callable[[SubscriptionStatus], float]]] = {
    "ready": ("1 when the subscription can deliver.", lambda now: now.ready),
    "disabled": (
        "1 when the target answered 410; resume it to deliver again.",
        lambda now: now.state == "disabled",
    ),
    "paused": (
        "1 when an operator or the configuration paused it: nothing is sent until it is resumed.",
        lambda now: now.state == "paused" and now.paused_for is None,
    ),
    "in_flight": ("Deliveries under way.", lambda now: now.in_flight),
    "held": ("Messages read and not finished.", lambda now: now.held),
    "window": (
        "Distance from the commit position to the newest message read.",
        lambda now: now.window,
    ),
    "paused_seconds": (
        "Until the next probe of the endpoint; 0 while it is not paused.",
        lambda now: now.paused_for or 0,
    ),
    "oldest_seconds": (
        "Age of the oldest message read and not finished, or 0.",
        lambda now: now.oldest or 0,
    ),
}
_OF_PARKED: Mapping[str, tuple[str, Callable[[ParkedOfSubscription], float]]] = {
    "rows": ("Parked events in the store.", lambda now: now.rows),
    "keys": ("Keys with parked events.", lambda now: now.keys),
    "oldest_seconds": (
        "Age of the oldest parked event.",
        lambda now: now.oldest_seconds or 0,
    ),
}
"""Of the store, so of all processes."""


def _gauges(now: Snapshot) -> Iterator[Metric]:
    yield _gauge("build_info", "The running version.", "version", {__version__: 1})
    ready = {role: state.ready for role, state in now.roles.items()}
    yield _gauge("ready", "1 when the role is ready.", "role", ready)
    up = {name: health.healthy for name, health in now.brokers.items()}
    yield _gauge("broker_up", "1 when the broker answers.", "broker", up)
    for name, (text, value) in _OF_SUBSCRIPTIONS.items():
        values = {each.id: value(each) for each in now.subscriptions}
        yield _gauge(f"subscription_{name}", text, "subscription", values)
    yield _labelled("subscription_lag", "Unfinished records.", ("subscription", "topic"), _lag(now))
    yield _labelled(
        "dead_letters_stored",
        "Dead letters in the store.",
        ("subscription", "cause"),
        now.dead_letters,
    )
    for name, (text, of_parked) in _OF_PARKED.items():
        waiting = {subscription: of_parked(each) for subscription, each in now.parked.items()}
        yield _gauge(f"parked_{name}", text, "subscription", waiting)
    yield from _of_process(now)


def _of_process(now: Snapshot) -> Iterator[Metric]:
    for name, (text, of_spool) in _OF_SPOOLS.items():
        waiting = {each.route: of_spool(each) for each in now.spools}
        yield _gauge(f"spool_{name}", text, "route", waiting)
    repeats: dict[tuple[str, ...], float] = {(each.route,): each.repeats for each in now.spools}
    yield _counted("spool_repeats", "Events the target may have twice.", ("route",), repeats)
    connections = {each.broker: each.connections for each in now.kafka_listeners}
    text = "Connections to a Kafka listener now."
    yield _gauge("kafka_open_connections", text, "broker", connections)
    held = {each.broker: each.held_bytes for each in now.kafka_listeners}
    text = "Requests to a Kafka listener without an answer yet."
    yield _gauge("kafka_held_bytes", text, "broker", held)
    free = {path: disk.free for path, disk in now.disks.items()}
    yield _gauge("disk_free_bytes", "Free space on the volume of a log or the store.", "path", free)
    size = {path: disk.size for path, disk in now.disks.items()}
    yield _gauge("disk_size_bytes", "The size of that volume.", "path", size)
    name, text = (
        "certificate_expiry_timestamp_seconds",
        "When a certificate of a listener or a login expires.",
    )
    yield _gauge(name, text, "certificate", now.certificates)
    if now.configured is not None:
        yield from _configuration(now.configured)


_OF_SPOOLS: Mapping[str, tuple[str, Callable[[SpoolView], float]]] = {
    "records": ("Events that wait in the spool of a route.", lambda now: now.records),
    "bytes": ("About how many bytes they take.", lambda now: now.bytes),
    "oldest_seconds": ("Age of the oldest of them, or 0.", lambda now: now.oldest_seconds),
    "max_bytes": (
        "Most bytes that may wait; beyond, events are answered 503.",
        lambda now: now.most,
    ),
}


def _configuration(now: Configured) -> Iterator[Metric]:
    yield _gauge("config_info", "The configuration in force.", "digest", {now.digest: 1})
    for name, text, value in (
        (
            "last_reload_successful",
            "0 while the present file is refused.",
            now.last.outcome != "refused",
        ),
        ("last_reload_success_timestamp_seconds", "Time of the last applied file.", now.taken.at),
    ):
        yield _labelled(f"config_{name}", text, (), {(): value})


def _lag(now: Snapshot) -> Mapping[tuple[str, ...], int]:
    of_group = {each.group: each.id for each in now.subscriptions}
    total: dict[tuple[str, ...], int] = {}
    for each in now.lag:
        if each.group in of_group and each.lag is not None:
            place = (of_group[each.group], each.topic)
            total[place] = total.get(place, 0) + each.lag
    return total


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    return _labelled(name, text, (label,), {(of,): value for of, value in values.items()})


def _counted(
    name: str, text: str, labels: Sequence[str], values: Mapping[tuple[str, ...], float]
) -> Metric:
    family = CounterMetricFamily(f"skybridge_{name}", text, labels=labels)
    for texts, value in sorted(values.items()):
        family.add_metric(texts, value)
    return family


def _labelled(name: str, text: str, labels: Sequence[str], values: Mapping[L, float]) -> Metric:
    family = GaugeMetricFamily(f"skybridge_{name}", text, labels=labels)
    for texts, value in sorted(values.items()):
        family.add_metric(texts, value)
    return family
