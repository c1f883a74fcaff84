"""Checks of the listeners: ports, limits of request bodies, TLS files."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path as FilePath
from typing import NamedTuple

from app.config.lint.report import LintReport
from app.config.load.finding import Path, written
from app.config.model.brokers import EmbeddedBroker
from app.config.model.config import Config
from app.intakes.compiled import max_body
from app.model.route import Strict
from app.tls import Pems, faults_of


def check_servers(report: LintReport) -> None:
    server = report.config.server
    if server.events.reuse_port:
        _port_can_be_shared(report)
    if server.events.port == server.admin.port != 0 and overlap(
        server.events.host, server.admin.host
    ):
        report.error(
            ("server", "admin", "port"),
            "The admin listener has the same port as the events listener.",
            "Choose another port.",
        )
    for body in bodies(report.config):
        if report.config.limits.receiving < body.size:
            setting = written(body.path)
            report.error(
                ("limits", "receiving"),
                f"The limit limits.receiving is below {setting}, so a body of that size is always refused.",
                f"Raise limits.receiving to several times {setting}.",
            )
    for name, tls in (("events", server.events.tls), ("admin", server.admin.tls)):
        check_tls_files(report, ("server", name), tls)


class BodyLimit(NamedTuple):
    """A limit of request bodies.

    The setting at ``path`` allows bodies of up to ``size`` bytes. Their events may go to
    ``brokers``.
    """

    path: Path
    size: int
    brokers: Collection[str]

    @property
    def is_intake(self) -> bool:
        """Return True if the limit is that of an intake."""
        return self.path[0] == "intakes"

    def is_for(self, broker: str) -> bool:
        """Return True if events of such bodies may go to the broker."""
        return broker in self.brokers


def bodies(config: Config) -> Iterator[BodyLimit]:
    """Yield the limit of all bodies, then that of each intake that has its own."""
    yield BodyLimit(("limits", "body"), config.limits.body, _brokers_of(config, None))
    for n, intake in enumerate(config.intakes):
        if size := max_body(intake):
            yield BodyLimit(("intakes", n, "max_body"), size, _brokers_of(config, intake.route))


def _brokers_of(config: Config, route: str | None) -> Collection[str]:
    """Return the brokers to which a route publishes. For None, return the brokers of all routes."""
    routes = [each for each in config.routes if route in {None, each.name}]
    return {target.broker for each in routes for target in each.to}


def _port_can_be_shared(report: LintReport) -> None:
    path: Path = ("server", "events", "reuse_port")
    brokers = report.config.brokers.items()
    if logs := [name for name, broker in brokers if isinstance(broker, EmbeddedBroker)]:
        report.error(
            path,
            f"Processes cannot share the port, because only one process can use the embedded log {logs[0]}.",
            "Publish to Kafka, RabbitMQ or Pulsar, or remove reuse_port.",
        )
    if sys.platform != "linux":
        report.error(
            path,
            "Processes cannot share the port on this system, because only Linux spreads connections over a shared port.",
            "Remove reuse_port on this system.",
        )


def overlap(one: str, other: str) -> bool:
    """Return True if listeners on two hosts may use the same address."""
    every = {"", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound
    return one == other or bool(every & {one, other})


def check_tls_files(report: LintReport, owner: Path, tls: Strict | None) -> None:
    """Report faults of the files in the section ``tls`` of ``owner``, a listener, a broker or a
    subscription.
    """
    files = {part: path for part, path in tls or () if isinstance(path, FilePath)}
    lacking = [part for part, path in files.items() if report.lacks_file(path)]
    for part in lacking:
        report.error(
            (*owner, "tls", part),
            "The file does not exist on this machine.",
            "Name a readable PEM file.",
        )
    if files and not lacking:
        ca_part = "client_ca" if "client_ca" in files else "ca"
        pems = Pems(
            setting=written((*owner, "tls")),
            cert=files.get("cert"),
            key=files.get("key"),
            ca=files.get(ca_part),
            ca_part=ca_part,
            signs=ca_part == "client_ca",
        )
        for fault in faults_of(pems) if report.may_read_files else ():
            tell = report.error if fault.fatal else report.warning
            tell((*owner, "tls", fault.part), fault.message, fault.cure)
