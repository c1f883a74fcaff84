"""Checks of the topic that operators are told on."""

from __future__ import annotations

from app.config.report import Report
from app.routing.places import is_place


def check_operator_events(report: Report) -> None:
    target = report.config.operator_events
    if target is None or not report.broker(("operator_events", "broker"), target.broker):
        return
    if not is_place(target.topic, report.config.brokers[target.broker].kind):
        report.error(
            ("operator_events", "topic"),
            "is no topic name",
            "a plain name: operator events go to one topic",
        )
