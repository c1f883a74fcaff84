"""The metrics that ``/metrics`` shows in addition to the counters: families of values, each from one part of
a service.

Names in this module lack the prefix ``skybridge_``. The module does not import prometheus_client, because
many processes are never scraped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from app.api.asked.readiness import RoleReadiness
from app.api.status.answers import DiskView, KafkaListenerView, SpoolView
from app.api.status.configured import CurrentConfiguration
from app.api.subscriptions.answers import ParkedOfSubscription
from app.model.metadata import GroupLag, Lags, LogHealth
from app.model.subscription_status import SubscriptionStatus

T = TypeVar("T")
Gauges = Mapping[str, tuple[str, Callable[[T], float]]]
"""The gauges of one kind of part, by name. Each gauge has a help text and a function that returns the value
for one part."""


class Family(NamedTuple):
    """One metric: its values by their labels, and its help text ``text``."""

    name: str
    text: str
    labels: Sequence[str]
    values: Mapping[tuple[str, ...], float]
    kind: Literal["gauge", "counter"] = "gauge"


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Family:
    """Return a gauge with one label."""
    return Family(name, text, (label,), {(of,): value for of, value in values.items()})


def _gauges(prefix: str, gauges: Gauges[T], label: str, parts: Mapping[str, T]) -> Iterator[Family]:
    """Yield all gauges of one kind of part."""
    for name, (text, value) in gauges.items():
        yield _gauge(f"{prefix}_{name}", text, label, {of: value(n) for of, n in parts.items()})


def ready_families(roles: Mapping[str, RoleReadiness]) -> Iterator[Family]:
    """Yield the readiness of each role."""
    ready = {role: state.ready for role, state in roles.items()}
    yield _gauge("ready", "1 if the role is ready, else 0.", "role", ready)


def operator_families(counts: Mapping[str, int], *, leads: bool) -> Iterator[Family]:
    """Yield the metrics of the role operator. ``counts`` has the objects by the status of their condition Ready."""
    yield Family("operator_leads", "1 if this process is the leader, else 0.", (), {(): leads})
    text = "Kubernetes objects of kind Subscription, by their condition Ready."
    ready = {status: float(counts.get(status, 0)) for status in ("True", "False", "Unknown")}
    yield _gauge("operator_objects", text, "ready", ready)


def broker_families(healths: Mapping[str, LogHealth]) -> Iterator[Family]:
    """Yield the health of each broker."""
    up = {name: health.healthy for name, health in healths.items()}
    yield _gauge("broker_up", "1 if the broker answers, else 0.", "broker", up)


_OF_SUBSCRIPTIONS: Gauges[SubscriptionStatus] = {
    "ready": (
        "1 if the subscription can deliver, or recovers without help, else 0.",
        lambda now: now.ready,
    ),
    "disabled": (
        "1 if the target answered 410, else 0. Resume the subscription to deliver again.",
        lambda now: now.state == "disabled",
    ),
    "paused": (
        "1 if an operator or the configuration paused the subscription, else 0.",
        lambda now: now.state == "paused" and now.paused_for is None,
    ),
    "in_flight": (
        "Deliveries of the subscription whose attempt is running.",
        lambda now: now.in_flight,
    ),
    "held": ("Messages that the subscription has read and not finished.", lambda now: now.held),
    "window": (
        "Distance from the committed position to the newest message read, in the partition where it is longest.",
        lambda now: now.window,
    ),
    "paused_seconds": (
        "Seconds until the next probe of the paused endpoint; 0 if the endpoint is not paused.",
        lambda now: now.paused_for or 0,
    ),
    "oldest_seconds": (
        "Age in seconds of the oldest message that the subscription has read and not finished, or 0.",
        lambda now: now.oldest or 0,
    ),
}
_OF_PARKED: Gauges[ParkedOfSubscription] = {
    "rows": ("Events of the subscription that are parked in the store.", lambda now: now.rows),
    "keys": ("Keys of the subscription that have parked events.", lambda now: now.keys),
    "oldest_seconds": (
        "Age in seconds of the oldest parked event of the subscription.",
        lambda now: now.oldest_seconds or 0,
    ),
}
"""The gauges of the parked events in the store. The store is common to all processes."""


def subscription_families(statuses: Sequence[SubscriptionStatus], lag: Lags) -> Iterator[Family]:
    """Yield the metrics of the subscriptions that this process runs."""
    running = {each.id: each for each in statuses}
    yield from _gauges("subscription", _OF_SUBSCRIPTIONS, "subscription", running)
    labels = ("subscription", "topic")
    yield Family(
        "subscription_lag",
        "Records of the topic that the subscription has not finished.",
        labels,
        _lag(statuses, lag.partitions),
    )
    totals = lag.totals()
    yield Family(
        "subscription_lag_known",
        "1 if the lag of the subscription is known in each partition, or the subscription has not begun, else 0.",
        ("subscription",),
        {(each.id,): totals.get(each.group, 0) is not None for each in statuses},
    )


def _lag(
    statuses: Sequence[SubscriptionStatus], lag: Sequence[GroupLag]
) -> Mapping[tuple[str, ...], float]:
    """Return the lag of each subscription and topic. A topic with a partition of unknown lag is left out,
    because a partial sum would mislead."""
    of_group = {each.group: each.id for each in statuses}
    total: dict[tuple[str, ...], float] = {}
    unknown: set[tuple[str, ...]] = set()
    for each in lag:
        if each.group in of_group:
            place = (of_group[each.group], each.topic)
            total[place] = total.get(place, 0) + (each.lag or 0)
            if each.lag is None:
                unknown.add(place)
    return {place: count for place, count in total.items() if place not in unknown}


def store_families(
    letters: Mapping[tuple[str, str], int] | None,
    parked: Mapping[str, ParkedOfSubscription] | None,
) -> Iterator[Family]:
    """Yield the metrics of the store. A value that is unknown has no sample, because 0 would be wrong.

    Args:
        letters: The number of dead letters by subscription and cause, or None if unknown.
        parked: The parked events by subscription, or None if unknown.
    """
    up = letters is not None and parked is not None
    yield Family("store_up", "1 if the store answers, else 0.", (), {(): up})
    labels = ("subscription", "cause")
    values: Mapping[tuple[str, ...], float] = {
        (*of,): count for of, count in (letters or {}).items()
    }
    yield Family(
        "dead_letters_stored",
        "Dead letters in the store, by subscription and cause.",
        labels,
        values,
    )
    yield from _gauges("parked", _OF_PARKED, "subscription", parked or {})


_OF_SPOOLS: Gauges[SpoolView] = {
    "records": ("Events that wait in the spool of the route.", lambda now: now.records),
    "bytes": (
        "Approximate bytes of the events that wait in the spool of the route.",
        lambda now: now.bytes,
    ),
    "oldest_seconds": (
        "Age in seconds of the oldest event that waits in the spool of the route, or 0.",
        lambda now: now.oldest_seconds,
    ),
    "max_bytes": (
        "Most bytes that may wait in the spool of the route. Events beyond this bound are answered 503. 0 if the configuration has the spool no longer.",
        lambda now: now.most,
    ),
}


def spool_families(spools: Sequence[SpoolView]) -> Iterator[Family]:
    """Yield the metrics of the spools."""
    yield from _gauges("spool", _OF_SPOOLS, "route", {each.route: each for each in spools})
    repeats: Mapping[tuple[str, ...], float] = {(each.route,): each.repeats for each in spools}
    text = "Events from the spool of the route that the target may have stored twice."
    yield Family("spool_repeats", text, ("route",), repeats, "counter")


_OF_LISTENERS: Gauges[KafkaListenerView] = {
    "open_connections": ("Open connections to the Kafka listener.", lambda now: now.connections),
    "held_bytes": (
        "Bytes of requests to the Kafka listener that are not answered yet.",
        lambda now: now.held_bytes,
    ),
}


def kafka_listener_families(listeners: Sequence[KafkaListenerView]) -> Iterator[Family]:
    """Yield the metrics of the Kafka listeners."""
    by_broker = {each.broker: each for each in listeners}
    yield from _gauges("kafka", _OF_LISTENERS, "broker", by_broker)


_OF_DISKS: Gauges[DiskView] = {
    "free_bytes": ("Free bytes on the volume of a log or of the store.", lambda now: now.free),
    "size_bytes": ("Size in bytes of the volume of a log or of the store.", lambda now: now.size),
}


def volume_families(disks: Mapping[str, DiskView]) -> Iterator[Family]:
    """Yield the size and free space of volumes, which are given by folder."""
    yield from _gauges("disk", _OF_DISKS, "path", disks)


def certificate_families(certificates: Mapping[str, float]) -> Iterator[Family]:
    """Yield the expiry of each certificate. ``certificates`` has seconds since the epoch, by the setting that
    names the file."""
    name = "certificate_expiry_timestamp_seconds"
    text = "Time at which the certificate expires, in seconds since 1970. The label is the setting that names its file."
    yield _gauge(name, text, "certificate", certificates)


def configuration_families(now: CurrentConfiguration) -> Iterator[Family]:
    """Yield the digest of the configuration and the result of its last reload."""
    yield _gauge(
        "config_info",
        "The configuration in force, with its digest in a label.",
        "digest",
        {now.digest: 1},
    )
    yield reload_family(successful=now.last.outcome != "refused")
    yield Family(
        "config_last_reload_success_timestamp_seconds",
        "Time at which the configuration in force was applied, in seconds since 1970.",
        (),
        {(): now.taken.at},
    )


def reload_family(*, successful: bool) -> Family:
    """Return the result of the last reload, or of the start."""
    return Family(
        "config_last_reload_successful",
        "0 if the configuration file was refused at the last reload or at the start, else 1.",
        (),
        {(): successful},
    )
