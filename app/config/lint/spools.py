"""Checks of spools: a log that can keep them, a target that can be away, and room for what may wait."""

from __future__ import annotations

import shutil
from pathlib import Path as FilePath

from app.config.lint.report import Report
from app.config.load.finding import Path
from app.config.model.brokers import EmbeddedBroker
from app.model.route import Route
from app.model.spool import Spool


def check_spools(report: Report) -> None:
    kept: dict[str, int] = {}  # bytes by log
    for n, route in enumerate(report.config.routes):
        if route.spool is not None:
            _fits_route(report, n, route)
            _has_room(report, n, route.spool, kept)


def _fits_route(report: Report, n: int, route: Route) -> None:
    setting: Path = ("routes", n, "spool")
    if len(route.to) > 1:
        report.error(
            setting,
            "is for routes with one target",
            "give each target its own route, or mirror from the first target to the others",
        )
    for target in route.to[:1]:
        broker = report.config.brokers.get(target.broker)
        if isinstance(broker, EmbeddedBroker):
            report.error(
                setting,
                f"has no use: the target {target.broker!r} is an embedded log, which is never away",
                "remove spool",
            )
    if route.durability == "relaxed":
        report.error(
            setting,
            "keeps every event, and durability: relaxed may lose some",
            "remove one of the two",
        )
    if route.deduplicate is not None:
        report.error(
            setting,
            "cannot be combined with deduplicate: an event in the spool would not be recognised",
            "remove one of the two, or remove duplicates where the events are consumed",
        )


def _has_room(report: Report, n: int, spool: Spool, kept: dict[str, int]) -> None:
    setting: Path = ("routes", n, "spool")
    if not report.broker((*setting, "broker"), spool.broker):
        return
    broker = report.config.brokers[spool.broker]
    if not isinstance(broker, EmbeddedBroker):
        report.error(
            (*setting, "broker"),
            f"{spool.broker!r} is of kind {broker.kind}, and only an embedded log keeps a spool",
            "name a broker of kind embedded",
        )
        return
    kept[spool.broker] = total = kept.get(spool.broker, 0) + spool.max
    if broker.size_cap is not None and total > broker.size_cap:
        report.error(
            (*setting, "max"),
            f"the spools of {spool.broker!r} may take {total} bytes, and its size_cap is "
            f"{broker.size_cap}: the log would be full first",
            f"lower max, or raise brokers.{spool.broker}.size_cap",
        )
    if report.looks:
        _fits_volume(report, (*setting, "max"), broker.path, total)


def _fits_volume(report: Report, setting: Path, folder: FilePath, total: int) -> None:
    """Of the volume that the folder is on, or will be."""
    path = folder.resolve()
    while not path.exists():
        path = path.parent
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return
    if total > usage.total:
        report.error(
            setting,
            f"{total} bytes may wait, and the volume of {folder} has {usage.total}",
            "lower max, or choose a larger volume",
        )
    elif total > usage.free:
        report.warning(
            setting,
            f"{total} bytes may wait, and the volume of {folder} has {usage.free} bytes free: a full "
            "disk answers 503 before max is reached",
            "lower max, or make room",
        )
