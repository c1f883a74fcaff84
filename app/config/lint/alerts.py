"""Checks of alerts: names differ, and channels have URLs that can be called."""

from __future__ import annotations

from app.config.lint.report import LintReport, check_characters, check_host
from app.config.lint.sinks import check_target
from app.config.load.finding import Path

_PUBLIC: Path = ("server", "admin", "public_url")


def check_alerts(report: LintReport) -> None:
    alerts = report.config.alerts
    report.duplicates("alerts", "name", [each.name for each in alerts])
    for n, alert in enumerate(alerts):
        check_target(report, ("alerts", n, "to", "url"), alert.to.url.get_secret_value())
        if alert.remind and alert.remind < alert.every:
            report.warning(
                ("alerts", n, "remind"),
                "The setting remind is shorter than every, so reminders come after every.",
                "Set remind to at least every, or to 0s.",
            )
    public = report.config.server.admin.public_url
    if public is not None:
        check_characters(report, _PUBLIC, public)
        check_host(report, _PUBLIC, public)
