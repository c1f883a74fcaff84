"""Checks of alerts: names differ, channels have URLs that can be called, and templates compile."""

from __future__ import annotations

from app.config.derived.alert_requests import reporting
from app.config.lint.report import LintReport, check_characters, check_host
from app.config.lint.sinks import check_target
from app.config.load.finding import Path
from app.delivery.alert_message import AlertOrigin, test_event
from app.errors import SetupError
from app.model.alert import Alert
from app.model.secret import HIDDEN
from app.outlets.compiled import compile_outlet
from app.outlets.values import Unshapeable

_LONGEST = 1 << 20  # bytes of a request
_PUBLIC: Path = ("server", "admin", "public_url")


def check_alerts(report: LintReport) -> None:
    alerts = report.config.alerts
    report.duplicates("alerts", "name", [each.name for each in alerts])
    for n, alert in enumerate(alerts):
        check_target(report, ("alerts", n, "to", "url"), alert.to.url.get_secret_value())
        _check_text(report, ("alerts", n, "to"), alert)
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


def _check_text(report: LintReport, path: Path, alert: Alert) -> None:
    """Report a text that is no template, and warn of one with a value that a message lacks. Such a message is not
    sent.
    """
    request = reporting(alert).request
    if request is None:
        return
    url = alert.to.url.get_secret_value()
    try:
        outlet = compile_outlet(request, url, lambda _secret: HIDDEN, _LONGEST)
        outlet.shape(test_event(_origin(report, alert), "1", 0))
    except SetupError as error:
        report.refused((*path, "text"), error)
    except Unshapeable as error:
        report.warning(
            (*path, "text"),
            f"The text has a value that not every message of an alert has, and without it a message is not sent. "
            f"{error.faults[0].detail}",
            "Use a member that each message has, such as {pointer:/text}, or add a default: {pointer:/link ?? none}.",
        )
    except ValueError:
        return  # the check of the URL reports it


def _origin(report: LintReport, alert: Alert) -> AlertOrigin:
    config = report.config
    return AlertOrigin(config.installation, alert.name, config.server.admin.public_url or "")
