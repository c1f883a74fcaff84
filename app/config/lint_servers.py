"""Checks of the listeners."""

from __future__ import annotations

import sys
from ipaddress import ip_address
from pathlib import Path as FilePath

from app.config.brokers import EmbeddedBroker
from app.config.report import Report
from app.model.route import Strict


def check_servers(report: Report) -> None:
    server = report.config.server
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
        if isinstance(path, FilePath) and report.lacks_file(path):
            report.error(
                (*owner, "tls", part), "the file does not exist here", "name a readable PEM file"
            )
