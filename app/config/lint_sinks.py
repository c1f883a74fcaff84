"""Checks of where webhooks go: no credentials in URLs, nothing private that is not named. And of what requests to
them bear: signatures, credentials, the handshake.

The real guard looks at every resolved address (``delivery.address_guard``); this one tells at the
desk what that one would refuse.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from app.config.finding import Path
from app.config.lint_servers import check_tls_files, is_loopback
from app.config.report import Report
from app.delivery.address_guard import allowed, host_allowed
from app.model.subscription import Subscription
from app.model.webhook import OAuth2

_EVERYTHING = {"*", "0.0.0.0/0", "::/0"}


def check_sinks(report: Report) -> None:
    for n, entry in enumerate(report.config.webhooks.allow_private):
        _entry(report, ("webhooks", "allow_private", n), entry)
    for n, subscription in enumerate(report.config.subscriptions):
        if isinstance(subscription.sink, str):
            check_target(report, ("subscriptions", n, "sink"), subscription.sink)


def _entry(report: Report, path: Path, entry: str) -> None:
    if entry in _EVERYTHING:
        report.warning(
            path,
            "allows webhooks every private address, including metadata services of clouds",
            "name only the networks and hosts that you need",
        )
    elif "/" in entry and not _is_network(entry):
        report.error(
            path, "is neither a network nor a host", "10.0.0.0/8, hooks.internal or *.internal"
        )


def check_target(report: Report, path: Path, sink: str) -> None:
    """Of a URL that is posted to."""
    parts = _read(sink)
    host = (parts and parts.hostname) or ""
    if parts is None or not host or " " in host or not host.isprintable():
        report.error(path, "is no URL", "https://host/path, the port a number up to 65535")
        return
    if parts.username is not None or parts.password is not None:
        report.error(
            path,
            "holds a user name or password: URLs end up in logs",
            "take them out of the URL",
        )
    if parts.scheme == "http":
        _plain(report, path, host)
    elif _private(report, host):
        report.error(
            path, "is a private address that is not allowed", "add it to webhooks.allow_private"
        )


def _read(sink: str) -> SplitResult | None:
    try:
        parts = urlsplit(sink)
        parts.port  # noqa: B018 - raises for one that is none
    except ValueError:
        return None
    return parts


def _plain(report: Report, path: Path, host: str) -> None:
    """Plain http goes only to what is named."""
    entries = report.config.webhooks.allow_private
    if host_allowed(_address(host), entries) or host_allowed(host, entries):
        return
    message = "plain http goes only to hosts in webhooks.allow_private"
    if not _is_network(_address(host)) and any(_is_network(entry) for entry in entries):
        cure = "name the host there too, or use https"
        report.warning(
            path, f"{message}: it works only if the name resolves to one of its networks", cure
        )
    else:
        report.error(path, message, "use https, or name the host there")


def _private(report: Report, host: str) -> bool:
    """Whether this is an address, not a name, and would be refused."""
    address = _address(host)
    entries = report.config.webhooks.allow_private
    return _is_address(address) and not allowed(address, host, entries)


def _address(host: str) -> str:
    """RFC 6761 6.3: localhost is loopback, without asking anybody."""
    return "127.0.0.1" if host == "localhost" or host.endswith(".localhost") else host


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


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
    check_tls_files(report, at, tls)


def _callback(report: Report) -> None:
    callback = report.config.webhooks.callback
    if callback is None or callback.startswith("https:"):
        return
    if not is_loopback(urlsplit(callback).hostname or ""):
        report.error(("webhooks", "callback"), "webhooks call back only with https", "use https")
