"""Checks of the data pipeline: what it is told to archive is there, and can be read by Spark."""

from __future__ import annotations

from pathlib import Path as FilePath

from app.config.brokers import EmbeddedBroker, KafkaBroker, PulsarBroker
from app.config.finding import Path
from app.config.report import Report, check_lasts

_BROKER: Path = ("pipeline", "archive", "broker")
_WAREHOUSE: Path = ("pipeline", "lake", "warehouse")


def check_pipeline(report: Report) -> None:
    _readable(report)
    _place(report)


def _readable(report: Report) -> None:
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
                    f"Spark reads the embedded log {name!r} by its Kafka listener, and there is none",
                    f'set brokers.{name}.kafka_listener: "127.0.0.1:19092"',
                )
        case other:
            report.error(
                _BROKER,
                f"{name!r} is of kind {other.kind}, which the archive does not read",
                "name a broker of kind kafka, pulsar or embedded; a subscription whose sink is one of its"
                " topics mirrors others into it",
            )


def _place(report: Report) -> None:
    if report.loaded.written(_WAREHOUSE) is None:
        return
    warehouse = report.config.pipeline.lake.warehouse
    if "://" in warehouse:
        return
    path = FilePath(warehouse)
    if path.is_file():
        report.error(_WAREHOUSE, "is a file", "name a folder, for example ./skybridge-data/lake")
    check_lasts(report, _WAREHOUSE, path)
