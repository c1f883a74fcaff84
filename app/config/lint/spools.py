"""Checks of spools: the spool's broker is an embedded log, the target is another broker, and the
disk is large enough.
"""

from __future__ import annotations

import shutil
from pathlib import Path as FilePath

from app.config.lint.report import LintReport
from app.config.load.finding import Path
from app.config.model.brokers import EmbeddedBroker
from app.model.route import Route
from app.model.spool import Spool


def check_spools(report: LintReport) -> None:
    kept: dict[str, int] = {}  # bytes by log
    for n, route in enumerate(report.config.routes):
        if route.spool is not None:
            _fits_route(report, n, route)
            _has_room(report, n, route.spool, kept)


def _fits_route(report: LintReport, n: int, route: Route) -> None:
    setting: Path = ("routes", n, "spool")
    if len(route.to) > 1:
        report.error(
            setting,
            "A spool works only on a route with one target.",
            "Give each target its own route, or let subscriptions copy the events from the first target to the others.",
        )
    for target in route.to[:1]:
        broker = report.config.brokers.get(target.broker)
        if isinstance(broker, EmbeddedBroker):
            report.error(
                setting,
                f"The spool has no effect, because the target broker {target.broker!r} is an embedded log, which is always available.",
                "Remove spool.",
            )
    if route.durability == "relaxed":
        report.error(
            setting,
            "A spool must not lose events, but durability: relaxed may lose some.",
            "Remove spool, or remove durability.",
        )
    if route.deduplicate is not None:
        report.error(
            setting,
            "A spool cannot be combined with deduplicate, because deduplicate does not recognise events in a spool.",
            "Remove spool or deduplicate. Without deduplicate, consumers can recognise repeats by source and id.",
        )


def _has_room(report: LintReport, n: int, spool: Spool, kept: dict[str, int]) -> None:
    setting: Path = ("routes", n, "spool")
    if not report.broker((*setting, "broker"), spool.broker):
        return
    broker = report.config.brokers[spool.broker]
    if not isinstance(broker, EmbeddedBroker):
        report.error(
            (*setting, "broker"),
            f"The broker {spool.broker!r} is of kind {broker.kind}, and only an embedded log can have a spool.",
            "Name a broker of kind embedded.",
        )
        return
    kept[spool.broker] = total = kept.get(spool.broker, 0) + spool.max
    if broker.size_cap is not None and total > broker.size_cap:
        report.error(
            (*setting, "max"),
            f"The spools in {spool.broker!r} may take {total} bytes. The log has a size_cap of "
            f"{broker.size_cap} bytes, so it would be full before the spools are.",
            f"Lower max, or raise brokers.{spool.broker}.size_cap.",
        )
    if report.may_read_files:
        _check_volume(report, (*setting, "max"), broker.path, total)


def _check_volume(report: LintReport, setting: Path, folder: FilePath, total: int) -> None:
    """Report spools that are larger than the volume of the folder, or than its free space."""
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
            f"The spools may take {total} bytes, but the volume of {folder} has only {usage.total} bytes.",
            "Lower max, or choose a larger volume.",
        )
    elif total > usage.free:
        report.warning(
            setting,
            f"The spools may take {total} bytes, but the volume of {folder} has only {usage.free} bytes free. Events "
            "are answered 503 before the spools reach max.",
            "Lower max, or free space on the volume.",
        )
