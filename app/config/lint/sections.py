"""Checks of filters, the store, the data pipeline, traces, and the topic for operator events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from types import NoneType

from app.config.derived.typed_tables import typed_table
from app.config.lint.report import LintReport, check_characters, check_host, check_persistent
from app.config.load.finding import Path
from app.config.model.brokers import EmbeddedBroker, KafkaBroker, PulsarBroker
from app.config.model.store import SqliteStore
from app.errors import SetupError
from app.filters.contradictions import contradictions
from app.filters.doubts import doubts
from app.filters.impossible import impossible
from app.filters.model import Filter
from app.routing.places import is_place
from app.tls import faults_of


def check_filters(report: LintReport) -> None:
    """Warn of filters that are valid but probably not intended."""
    for n, route in enumerate(report.config.routes):
        _doubtful(report, "routes", n, route.filters)
    for n, subscription in enumerate(report.config.subscriptions):
        _doubtful(report, "subscriptions", n, subscription.filters)


def _doubtful(report: LintReport, section: str, n: int, filters: Sequence[Filter]) -> None:
    at = (section, n, "filters")
    for m, one in enumerate(filters):
        for doubt in doubts(one):
            report.warning((*at, m, *doubt.path), doubt.message, doubt.cure)
    conflicts = [*contradictions(filters)]
    for conflict in (*conflicts, *impossible(filters, conflicts=bool(conflicts))):
        report.warning((*at, *conflict.path), conflict.message, conflict.cure)


_STORE = ("store", "path")


def check_store(report: LintReport) -> None:
    """Check the path of the store. Warn if events would be lost with its file."""
    store = report.config.store
    if isinstance(store, SqliteStore):
        _file(report, store.path)
        _warn_only_copy(report)
    elif report.may_read_files:
        from app.store.postgresql import pems_of  # noqa: PLC0415 - heavy, and few installations need it

        for fault in faults_of(pems_of(store.dsn.get_secret_value())):
            tell = report.error if fault.fatal else report.warning
            tell(("store", "dsn"), f"{fault.part} {fault.message}", fault.cure)


def _file(report: LintReport, path: FilePath) -> None:
    if report.is_folder(path) or report.resolved(path) in set(_folders(report)):
        report.error(
            _STORE,
            "The path names a folder, but the store needs a file.",
            "Name a file, for example ./skybridge-data/store.db.",
        )
    check_persistent(report, _STORE, path)


def _folders(report: LintReport) -> Iterator[FilePath]:
    for broker in report.config.brokers.values():
        if isinstance(broker, EmbeddedBroker):
            yield report.resolved(broker.path)


def _warn_only_copy(report: LintReport) -> None:
    """Warn that the SQLite store is the only copy of waiting events of subscriptions on a broker.

    A broker deletes or skips events that are parked in the store, so it has no copy to deliver
    again. An embedded log is not checked, because it is usually lost together with the store.
    """
    config = report.config
    apart = [
        each.id
        for each in config.subscriptions
        if not isinstance(config.brokers.get(each.source.broker), EmbeddedBroker | NoneType)
    ]
    if apart:
        report.warning(
            _STORE,
            f"The store file has the only copy of the parked events and dead letters of {', '.join(apart)}, because "
            "the broker counts these events as delivered.",
            "Keep the store file on a persistent volume with backups (skybridge store backup), "
            "or use store: {kind: postgresql}.",
        )


_BROKER: Path = ("pipeline", "archive", "broker")
_WAREHOUSE: Path = ("pipeline", "lake", "warehouse")


def check_pipeline(report: LintReport) -> None:
    """Check that the broker to archive exists and that Spark can read it, and check the lake's
    folder.
    """
    _archived(report)
    _lake(report)
    _tables(report)


def _archived(report: LintReport) -> None:
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
                    f"The embedded log {name!r} has no Kafka listener, and Spark reads the log only through a Kafka listener.",
                    f'Set brokers.{name}.kafka_listener: "127.0.0.1:19092".',
                )
        case other:
            report.error(
                _BROKER,
                f"The broker {name!r} is of kind {other.kind}, which the archive does not read.",
                "Name a broker of kind kafka, pulsar or embedded, and mirror the events into it by a subscription.",
            )


def _tables(report: LintReport) -> None:
    """Report a schema of a typed table from which no columns can be made."""
    for n, table in enumerate(report.config.pipeline.tables if report.may_read_files else ()):
        try:
            typed_table(table, "schema")
        except SetupError as error:
            report.refused(("pipeline", "tables", n, "schema"), error)


def _lake(report: LintReport) -> None:
    if report.loaded.written(_WAREHOUSE) is None:
        return
    warehouse = report.config.pipeline.lake.warehouse
    if "://" in warehouse:
        return
    path = FilePath(warehouse)
    if report.is_file(path):
        report.error(
            _WAREHOUSE,
            "The path is a file.",
            "Name a folder for the lake, for example ./skybridge-data/lake.",
        )
    check_persistent(report, _WAREHOUSE, path)


def check_traces(report: LintReport) -> None:
    traces = report.config.telemetry.traces
    if traces is not None:
        at: Path = ("telemetry", "traces", "endpoint")
        check_characters(report, at, traces.endpoint)
        check_host(report, at, traces.endpoint)


def check_operator_events(report: LintReport) -> None:
    target = report.config.operator_events
    if target is None or not report.broker(("operator_events", "broker"), target.broker):
        return
    if not is_place(target.topic, report.config.brokers[target.broker].kind):
        report.error(
            ("operator_events", "topic"),
            "The value is not a topic name.",
            "Write a topic name of fixed text, without placeholders in braces.",
        )
