"""Checks of the listeners."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path as FilePath
from typing import NamedTuple

from app.config.lint.report import Report
from app.config.load.finding import Path, written
from app.config.model.brokers import EmbeddedBroker
from app.config.model.config import Config
from app.intakes.compiled import max_body
from app.model.route import Strict
from app.tls import Pems, faults_of


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
    for body in bodies(report.config):
        if report.config.limits.receiving < body.size:
            report.error(
                ("limits", "receiving"),
                f"is below {written(body.path)}: a body of that size could never be accepted",
                f"raise it to several times {written(body.path)}",
            )
    for name, tls in (("events", server.events.tls), ("admin", server.admin.tls)):
        check_tls_files(report, ("server", name), tls)


class Body(NamedTuple):
    """Bodies of up to ``size`` bytes, which the setting at ``path`` lets in. ``brokers``: where their events may go."""

    path: Path
    size: int
    brokers: Collection[str]

    @property
    def is_intake(self) -> bool:
        return self.path[0] == "intakes"

    def is_for(self, broker: str) -> bool:
        return broker in self.brokers


def bodies(config: Config) -> Iterator[Body]:
    """Yield the bound of all bodies, then that of each intake which has a bound of its own."""
    yield Body(("limits", "body"), config.limits.body, _brokers_of(config, None))
    for n, intake in enumerate(config.intakes):
        if size := max_body(intake):
            yield Body(("intakes", n, "max_body"), size, _brokers_of(config, intake.route))


def _brokers_of(config: Config, route: str | None) -> Collection[str]:
    """Return the brokers that a route publishes to; for None, those of all routes."""
    routes = [each for each in config.routes if route in {None, each.name}]
    return {target.broker for each in routes for target in each.to}


def _port_can_be_shared(report: Report) -> None:
    path: Path = ("server", "events", "reuse_port")
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


def check_tls_files(report: Report, owner: Path, tls: Strict | None) -> None:
    """Report what is wrong with the files that ``tls`` of ``owner`` names: of a listener, a broker, a webhook."""
    files = {part: path for part, path in tls or () if isinstance(path, FilePath)}
    lacking = [part for part, path in files.items() if report.lacks_file(path)]
    for part in lacking:
        report.error(
            (*owner, "tls", part), "the file does not exist here", "name a readable PEM file"
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
        for fault in faults_of(pems) if report.looks else ():
            tell = report.error if fault.fatal else report.warning
            tell((*owner, "tls", fault.part), fault.message, fault.cure)
