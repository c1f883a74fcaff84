"""Checks of brokers: their folders, their limits, and the security of their connections."""

from __future__ import annotations

from pathlib import Path as FilePath

from app.config.lint.report import LintReport, check_characters, check_host, check_persistent
from app.config.lint.servers import BodyLimit, bodies, check_tls_files
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

_IN_CLEAR = "The password or token crosses the network without TLS."
_ENCRYPTED = {
    "service_url": "Begin service_url with pulsar+ssl://.",
    "admin_url": "Begin admin_url with https://.",
}


def check_brokers(report: LintReport) -> None:
    taken: dict[FilePath, str] = {}
    for name, broker in report.config.brokers.items():
        _check_in_flight(report, name, broker.in_flight)
        _check_bodies(report, name, broker)
        if isinstance(broker, EmbeddedBroker):
            _embedded(report, name, broker, taken)
        elif isinstance(broker, KafkaBroker):
            _kafka(report, name, broker)
        elif isinstance(broker, RabbitBroker):
            _rabbitmq(report, name, broker)
        else:
            _pulsar(report, name, broker)


def _check_in_flight(report: LintReport, name: str, own: InFlight) -> None:
    """Warn if a request may be larger than the limit on records in flight. Such a request is
    answered 503 even if the broker is idle.
    """
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
                f"The limit is below {what}, which is {most}. A request of that size is always refused.",
                f"Raise this limit to several times {what}, or lower {what}.",
            )


def _check_bodies(report: LintReport, name: str, broker: Broker) -> None:
    """Warn if a request body may be accepted that is too large for a record of the broker.

    The default of ``limits.body`` is about as large as the largest record of every broker. So the
    check applies only if the file sets ``limits.body``.
    """
    is_set = "body" in report.config.limits.model_fields_set
    most = EMBEDDED_RECORD if isinstance(broker, EmbeddedBroker) else broker.max_record
    for body in _bodies_for(report, name):
        if body.size <= most or not body.is_for(name) or not (is_set or body.is_intake):
            continue
        setting = written(body.path)
        cure = f"Lower {setting}"
        if not isinstance(broker, EmbeddedBroker):
            cure += f", or raise brokers.{name}.max_record and the limit of the broker itself"
        report.warning(
            body.path,
            f"The limit is {body.size} bytes, but a record of broker {name!r} has at most {most} bytes, so a larger "
            "event is answered 413.",
            f"{cure}.",
        )


def _bodies_for(report: LintReport, name: str) -> list[BodyLimit]:
    """Return the body limits of requests whose events may go to the broker. The first is
    ``limits.body``.
    """
    first, *others = bodies(report.config)
    return [first, *[each for each in others if each.is_for(name)]]


def _embedded(
    report: LintReport, name: str, broker: EmbeddedBroker, taken: dict[FilePath, str]
) -> None:
    setting: Path = ("brokers", name, "path")
    place = report.resolved(broker.path)
    if place in taken:
        report.error(
            setting,
            f"The broker {taken[place]!r} uses the same folder.",
            "Give each embedded log its own folder.",
        )
    taken.setdefault(place, name)
    if report.is_file(broker.path):
        report.error(
            setting,
            "The path names a file, but an embedded log needs a folder.",
            "Name a folder. Skybridge creates a missing folder.",
        )
    check_persistent(report, setting, broker.path)
    if broker.partitions > broker.max_partitions:
        report.error(
            ("brokers", name, "max_partitions"),
            f"The limit max_partitions is too low for one topic of {broker.partitions} partitions.",
            "Raise max_partitions, or lower the setting partitions.",
        )


def _kafka(report: LintReport, name: str, broker: KafkaBroker) -> None:
    setting: Path = ("brokers", name, "security")
    sasl = broker.security.sasl
    if sasl is not None:
        local = _all_local(broker.bootstrap_servers)
        if broker.security.encryption is None and not local:
            report.warning((*setting, "sasl"), _IN_CLEAR, "Add tls: {} to security.")
        if sasl.oauth is not None:
            _secret_url(
                report, (*setting, "sasl", "oauth", "token_endpoint"), sasl.oauth.token_endpoint
            )
        if sasl.token_file is not None and report.lacks_file(sasl.token_file):
            report.error(
                (*setting, "sasl", "token_file"),
                "The file does not exist on this machine.",
                "Name an existing file.",
            )
    check_tls_files(report, setting, broker.security.tls)


def _rabbitmq(report: LintReport, name: str, broker: RabbitBroker) -> None:
    security, setting = broker.security, ("brokers", name, "security")
    if broker.queue_type == "stream" and "{group}" in broker.queue:
        report.error(
            ("brokers", name, "queue"),
            "The queue name contains {group}, but all groups read the same queues of a stream.",
            "Remove {group} from the queue name.",
        )
    if security.mechanism == "PLAIN" and not _all_local(broker.addresses):
        if security.tls is None:
            report.warning(setting, _IN_CLEAR, "Add tls: {}.")
        if "username" not in security.model_fields_set:
            report.warning(
                setting,
                "The user name is guest. RabbitMQ accepts this user only from its own machine.",
                "Set username and password.",
            )
    check_tls_files(report, setting, security.tls)


def _pulsar(report: LintReport, name: str, broker: PulsarBroker) -> None:
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
            "The section tls has no effect, because neither service_url nor admin_url uses TLS.",
            f"{_ENCRYPTED['service_url']} {_ENCRYPTED['admin_url']}",
        )
    if security.oauth2 is not None:
        _secret_url(report, (*setting, "oauth2", "issuer_url"), security.oauth2.issuer_url)
        if report.lacks_file(security.oauth2.credentials):
            report.error(
                (*setting, "oauth2", "credentials"),
                "The file does not exist on this machine.",
                "Name a JSON file with client_id and client_secret.",
            )
    check_tls_files(report, setting, security.tls)


def _secret_url(report: LintReport, setting: Path, url: str) -> None:
    check_characters(report, setting, url)
    check_host(report, setting, url)
    if url.startswith("http:") and not _all_local(_authority(url)):
        report.warning(
            setting,
            "The client secret crosses the network without TLS.",
            "Begin the URL with https://.",
        )


def _authority(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


def _all_local(servers: str) -> bool:
    hosts = [_host(server.strip()) for server in servers.split(",")]
    return all(is_loopback(host) for host in hosts)


def _host(server: str) -> str:
    """Return the host of ``host``, ``host:port`` or ``[address]:port``."""
    host, colon, port = server.rpartition(":")
    return host if colon and port.isdecimal() else server
