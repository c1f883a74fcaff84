"""Make docs/reference/metrics.md from the tables of the metrics in the code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

from app.api.status import families
from app.api.status.families import Family
from app.api.status.metrics import COUNTERS, HISTOGRAMS
from app.model.metadata import Lags
from app.pipeline.archive.metrics import BUCKETS, METRICS
from app.telemetry.counters import LABEL_BOUND
from app.telemetry.histograms import LONG, QUICK, SERIES_BOUND
from markdown_writing import prose, table

HEAD = f"""# Metrics

This page lists the metrics at `/metrics` of the admin listener. `make docs` writes it from the code, and `/metrics` itself has
the same texts. [Alerts](alerts.md) lists the alerts that use these metrics.

The values of labels come from the configuration and from fixed sets, never from a request. A metric has at most
{LABEL_BOUND:,} series, and a histogram {SERIES_BOUND} label sets; further values count as `other`. `/metrics` also has the
metrics `process_*` of the Prometheus client library.
"""
_GUIDES = {
    "archive": ("upkeep", "../guides/pipeline-upkeep.md#watch-the-archive"),
    "answers": ("delivery", "../guides/delivery.md"),
    "attempt": ("dead letters", "../guides/dead-letters.md"),
    "broker": ("topics", "../guides/topics.md"),
    "certificate": ("reload", "../guides/reload.md"),
    "config": ("reload", "../guides/reload.md"),
    "dead_letter": ("dead letters", "../guides/dead-letters.md"),
    "deliver": ("delivery", "../guides/delivery.md"),
    "disk": ("operations", "../operations.md#the-logs-folder"),
    "events_invalid": ("data schemas", "../guides/data-schemas.md"),
    "events_refused": ("problems", "problems.md"),
    "events_repeated": ("deduplicate", "../guides/deduplicate.md"),
    "events_unpublished": ("problems", "problems.md"),
    "filter": ("filters", "../guides/filters.md#expressions-that-fail"),
    "intake": ("intakes", "../guides/intakes.md#answers"),
    "kafka": ("the embedded log", "../embedded-log.md"),
    "kafka_produce": ("Kafka", "../guides/kafka.md#what-kafka-refuses"),
    "operator_events": ("operator events", "operator-events.md"),
    "parked": ("parked keys", "../guides/dead-letters.md"),
    "producer": ("security", "../guides/security.md"),
    "ready": ("operations", "../operations.md#health"),
    "replies": ("webhooks", "../guides/webhooks.md#answers-that-are-events"),
    "spool": ("outages", "../guides/outages.md"),
    "store": ("the store", "../guides/store.md"),
    "subscription": ("delivery", "../guides/delivery.md"),
    "task": ("runbook", "../runbooks/task-fails.md"),
    "webhook": ("webhooks", "../guides/webhooks.md"),
}
"""The page about the metrics whose name begins with a text. The longest text counts."""


def page() -> str:
    gauges = [*_measured()]
    counters = [
        *((f"{name}_total", labels, text) for name, (labels, text) in COUNTERS.items()),
        *(
            (f"{each.name}_total", each.labels, each.text)
            for each in gauges
            if each.kind == "counter"
        ),
    ]
    histograms = [(name, labels, text) for name, (labels, text) in HISTOGRAMS.items()]
    others = [(each.name, each.labels, each.text) for each in gauges if each.kind == "gauge"]
    buckets = (
        f"The buckets of `skybridge_delivery_seconds` end at {_seconds(LONG)} s. "
        f"Those of the other histograms end at {_seconds(QUICK)} s."
    )
    archive = (
        "A running archive of the [data pipeline](../pipeline.md) serves its own metrics at the address "
        f"`pipeline.archive.metrics`. The buckets of its histogram end at {_seconds(BUCKETS)} s."
    )
    operator = [(each.name, each.labels, each.text) for each in _of_operator()]
    parts = {
        "Counters": ("A counter counts from the start of its process.", counters),
        "Histograms": (buckets, histograms),
        "Gauges": ("A gauge has the value of now.", others),
        "The archive": (archive, [(name, *each) for name, each in METRICS.items()]),
        "The operator": (
            f"The process `skybridge operator` also has `skybridge_ready`. {_OPERATOR}",
            operator,
        ),
    }
    sections = [
        f"## {heading}\n\n{text}\n\n{_table(rows)}" for heading, (text, rows) in parts.items()
    ]
    return "\n".join([HEAD, *sections])


_OPERATOR = "See [subscriptions as objects](../guides/deploy.md#subscriptions-as-objects)."


def _table(rows: Sequence[tuple[str, Sequence[str], str]]) -> str:
    return table(
        ("metric", "labels", "meaning", "see"),
        [
            (f"`skybridge_{name}`", ", ".join(labels), prose(text), _guide(name))
            for name, labels, text in sorted(rows)
        ],
    )


def _guide(name: str) -> str:
    """Return a link to the page about a metric, or ""."""
    found = max((each for each in _GUIDES if name.startswith(each)), key=len, default="")
    return "[{}]({})".format(*_GUIDES[found]) if found else ""


def _seconds(bounds: Sequence[float]) -> str:
    return ", ".join(f"{each:g}" for each in bounds)


def _of_operator() -> Iterator[Family]:
    yield from families.operator_families({}, leads=False)


def _measured() -> Iterator[Family]:
    """Yield the families of a service that has no parts. ``tests/docs`` compares them with those of a running service."""
    last = SimpleNamespace(outcome="ok", at=0.0)
    yield Family("build_info", "The running version of Skybridge, in a label.", ("version",), {})
    yield from families.ready_families({})
    yield from families.broker_families({})
    yield from families.subscription_families([], Lags())
    yield from families.store_families({}, {})
    yield from families.spool_families([])
    yield from families.kafka_listener_families([])
    yield from families.volume_families({})
    yield from families.certificate_families({})
    yield from families.configuration_families(
        cast("Any", SimpleNamespace(digest="", last=last, taken=last))
    )
