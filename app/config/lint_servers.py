"""Checks of the listeners."""

from __future__ import annotations

import sys
from ipaddress import ip_address
from pathlib import Path as FilePath

from app.config.brokers import EmbeddedBroker
from app.config.model import MIN_TOKEN, Admin
from app.config.report import Report
from app.model.route import Strict


def check_servers(report: Report) -> None:
    server = report.config.server
    _admin_is_guarded(report, server.admin)
    if server.events.reuse_port:
        _port_can_be_shared(report)
    if server.events.port == server.admin.port != 0 and overlap(
        server.events.host, server.admin.host
    ):
        report.error(
            ("server", "admin", "port"), "is the port of the events listener", "choose another"
        )
    if report.config.limits.receiving < report.config.limits.body:
        report.error(
            ("limits", "receiving"),
            "is below limits.body: a body of that size could never be accepted",
            "raise it to several times limits.body",
        )
    for name, tls in (("events", server.events.tls), ("admin", server.admin.tls)):
        tls_files_exist(report, ("server", name), tls)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _admin_is_guarded(report: Report, admin: Admin) -> None:
    token = admin.token.get_secret_value().strip() if admin.token is not None else ""
    if admin.token is not None and not token:
        report.error(("server", "admin", "token"), "is empty", "give it a value or leave it out")
    elif 0 < len(token) < MIN_TOKEN:
        report.error(
            ("server", "admin", "token"),
            f"has fewer than {MIN_TOKEN} characters and can be guessed",
            "use a longer one, for example: openssl rand -hex 16",
        )
    elif not token and not is_loopback(admin.host):
        report.error(
            ("server", "admin", "host"),
            "the admin listener off loopback needs a token",
            'set server.admin.token to "${env:NAME}", or host to 127.0.0.1',
        )
    elif not is_loopback(admin.host) and admin.tls is None:
        report.warning(
            ("server", "admin", "token"),
            "the token crosses the network in clear",
            "set server.admin.tls, or put a proxy with TLS in front",
        )


def _port_can_be_shared(report: Report) -> None:
    path = ("server", "events", "reuse_port")
    brokers = report.config.brokers.items()
    if logs := [name for name, broker in brokers if isinstance(broker, EmbeddedBroker)]:
        report.error(
            path,
            f"the embedded log {logs[0]} belongs to one process, so no other gateway can publish to it",
            "publish to Kafka, RabbitMQ or Pulsar, or leave it out",
        )
    if sys.platform != "linux":
        report.error(
            path, "only Linux spreads connections evenly over a shared port", "leave it out here"
        )


def overlap(one: str, other: str) -> bool:
    """Whether two hosts may mean the same address."""
    every = {"", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound
    return one == other or bool(every & {one, other})


def tls_files_exist(report: Report, owner: tuple[str | int, ...], tls: Strict | None) -> None:
    """Every file that ``tls`` of ``owner`` names, whatever its kind: of a listener, a broker, a webhook."""
    for part, path in tls or ():
        if isinstance(path, FilePath) and not path.is_file():
            report.error(
                (*owner, "tls", part), "the file does not exist here", "name a readable PEM file"
            )
