"""From the brokers of a configuration to their logs. The only place that knows every driver."""

from __future__ import annotations

from app.brokers import embedded, kafka
from app.brokers.portable import Bounds, PortableLog
from app.config.brokers import Broker, ClientTls, EmbeddedBroker, KafkaBroker, Security
from app.config.model import Config
from app.worker.joining import group_name


def open_logs(config: Config) -> dict[str, PortableLog]:
    """By name; nothing is opened before ``start``."""
    return {name: _open(name, broker, config) for name, broker in config.brokers.items()}


async def declare_subscriptions(config: Config, name: str, log: PortableLog) -> None:
    """Retention of an embedded log keeps what these have not read (rule 10), and forgets those that
    left the configuration."""
    broker = config.brokers[name]
    if not isinstance(broker, EmbeddedBroker) or not isinstance(
        log.driver, embedded.EmbeddedDriver
    ):
        return
    await log.driver.declare(
        [
            embedded.Declared(
                group_name(config.installation, each.id), each.source.topics, broker.drop_unread
            )
            for each in config.subscriptions
            if each.source.broker == name
        ]
    )


def _open(name: str, broker: Broker, config: Config) -> PortableLog:
    bounds = _bounds(broker, config)
    if isinstance(broker, KafkaBroker):
        return _kafka(name, broker, bounds)
    return _embedded(name, broker, bounds)


def _bounds(broker: Broker, config: Config) -> Bounds:
    return Bounds(
        records=broker.in_flight.records or config.limits.in_flight_records,
        bytes=broker.in_flight.bytes or config.limits.in_flight_bytes,
        publish_timeout=config.timeouts.publish,
        drain_timeout=config.timeouts.drain,
    )


def _embedded(name: str, broker: EmbeddedBroker, bounds: Bounds) -> PortableLog:
    return embedded.open_log(
        name=name,
        path=broker.path,
        partitions=broker.partitions,
        max_bytes=broker.size_cap or 0,
        retention=embedded.Retention(max_age=broker.retention.age, max_bytes=broker.retention.size),
        bounds=bounds,
    )


def _kafka(name: str, broker: KafkaBroker, bounds: Bounds) -> PortableLog:
    return kafka.open_log(
        name=name,
        bootstrap_servers=broker.bootstrap_servers,
        client_id=broker.client_id,
        tls=_tls(broker.security.encryption),
        sasl=_sasl(broker.security),
        compression=None if broker.compression == "none" else broker.compression,
        create_topics=broker.topics.create,
        partitions=broker.topics.partitions,
        replication=broker.topics.replication,
        request_timeout=bounds.publish_timeout,
        bounds=bounds,
    )


def _tls(tls: ClientTls | None) -> kafka.Tls | None:
    if tls is None:
        return None
    return kafka.Tls(
        ca=None if tls.ca is None else str(tls.ca),
        certificate=None if tls.cert is None else str(tls.cert),
        key=None if tls.key is None else str(tls.key),
        verify_host=tls.verify_host,
    )


def _sasl(security: Security) -> kafka.Sasl | None:
    if security.sasl is None:
        return None
    return kafka.Sasl(
        mechanism=security.sasl.mechanism,
        username=security.sasl.username,
        password=security.sasl.password.get_secret_value(),
    )
