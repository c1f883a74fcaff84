"""Checks of what requests to webhooks bear: signatures, credentials, the handshake."""

from __future__ import annotations

from urllib.parse import urlsplit

from app.config.finding import Path
from app.config.lint_servers import is_loopback, tls_files_exist
from app.config.lint_sinks import check_target
from app.config.report import Report
from app.model.subscription import Subscription
from app.model.webhook import OAuth2


def check_webhooks(report: Report) -> None:
    _callback(report)
    for n, subscription in enumerate(report.config.subscriptions):
        if isinstance(subscription.sink, str):
            at: Path = ("subscriptions", n)
            _strict(report, at, subscription)
            _signing(report, at, subscription)
            _handshake(report, at, subscription)
            _tls(report, at, subscription)
            if isinstance(subscription.auth, OAuth2):
                endpoint = subscription.auth.token_endpoint
                check_target(report, (*at, "auth", "token_endpoint"), endpoint)


def _strict(report: Report, at: Path, subscription: Subscription) -> None:
    if subscription.strict_webhook and not str(subscription.sink).startswith("https:"):
        report.error((*at, "sink"), "strict_webhook needs https (W1)", "use https")


def _signing(report: Report, at: Path, subscription: Subscription) -> None:
    if subscription.signing is not None and subscription.content_mode != "structured":
        report.warning(
            (*at, "content_mode"),
            "the signature covers only the body: headers with attributes could be "
            "changed on the way",
            "leave content_mode out, or set it to structured",
        )


def _handshake(report: Report, at: Path, subscription: Subscription) -> None:
    if subscription.handshake == "require" and report.config.webhooks.origin is None:
        report.warning(
            (*at, "handshake"),
            f"asks for consent to the origin {report.config.installation!r}, which is not a DNS name",
            "set webhooks.origin",
        )
    if subscription.handshake == "off" and subscription.request_rate is not None:
        report.warning(
            (*at, "request_rate"), "has no effect: the handshake is off", "leave it out, or ask"
        )


def _tls(report: Report, at: Path, subscription: Subscription) -> None:
    tls = subscription.tls
    if tls is None:
        return
    if str(subscription.sink).startswith("http:"):
        report.warning((*at, "tls"), "has no effect on plain http", "leave it out, or use https")
    tls_files_exist(report, at, tls)


def _callback(report: Report) -> None:
    callback = report.config.webhooks.callback
    if callback is None or callback.startswith("https:"):
        return
    if not is_loopback(urlsplit(callback).hostname or ""):
        report.error(("webhooks", "callback"), "webhooks call back only with https", "use https")
