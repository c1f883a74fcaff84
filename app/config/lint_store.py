"""Checks of the store: where it is, and what is lost with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath
from types import NoneType

from app.config.brokers import EmbeddedBroker
from app.config.report import Report, check_lasts
from app.config.store import SqliteStore

_PATH = ("store", "path")


def check_store(report: Report) -> None:
    store = report.config.store
    if isinstance(store, SqliteStore):
        _file(report, store.path)
        _costs(report)


def _file(report: Report, path: FilePath) -> None:
    if path.is_dir() or path.resolve() in set(_folders(report)):
        report.error(_PATH, "is a folder", "name a file, for example ./skybridge-data/store.db")
    check_lasts(report, _PATH, path)


def _folders(report: Report) -> Iterator[FilePath]:
    for broker in report.config.brokers.values():
        if isinstance(broker, EmbeddedBroker):
            yield broker.path.resolve()


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
            _PATH,
            f"is the only place of what waits and of dead letters of {', '.join(apart)}: their broker"
            " has finished them, and whoever loses this file loses them",
            "keep it on a volume that stays and is backed up (skybridge store backup), or take"
            " store: {kind: postgresql}",
        )
