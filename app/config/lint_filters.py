"""Checks of filters that can be read: whether they can be meant."""

from __future__ import annotations

from collections.abc import Sequence

from app.config.report import Report
from app.filters.doubts import doubts
from app.filters.model import Filter


def check_filters(report: Report) -> None:
    for n, route in enumerate(report.config.routes):
        _doubtful(report, "routes", n, route.filters)
    for n, subscription in enumerate(report.config.subscriptions):
        _doubtful(report, "subscriptions", n, subscription.filters)


def _doubtful(report: Report, section: str, n: int, filters: Sequence[Filter]) -> None:
    for m, one in enumerate(filters):
        for doubt in doubts(one):
            path = (section, n, "filters", m, *doubt.path)
            report.warning(path, doubt.message, doubt.cure)
