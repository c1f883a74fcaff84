"""Checks of brokers: where they keep things, and how they are reached."""

from __future__ import annotations

from pathlib import Path as FilePath

from app.config.lint.report import Report, check_characters, check_host, check_lasts
from app.config.lint.servers import Body, bodies, check_tls_files
from app.config.load.finding import Path, written
from app.config.model.brokers import (
    Broker,
    EmbeddedBroker,
    InFlight,
    KafkaBroker,
    PulsarBroker,
    RabbitBroker,
)
from app.gateway.port import is_loopback
from app.model.capabilities import EMBEDDED_RECORD

_IN_CLEAR = "the password or token crosses the network without TLS"
_ENCRYPTED = {"service_url": "begin it with pulsar+ssl://", "admin_url": "begin it with https://"}


def check_brokers(report: Report) -> None:
    taken: dict[FilePath, str] = {}
    for name, broker in report.config.brokers.items():
        _holds_a_batch(report, name, broker.in_flight)
        _holds_bodies(report, name, broker)
        if isinstance(broker, EmbeddedBroker):
            _embedded(report, name, broker, taken)
        elif isinstance(broker, KafkaBroker):
            _kafka(report, name, broker)
        elif isinstance(broker, RabbitBroker):
            _rabbitmq(report, name, broker)
        else:
            _pulsar(report, name, broker)


def _holds_a_batch(report: Report, name: str, own: InFlight) -> None:
    """Warn of requests that are more than may be in flight: answered 503 for ever, however idle the broker is."""
    limits = report.config.limits
    largest = max(_bodies_for(report, name), key=lambda body: body.size)
    for bound, field, most, what in (
        (own.records or limits.in_flight_records, "records", limits.max_batch, "limits.max_batch"),
        (own.bytes or limits.in_flight_bytes, "bytes", largest.size, written(largest.path)),
    ):
        if bound < most:
            has_own = getattr(own, field) is not None
            path: Path = (
                ("brokers", name, "in_flight", field)
                if has_own
                else ("limits", f"in_flight_{field}")
            )
            report.warning(
                path,
                f"is below {what}, {most}: a request of that size could never be accepted",
                f"raise it to several times {what}, or lower that",
            )


def _holds_bodies(report: Report, name: str, broker: Broker) -> None:
    """Warn of bodies that are accepted and do not fit into a record of the broker. The default of limits.body is
    about the bound of every broker, so it is looked at only where somebody has set it."""
    is_set = "body" in report.config.limits.model_fields_set
    most = EMBEDDED_RECORD if isinstance(broker, EmbeddedBroker) else broker.max_record
    for body in _bodies_for(report, name):
        if body.size <= most or not body.is_for(name) or not (is_set or body.is_intake):
            continue
        cure = f"set {written(body.path)} to less"
        if not isinstance(broker, EmbeddedBroker):
            cure += f", or raise brokers.{name}.max_record and the limit of the broker itself"
        report.warning(
            body.path,
            f"takes {body.size} bytes, and a record of broker {name!r} has at most {most}: a larger event is "
            "answered 413",
            cure,
        )


def _bodies_for(report: Report, name: str) -> list[Body]:
    """Return the bounds of bodies that may become records of the broker; that of all bodies comes first."""
    first, *others = bodies(report.config)
    return [first, *[each for each in others if each.is_for(name)]]


def _embedded(
    report: Report, name: str, broker: EmbeddedBroker, taken: dict[FilePath, str]
) -> None:
    setting: Path = ("brokers", name, "path")
    place = report.resolved(broker.path)
    if place in taken:
        report.error(
            setting,
            f"is also the folder of broker {taken[place]!r}",
            "give each embedded log its own folder",
        )
    taken.setdefault(place, name)
    if report.is_file(broker.path):
        report.error(setting, "is a file", "name a folder; it is created if it is missing")
    check_lasts(report, setting, broker.path)
    if broker.partitions > broker.max_partitions:
        report.error(
            ("brokers", name, "max_partitions"),
            f"has no room for one topic of {broker.partitions} partitions",
            "raise it, or lower partitions",
        )


def _kafka(report: Report, name: str, broker: KafkaBroker) -> None:
    setting: Path = ("brokers", name, "security")
    sasl = broker.security.sasl
    if sasl is not None:
        local = _all_local(broker.bootstrap_servers)
        if broker.security.encryption is None and not local:
            report.warning((*setting, "sasl"), _IN_CLEAR, "add tls: {}")
        if sasl.oauth is not None:
            _secret_url(
                report, (*setting, "sasl", "oauth", "token_endpoint"), sasl.oauth.token_endpoint
            )
        if sasl.token_file is not None and report.lacks_file(sasl.token_file):
            report.error(
                (*setting, "sasl", "token_file"), "the file does not exist here", "name a file"
            )
    check_tls_files(report, setting, broker.security.tls)


def _rabbitmq(report: Report, name: str, broker: RabbitBroker) -> None:
    security, setting = broker.security, ("brokers", name, "security")
    if broker.queue_type == "stream" and "{group}" in broker.queue:
        report.error(
            ("brokers", name, "queue"),
            "the queues of a stream belong to no group: each group reads the whole stream",
            "leave {group} out of it",
        )
    if security.mechanism == "PLAIN" and not _all_local(broker.addresses):
        if security.tls is None:
            report.warning(setting, _IN_CLEAR, "add tls: {}")
        if "username" not in security.model_fields_set:
            report.warning(
                setting,
                "RabbitMQ accepts guest only from its own machine",
                "set username and password",
            )
    check_tls_files(report, setting, security.tls)


def _pulsar(report: Report, name: str, broker: PulsarBroker) -> None:
    security, setting = broker.security, ("brokers", name, "security")
    login = security.token is not None or security.oauth2 is not None
    encrypted = {
        "service_url": broker.service_url.startswith("pulsar+ssl:"),
        "admin_url": broker.admin_url.startswith("https:"),
    }
    for url, safe in encrypted.items():
        if login and not safe and not _all_local(_authority(getattr(broker, url))):
            report.warning(("brokers", name, url), _IN_CLEAR, _ENCRYPTED[url])
    if security.tls is not None and not any(encrypted.values()):
        report.error(
            (*setting, "tls"),
            "has no effect: neither address uses TLS",
            f"{_ENCRYPTED['service_url']}, {_ENCRYPTED['admin_url']}",
        )
    if security.oauth2 is not None:
        _secret_url(report, (*setting, "oauth2", "issuer_url"), security.oauth2.issuer_url)
        if report.lacks_file(security.oauth2.credentials):
            report.error(
                (*setting, "oauth2", "credentials"),
                "the file does not exist here",
                "name a JSON file with client_id and client_secret",
            )
    check_tls_files(report, setting, security.tls)


def _secret_url(report: Report, setting: Path, url: str) -> None:
    check_characters(report, setting, url)
    check_host(report, setting, url)
    if url.startswith("http:") and not _all_local(_authority(url)):
        report.warning(setting, "the client's secret crosses the network without TLS", "use https")


def _authority(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


def _all_local(servers: str) -> bool:
    hosts = [_host(server.strip()) for server in servers.split(",")]
    return all(is_loopback(host) for host in hosts)


def _host(server: str) -> str:
    """Of ``host``, ``host:port`` or ``[address]:port``."""
    host, colon, port = server.rpartition(":")
    return host if colon and port.isdecimal() else server
