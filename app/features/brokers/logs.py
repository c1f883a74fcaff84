"""Open the logs of the brokers of a configuration. A driver is imported when a broker needs it."""

# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.brokers.portable import PortableLog, PublishBounds
from app.config.model.brokers import Broker, EmbeddedBroker, KafkaBroker, PulsarBroker, RabbitBroker
from app.config.model.config import Config
from app.features.brokers.drivers import open_embedded, open_kafka, open_pulsar, open_rabbitmq
from app.interfaces import Store
from app.model.log_name import LogName
from app.model.route import log_of
from app.model.spool import group_name, spool_subscription, spool_topic, spooled_route
from app.model.subscription import Subscription
from app.telemetry import Counters


def open_logs(
    config: Config, store: Store | None = None, counters: Counters | None = None
) -> dict[str, PortableLog]:
    """Return the log of each broker, by name. Nothing connects before ``start``.

    ``store`` has the positions of groups on streams and of shared groups on Kafka. Without it, streams can be
    published to and read, but not subscribed to.
    """
    counters = counters or Counters()
    return {
        name: _open(name, broker, config, store, counters)
        for name, broker in config.brokers.items()
    }


def with_relaxed_logs(
    config: Config, logs: Mapping[str, PortableLog], counters: Counters
) -> dict[LogName, PortableLog]:
    """Return the logs of the brokers, and those of routes with relaxed durability. Each log with relaxed
    durability has its own producer, so that other routes keep full acknowledgements."""
    relaxed = {
        log_of(route, target)
        for route in config.routes
        if route.acknowledgements != "all"
        for target in route.to
    }
    return {LogName(name): log for name, log in logs.items()} | {
        name: open_kafka(
            name.broker, broker, _bounds(broker, config), counters, name.acknowledgements
        )
        for name in sorted(relaxed, key=str)
        if isinstance(broker := config.brokers[name.broker], KafkaBroker)
    }


async def declare_subscriptions(
    config: Config, name: str, log: PortableLog, subscriptions: Sequence[Subscription]
) -> None:
    """Declare subscriptions to an embedded log. Its retention then keeps the records that these subscriptions
    have not read and that spools have not published. Logs of other brokers ignore the call."""
    broker = config.brokers.get(name)
    if not isinstance(broker, EmbeddedBroker):
        return
    from app.brokers import embedded

    if not isinstance(log.driver, embedded.EmbeddedDriver):
        return
    spools = [spooled_route(topic) for topic in log.driver.engine.topics()]
    await log.driver.declare(
        [
            embedded.DeclaredGroup(
                group_name(config.installation, spool_subscription(route)), (spool_topic(route),)
            )
            for route in filter(None, spools)
        ]
        + [
            embedded.DeclaredGroup(
                group_name(config.installation, each.id), each.source.topics, broker.drop_unread
            )
            for each in subscriptions
            if each.source.broker == name
        ]
    )


async def forget_group(
    config: Config, logs: Mapping[str, PortableLog], subscription: Subscription
) -> None:
    """Delete the group of a deleted subscription in an embedded log, and its positions in a shared group on Kafka. So
    a new subscription with the same id starts without a position. Other brokers keep groups as long as their own
    settings demand."""
    log = logs.get(subscription.source.broker)
    if log is None:
        return
    if isinstance(config.brokers[subscription.source.broker], KafkaBroker):
        from app.brokers import kafka

        if isinstance(log.driver, kafka.KafkaDriver):
            await log.driver.forget(group_name(config.installation, subscription.id))
        return
    if not has_embedded(config):
        return
    from app.brokers import embedded

    if isinstance(log.driver, embedded.EmbeddedDriver):
        await log.driver.forget(group_name(config.installation, subscription.id))


def has_embedded(config: Config) -> bool:
    """Return True if a broker is an embedded log. A service without one does not import the modules of logs
    and spools."""
    return any(isinstance(each, EmbeddedBroker) for each in config.brokers.values())


def routes_with_spools(config: Config) -> frozenset[str]:
    """Return the names of the routes that have a spool configured."""
    return frozenset(each.name for each in config.routes if each.spool is not None)


def bound_logs(config: Config, logs: Mapping[LogName, PortableLog]) -> None:
    """Apply the publishing limits of a configuration to the logs. They hold for everything that is published
    from now on."""
    for name, log in logs.items():
        log.bounds = _bounds(config.brokers[name.broker], config)


def _open(
    name: str, broker: Broker, config: Config, store: Store | None, counters: Counters
) -> PortableLog:
    """Return the log of one broker."""
    bounds = _bounds(broker, config)
    match broker:
        case KafkaBroker():
            return open_kafka(
                name, broker, bounds, counters, progress=None if store is None else store.progress
            )
        case RabbitBroker():
            return open_rabbitmq(name, broker, bounds, None if store is None else store.offsets)
        case PulsarBroker():
            return open_pulsar(name, broker, bounds)
        case EmbeddedBroker():
            return open_embedded(name, broker, bounds)


def _bounds(broker: Broker, config: Config) -> PublishBounds:
    """Return the publishing limits of one broker. They are its own, or else the general limits."""
    return PublishBounds(
        records=broker.in_flight.records or config.limits.in_flight_records,
        bytes=broker.in_flight.bytes or config.limits.in_flight_bytes,
        publish_timeout=config.timeouts.publish,
        drain_timeout=config.timeouts.drain,
    )
