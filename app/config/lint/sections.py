"""Checks of filters, of the store, of the data pipeline, of traces, and of the topic for operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from types import NoneType

from app.config.lint.report import Report, check_characters, check_lasts
from app.config.load.finding import Path
from app.config.model.brokers import EmbeddedBroker, KafkaBroker, PulsarBroker
from app.config.model.store import SqliteStore
from app.filters.doubts import doubts
from app.filters.model import Filter
from app.routing.places import is_place
from app.tls import faults_of


def check_filters(report: Report) -> None:
    """Filters that can be read: whether they can be meant."""
    for n, route in enumerate(report.config.routes):
        _doubtful(report, "routes", n, route.filters)
    for n, subscription in enumerate(report.config.subscriptions):
        _doubtful(report, "subscriptions", n, subscription.filters)


def _doubtful(report: Report, section: str, n: int, filters: Sequence[Filter]) -> None:
    for m, one in enumerate(filters):
        for doubt in doubts(one):
            path = (section, n, "filters", m, *doubt.path)
            report.warning(path, doubt.message, doubt.cure)


_STORE = ("store", "path")


def check_store(report: Report) -> None:
    """Where it is, and what is lost with it."""
    store = report.config.store
    if isinstance(store, SqliteStore):
        _file(report, store.path)
        _costs(report)
    elif report.looks:
        from app.store.postgresql import pems_of  # noqa: PLC0415 - heavy, and few need it

        for fault in faults_of(pems_of(store.dsn.get_secret_value())):
            tell = report.error if fault.fatal else report.warning
            tell(("store", "dsn"), f"{fault.part} {fault.message}", fault.cure)


def _file(report: Report, path: FilePath) -> None:
    if report.is_folder(path) or report.resolved(path) in set(_folders(report)):
        report.error(_STORE, "is a folder", "name a file, for example ./skybridge-data/store.db")
    check_lasts(report, _STORE, path)


def _folders(report: Report) -> Iterator[FilePath]:
    for broker in report.config.brokers.values():
        if isinstance(broker, EmbeddedBroker):
            yield report.resolved(broker.path)


def _costs(report: Report) -> None:
    """With an embedded log beside it, both are lost together; a broker keeps no copy of what was settled."""
    config = report.config
    apart = [
        each.id
        for each in config.subscriptions
        if not isinstance(config.brokers.get(each.source.broker), EmbeddedBroker | NoneType)
    ]
    if apart:
        report.warning(
            _STORE,
            f"is the only copy of waiting events and dead letters of {', '.join(apart)}: their broker"
            " has finished them, and without this file they are lost",
            "keep it on a persistent volume with backups (skybridge store backup), "
            "or use store: {kind: postgresql}",
        )


_BROKER: Path = ("pipeline", "archive", "broker")
_WAREHOUSE: Path = ("pipeline", "lake", "warehouse")


def check_pipeline(report: Report) -> None:
    """What it is told to archive is there, and can be read by Spark."""
    _archived(report)
    _lake(report)


def _archived(report: Report) -> None:
    name = report.config.pipeline.archive.broker
    if name is None or not report.broker(_BROKER, name):
        return
    match report.config.brokers[name]:
        case KafkaBroker() | PulsarBroker():
            pass
        case EmbeddedBroker() as embedded:
            if embedded.kafka_listener is None:
                report.error(
                    _BROKER,
                    f"Spark reads the embedded log {name!r} through its Kafka listener, but it has none",
                    f'set brokers.{name}.kafka_listener: "127.0.0.1:19092"',
                )
        case other:
            report.error(
                _BROKER,
                f"{name!r} is of kind {other.kind}, which the archive does not read",
                "name a broker of kind kafka, pulsar or embedded; a subscription whose sink is one of its"
                " topics mirrors others into it",
            )


def _lake(report: Report) -> None:
    if report.loaded.written(_WAREHOUSE) is None:
        return
    warehouse = report.config.pipeline.lake.warehouse
    if "://" in warehouse:
        return
    path = FilePath(warehouse)
    if report.is_file(path):
        report.error(_WAREHOUSE, "is a file", "name a folder, for example ./skybridge-data/lake")
    check_lasts(report, _WAREHOUSE, path)


def check_traces(report: Report) -> None:
    traces = report.config.telemetry.traces
    if traces is not None:
        check_characters(report, ("telemetry", "traces", "endpoint"), traces.endpoint)


def check_operator_events(report: Report) -> None:
    target = report.config.operator_events
    if target is None or not report.broker(("operator_events", "broker"), target.broker):
        return
    if not is_place(target.topic, report.config.brokers[target.broker].kind):
        report.error(
            ("operator_events", "topic"),
            "is not a topic name",
            "write a plain name: operator events go to one topic",
        )
