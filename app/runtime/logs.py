"""From the brokers of a configuration to their logs. The only place that knows every driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from pydantic import SecretStr

from app.brokers import embedded, kafka, pulsar, rabbitmq
from app.brokers.portable import Bounds, PortableLog
from app.config.brokers import (
    Broker,
    ClientTls,
    EmbeddedBroker,
    KafkaBroker,
    OAuth2,
    PulsarBroker,
    RabbitBroker,
    Sasl,
)
from app.config.model import Config
from app.interfaces import OffsetStore
from app.model.route import log_name
from app.model.subscription import Subscription
from app.runtime.processes.door import NO_DOORS, Door, Doors, log_behind
from app.runtime.tokens import token_source
from app.worker.joining import group_name

KAFKA_ANSWER = 10.0  # seconds: of one answer, at least; see ``KafkaSettings.request_timeout``


def open_logs(
    config: Config, offsets: OffsetStore | None = None, doors: Doors = NO_DOORS
) -> dict[str, PortableLog]:
    """By name; nothing is opened before ``start``. Relaxed routes have logs of their own beside those of
    the brokers, under the names that ``model.route.log_name`` makes. ``offsets``: where groups of streams
    are; without it streams can be published to and read, not subscribed to. ``doors``: by which embedded
    logs of another process are reached."""
    logs = {
        name: _open(name, broker, config, offsets, doors.get(name))
        for name, broker in config.brokers.items()
    }
    return logs | _relaxed_logs(config)


async def declare_subscriptions(
    config: Config, name: str, log: PortableLog, subscriptions: Sequence[Subscription]
) -> None:
    """Retention of an embedded log keeps what these have not read (rule 10), and no more what only
    others had not."""
    broker = config.brokers.get(name)
    if not isinstance(broker, EmbeddedBroker) or not isinstance(
        log.driver, embedded.EmbeddedDriver
    ):
        return
    await log.driver.declare(
        [
            embedded.Declared(
                group_name(config.installation, each.id), each.source.topics, broker.drop_unread
            )
            for each in subscriptions
            if each.source.broker == name
        ]
    )


async def forget_group(
    config: Config, logs: Mapping[str, PortableLog], subscription: Subscription
) -> None:
    """Of a subscription that is deleted: one made later under its id begins anew. Other brokers keep
    groups for as long as they are set to."""
    log = logs.get(subscription.source.broker)
    if log is not None and isinstance(log.driver, embedded.EmbeddedDriver):
        await log.driver.forget(group_name(config.installation, subscription.id))


def rebound(config: Config, logs: Mapping[str, PortableLog]) -> None:
    """Of what is given to them from now on."""
    for name, log in logs.items():
        log.bounds = _bounds(config.brokers[name.partition("#")[0]], config)


def _open(
    name: str, broker: Broker, config: Config, offsets: OffsetStore | None, door: Door | None
) -> PortableLog:
    bounds = _bounds(broker, config)
    match broker:
        case KafkaBroker():
            return _kafka(name, broker, bounds)
        case RabbitBroker():
            return _rabbitmq(name, broker, bounds, offsets)
        case PulsarBroker():
            return _pulsar(name, broker, bounds)
        case EmbeddedBroker() if door is not None:
            return log_behind(name, broker, door, bounds)
        case EmbeddedBroker():
            return _embedded(name, broker, bounds)


def _relaxed_logs(config: Config) -> dict[str, PortableLog]:
    """Rule 1: what asks for less has a producer of its own, so that nobody else gets less."""
    found: dict[str, PortableLog] = {}
    for route in config.routes:
        acks = route.acknowledgements
        for target in route.to if acks != "all" else ():
            broker = config.brokers[target.broker]
            if isinstance(broker, KafkaBroker):
                name = log_name(target.broker, acks)
                found[name] = _kafka(target.broker, broker, _bounds(broker, config), acks)
    return found


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
        max_partitions=broker.max_partitions,
        group_age=broker.group_age,
        max_bytes=broker.size_cap or 0,
        retention=embedded.Retention(max_age=broker.retention.age, max_bytes=broker.retention.size),
        bounds=bounds,
    )


def _kafka(
    name: str, broker: KafkaBroker, bounds: Bounds, acks: Literal["all", 1, 0] = "all"
) -> PortableLog:
    return kafka.open_log(
        name=name,
        bootstrap_servers=broker.bootstrap_servers,
        client_id=broker.client_id,
        tls=_tls(kafka.Tls, broker.security.encryption),
        sasl=_sasl(broker.security.sasl),
        acks=acks,
        compression=None if broker.compression == "none" else broker.compression,
        create_topics=broker.topics.create,
        partitions=broker.topics.partitions,
        replication=broker.topics.replication,
        request_timeout=max(KAFKA_ANSWER, bounds.publish_timeout),
        max_record=broker.max_record,
        session_timeout=broker.session_timeout,
        instance_id=broker.instance_id,
        bounds=bounds,
    )


def _sasl(sasl: Sasl | None) -> kafka.Sasl | kafka.OAuth | None:
    if sasl is None:
        return None
    if sasl.mechanism == "OAUTHBEARER":
        return kafka.OAuth(token=token_source(sasl))
    return kafka.Sasl(
        mechanism=sasl.mechanism, username=sasl.username or "", password=_revealed(sasl.password)
    )


def _rabbitmq(
    name: str, broker: RabbitBroker, bounds: Bounds, offsets: OffsetStore | None
) -> PortableLog:
    security = broker.security
    external = security.mechanism == "EXTERNAL"
    return rabbitmq.open_log(
        name=name,
        addresses=broker.addresses,
        vhost=broker.vhost,
        username="" if external else security.username,
        password="" if external else _revealed(security.password),
        auth="external" if external else "plain",
        tls=_tls(rabbitmq.Tls, security.tls),
        client_id=broker.client_id,
        heartbeat=round(broker.heartbeat),
        create_topics=broker.topics.create,
        partitions=broker.topics.partitions,
        queue=broker.queue,
        kind=broker.queue_type,
        dead_letters=broker.dead_letter_queue,
        hash_exchange=broker.hash_exchange,
        prefetch=broker.prefetch,
        max_record=broker.max_record,
        bounds=bounds,
        offsets=offsets,
    )


def _pulsar(name: str, broker: PulsarBroker, bounds: Bounds) -> PortableLog:
    return pulsar.open_log(
        name=name,
        service_url=broker.service_url,
        admin_url=broker.admin_url,
        namespace=broker.namespace,
        client_id=broker.client_id,
        tls=_tls(pulsar.Tls, broker.security.tls),
        token=None if broker.security.token is None else _revealed(broker.security.token),
        oauth2=_oauth2(broker.security.oauth2),
        compression=None if broker.compression == "none" else broker.compression,
        create_topics=broker.topics.create,
        partitions=broker.topics.partitions,
        send_timeout=bounds.publish_timeout,
        max_record=broker.max_record,
        receiver_queue=broker.receiver_queue,
        client_log=None if broker.client_log is None else str(broker.client_log),
        bounds=bounds,
    )


def _oauth2(settings: OAuth2 | None) -> pulsar.OAuth2 | None:
    if settings is None:
        return None
    return pulsar.OAuth2(
        issuer_url=settings.issuer_url,
        credentials=str(settings.credentials),
        audience=settings.audience,
        scope=settings.scope,
    )


Tls = TypeVar("Tls", kafka.Tls, rabbitmq.Tls, pulsar.Tls)


def _tls(make: type[Tls], tls: ClientTls | None) -> Tls | None:
    if tls is None:
        return None
    return make(
        ca=None if tls.ca is None else str(tls.ca),
        certificate=None if tls.cert is None else str(tls.cert),
        key=None if tls.key is None else str(tls.key),
        verify_host=tls.verify_host,
    )


def _revealed(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()
