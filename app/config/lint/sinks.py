"""Checks of webhooks. URLs have no credentials, private addresses are allowed explicitly, and
signatures and the handshake can work.

At delivery, ``delivery.address_guard`` checks every resolved address. The checks in this module
report before the start which URLs it would refuse.
"""

from __future__ import annotations

from ipaddress import ip_network
from urllib.parse import urlsplit

from app.config.lint.report import HOST_CURE, LintReport, check_characters, check_host
from app.config.lint.servers import check_tls_files
from app.config.load.finding import Path
from app.delivery.address_guard import host_allowed, is_address, is_literal, may_reach
from app.delivery.target_url import BadHost, TargetUrl, read_url
from app.gateway.port import is_loopback
from app.model.subscription import Subscription
from app.model.webhook import OAuth2

_EVERYTHING = {"*", "0.0.0.0/0", "::/0"}
_LOOPBACK = ("127.0.0.1", "::1")
_PLAIN = "The URL begins with http://, which is allowed only for hosts in webhooks.allow_private"


def check_sinks(report: LintReport) -> None:
    for n, entry in enumerate(report.config.webhooks.allow_private):
        _entry(report, ("webhooks", "allow_private", n), entry)
    for n, subscription in enumerate(report.config.subscriptions):
        if subscription.webhook_url:
            check_target(report, ("subscriptions", n, "sink"), subscription.webhook_url)


def _entry(report: LintReport, path: Path, entry: str) -> None:
    if entry in _EVERYTHING:
        report.warning(
            path,
            "The entry allows webhooks to every private address, including metadata services of clouds.",
            "Name only the networks and hosts that your webhooks need.",
        )
    elif "/" in entry and not _is_network(entry):
        report.error(
            path,
            "The entry is neither a network nor a host.",
            "Write the entry as 10.0.0.0/8, hooks.internal or *.internal.",
        )


def check_target(report: LintReport, path: Path, sink: str) -> None:
    """Check the URL of a webhook, with the URL parser and the address guard that are also used at
    delivery.
    """
    try:
        url = read_url(sink)
    except BadHost as error:
        report.error(path, f"The URL has a host that cannot be looked up: {error}.", HOST_CURE)
        return
    except ValueError:
        report.error(
            path,
            "The value is not a URL.",
            "Write the value as https://host:port/path, with a port from 1 to 65535.",
        )
        return
    if url.login is not None:
        report.error(
            path,
            "The URL has a user name or password, which would appear in logs.",
            "Remove the user name and the password from the URL, and set auth.",
        )
    if "#" in sink:
        report.warning(
            path,
            "The URL has a fragment, which no HTTP request has, so the target does not get it.",
            "Remove # and what follows, or write # as %23.",
        )
    check_characters(report, path, sink)
    _check_address(report, path, url)


def _check_address(report: LintReport, path: Path, url: TargetUrl) -> None:
    """Report a host that the address guard will refuse at delivery, whatever its name resolves to."""
    plain = url.scheme == "http"
    may = _may_reach(report, url.host, plain=plain)
    refused_without_dot = _may_reach(report, url.host.rstrip("."), plain=plain) is False
    if may is None and plain:
        report.warning(
            path,
            f"{_PLAIN}. The URL works only if its host name resolves to an address in one of these networks.",
            "Add the host name to webhooks.allow_private too, or begin the URL with https://.",
        )
    elif may is not False:
        return
    elif is_literal(url.host) and not (is_address(url.host) and refused_without_dot):
        report.error(
            path,
            f"The address {url.host} has a form that the address guard refuses.",
            "Write the address as four decimal numbers (192.0.2.1) or as IPv6, or use a host name.",
        )
    elif plain:
        report.error(
            path,
            f"{_PLAIN}.",
            "Begin the URL with https://, or add the host to webhooks.allow_private.",
        )
    else:
        report.error(
            path,
            "The URL has a private address that webhooks.allow_private does not list.",
            "Add the address to webhooks.allow_private.",
        )


def _may_reach(report: LintReport, host: str, *, plain: bool) -> bool | None:
    """Return the decision of the address guard about a host, or None if it depends on the look-up
    of the name. The name localhost is always loopback (RFC 6761 6.3).
    """
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


def check_webhooks(report: LintReport) -> None:
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


def _strict(report: LintReport, at: Path, subscription: Subscription) -> None:
    if subscription.strict_webhook and not subscription.webhook_url.startswith("https:"):
        report.error(
            (*at, "sink"),
            "The URL does not begin with https://, which strict_webhook requires.",
            "Begin the URL with https://.",
        )


def _signing(report: LintReport, at: Path, subscription: Subscription) -> None:
    if subscription.signing is None or subscription.request is not None:
        return
    if subscription.content_mode != "structured":
        report.warning(
            (*at, "content_mode"),
            "The content mode puts attributes into headers, but the signature covers only the body. A proxy "
            "could change the attributes.",
            "Remove content_mode, or set it to structured.",
        )


def _handshake(report: LintReport, at: Path, subscription: Subscription) -> None:
    if subscription.handshake == "require" and report.config.webhooks.origin is None:
        report.warning(
            (*at, "handshake"),
            f"The handshake asks targets to accept the origin {report.config.installation!r}, which is not a DNS name.",
            "Set webhooks.origin to a DNS name.",
        )
    if subscription.handshake == "off" and subscription.request_rate is not None:
        report.warning(
            (*at, "request_rate"),
            "The setting request_rate has no effect, because the handshake is off.",
            "Remove request_rate, or set handshake: ask.",
        )


def _tls(report: LintReport, at: Path, subscription: Subscription) -> None:
    tls = subscription.tls
    if tls is None:
        return
    if subscription.webhook_url.startswith("http:"):
        report.warning(
            (*at, "tls"),
            "The section tls has no effect, because the URL begins with http://.",
            "Remove tls, or begin the URL with https://.",
        )
    check_tls_files(report, at, tls)


def _callback(report: LintReport) -> None:
    callback = report.config.webhooks.callback
    if callback is None:
        return
    at: Path = ("webhooks", "callback")
    check_characters(report, at, callback)
    check_host(report, at, callback)
    if "?" in callback or "#" in callback:
        report.warning(
            at,
            "The callback URL has a query or a fragment. Skybridge adds a path to the end of the URL, and the path would become part of the query or fragment.",
            "Remove the part of the URL from ? or # on.",
        )
    if callback.startswith("https:"):
        return
    if not is_loopback(urlsplit(callback).hostname or ""):
        report.error(
            at,
            "The callback URL does not begin with https://, which the webhook specification requires.",
            "Begin the URL with https://.",
        )
