"""Checks of the Kafka listeners of embedded logs: logins, encryption, ports, limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.config.derived.kafka_logins import kafka_logins
from app.config.lint.report import LintReport
from app.config.lint.servers import check_tls_files, overlap
from app.config.load.finding import Path
from app.config.model.brokers import EmbeddedBroker
from app.config.model.kafka_listener import KafkaListener, split
from app.gateway.port import is_loopback

EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound


def check_kafka_listeners(report: LintReport) -> None:
    taken = list(_servers(report))
    for name, broker in report.config.brokers.items():
        if isinstance(broker, EmbeddedBroker) and broker.kafka_listener is not None:
            setting: Path = ("brokers", name, "kafka_listener")
            _guarded(report, setting, broker.kafka_listener)
            _reachable(report, setting, broker.kafka_listener)
            _bounded(report, setting, broker)
            host, port = split(broker.kafka_listener.listen)
            for other, at, its_port in taken:
                if port == its_port != 0 and overlap(host, at):
                    report.error(
                        setting,
                        f"The Kafka listener has the same port as {other}.",
                        "Choose another port.",
                    )
            taken.append((f"the Kafka listener of {name}", host, port))


def _servers(report: LintReport) -> Iterator[tuple[str, str, int]]:
    server = report.config.server
    yield "the events listener", server.events.host, server.events.port
    yield "the admin listener", server.admin.host, server.admin.port


def _guarded(report: LintReport, setting: Path, listener: KafkaListener) -> None:
    host, _ = split(listener.listen)
    logins = kafka_logins(listener, report.config.producers)
    if logins is None and not is_loopback(host):
        report.error(
            setting,
            "The Kafka listener is reachable from other machines and has no logins.",
            'Add producers with kafka: {password: "${env:NAME}"}, or let the Kafka listener listen on 127.0.0.1.',
        )
    elif logins is not None and not logins.passwords:
        report.error(
            (*setting, "sasl"),
            "The Kafka listener demands a login, but no producer has one.",
            "Add producers with kafka: {password: ...}.",
        )
    elif logins is not None and listener.tls is None and not is_loopback(host):
        report.warning(
            (*setting, "sasl"),
            "The data of clients, and with PLAIN their passwords, cross the network unencrypted.",
            "Add tls to the Kafka listener.",
        )
    if listener.sasl is not None and listener.sasl.users:
        _old_users(report, (*setting, "sasl", "users"), listener.sasl.users)
    check_tls_files(report, setting, listener.tls)


def _old_users(report: LintReport, setting: Path, users: Mapping[str, object]) -> None:
    report.warning(
        setting,
        "The section users is the old form of logins. It gives each user every right.",
        "Write producers with kafka: {password, write, read, groups} instead.",
    )
    for each in report.config.producers:
        if each.kafka is not None and each.name in users:
            report.error(
                (*setting, each.name),
                f"The user {each.name!r} is also a producer with a kafka login.",
                "Remove the user from the section users.",
            )


def _bounded(report: LintReport, setting: Path, broker: EmbeddedBroker) -> None:
    listener = broker.kafka_listener
    assert listener is not None  # noqa: S101 - the caller has checked it
    if listener.min_session_timeout > listener.max_session_timeout:
        report.error(
            (*setting, "min_session_timeout"),
            "The value of min_session_timeout is above max_session_timeout, so no member could join a group.",
            "Lower min_session_timeout, or raise max_session_timeout.",
        )
    if broker.partitions > listener.max_partitions:
        report.error(
            (*setting, "max_partitions"),
            f"The limit max_partitions is below {broker.partitions}, the number of partitions of a new topic.",
            "Raise max_partitions, or lower the setting partitions of the broker.",
        )


def _reachable(report: LintReport, setting: Path, listener: KafkaListener) -> None:
    host, port = split(listener.listen)
    if port > 65535:  # noqa: PLR2004 - the largest port number
        report.error(setting, f"The port {port} does not exist.", "Choose a port from 1 to 65535.")
    if host in EVERYWHERE and listener.advertised is None:
        report.error(
            setting,
            f"Clients cannot connect to the address {host}.",
            "Set advertised to an address that clients can reach.",
        )
