"""Checks of where webhooks go: no credentials in URLs, nothing private that is not named. And of what requests to
them bear: signatures, credentials, the handshake.

The real guard looks at every resolved address (``delivery.address_guard``); this one tells at the
desk what that one would refuse.
"""

from __future__ import annotations

from ipaddress import ip_network
from urllib.parse import urlsplit

from app.config.lint.report import HOST_CURE, Report, check_characters, check_host
from app.config.lint.servers import check_tls_files
from app.config.load.finding import Path
from app.delivery.address_guard import host_allowed, is_address, is_literal, may_reach
from app.delivery.target_url import BadHost, TargetUrl, read_url
from app.gateway.port import is_loopback
from app.model.subscription import Subscription
from app.model.webhook import OAuth2

_EVERYTHING = {"*", "0.0.0.0/0", "::/0"}
_LOOPBACK = ("127.0.0.1", "::1")
_PLAIN = "plain http goes only to hosts in webhooks.allow_private"


def check_sinks(report: Report) -> None:
    for n, entry in enumerate(report.config.webhooks.allow_private):
        _entry(report, ("webhooks", "allow_private", n), entry)
    for n, subscription in enumerate(report.config.subscriptions):
        if subscription.webhook_url:
            check_target(report, ("subscriptions", n, "sink"), subscription.webhook_url)


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
    """Check a URL that requests go to, by the reader and the guard that the sinks use."""
    try:
        url = read_url(sink)
    except BadHost as error:
        report.error(path, f"names a host that cannot be looked up: {error}", HOST_CURE)
        return
    except ValueError:
        report.error(path, "is no URL", "https://host/path, the port a number up to 65535")
        return
    if url.login is not None:
        report.error(
            path,
            "holds a user name or password: URLs end up in logs",
            "take them out of the URL",
        )
    check_characters(report, path, sink)
    _reach(report, path, url)


def _reach(report: Report, path: Path, url: TargetUrl) -> None:
    """Refuse what the guard will refuse at delivery, whatever the name resolves to."""
    plain = url.scheme == "http"
    may = _may_reach(report, url.host, plain=plain)
    refused_without_dot = _may_reach(report, url.host.rstrip("."), plain=plain) is False
    if may is None and plain:
        report.warning(
            path,
            f"{_PLAIN}: it works only if the name resolves to one of its networks",
            "name the host there too, or use https",
        )
    elif may is not False:
        return
    elif is_literal(url.host) and not (is_address(url.host) and refused_without_dot):
        report.error(
            path,
            f"the address {url.host} is in a spelling that the guard of webhooks refuses",
            "write it as four decimal numbers, 192.0.2.1, or as IPv6; or use a name",
        )
    elif plain:
        report.error(path, _PLAIN, "use https, or name the host there")
    else:
        report.error(
            path, "is a private address that is not allowed", "add it to webhooks.allow_private"
        )


def _may_reach(report: Report, host: str, *, plain: bool) -> bool | None:
    """Return what the guard decides; localhost is loopback without any look-up (RFC 6761 6.3)."""
    webhooks = report.config.webhooks
    entries, proxied = webhooks.allow_private, webhooks.proxy is not None
    name = host.rstrip(".")
    if (name == "localhost" or name.endswith(".localhost")) and not proxied:
        return host_allowed(name, entries) or any(host_allowed(each, entries) for each in _LOOPBACK)
    return may_reach(host, entries, plain=plain, proxied=proxied)


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def check_webhooks(report: Report) -> None:
    _callback(report)
    for n, entry in enumerate(report.config.webhooks.configurable_targets or ()):
        if "://" in entry:
            path: Path = ("webhooks", "configurable_targets", n)
            check_host(report, path, entry.removesuffix("*"))
    for n, subscription in enumerate(report.config.subscriptions):
        if subscription.webhook_url:
            at: Path = ("subscriptions", n)
            _strict(report, at, subscription)
            _signing(report, at, subscription)
            _handshake(report, at, subscription)
            _tls(report, at, subscription)
            if isinstance(subscription.auth, OAuth2):
                endpoint = subscription.auth.token_endpoint
                check_target(report, (*at, "auth", "token_endpoint"), endpoint)


def _strict(report: Report, at: Path, subscription: Subscription) -> None:
    if subscription.strict_webhook and not subscription.webhook_url.startswith("https:"):
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
    if subscription.webhook_url.startswith("http:"):
        report.warning((*at, "tls"), "has no effect on plain http", "leave it out, or use https")
    check_tls_files(report, at, tls)


def _callback(report: Report) -> None:
    callback = report.config.webhooks.callback
    if callback is None:
        return
    at: Path = ("webhooks", "callback")
    check_characters(report, at, callback)
    check_host(report, at, callback)
    if "?" in callback or "#" in callback:
        report.warning(
            at, "has a query or fragment: the path of a callback would go into it", "leave it out"
        )
    if callback.startswith("https:"):
        return
    if not is_loopback(urlsplit(callback).hostname or ""):
        report.error(at, "webhooks call back only with https", "use https")
