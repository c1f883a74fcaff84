"""From the brokers of a configuration to their logs. Drivers are named here, and imported when a
broker needs one."""

# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.brokers.portable import Bounds, PortableLog
from app.config.model.brokers import Broker, EmbeddedBroker, KafkaBroker, PulsarBroker, RabbitBroker
from app.config.model.config import Config
from app.features.brokers.drivers import open_embedded, open_kafka, open_pulsar, open_rabbitmq
from app.interfaces import OffsetStore
from app.model.log_name import LogName
from app.model.route import log_of
from app.model.spool import group_name, spool_subscription, spool_topic, spooled_route
from app.model.subscription import Subscription
from app.telemetry import Counters


def open_logs(
    config: Config, offsets: OffsetStore | None = None, counters: Counters | None = None
) -> dict[str, PortableLog]:
    """Return the log of each broker, by its name; nothing is opened before ``start``. ``offsets``: where groups of
    streams are; without it streams can be published to and read, not subscribed to."""
    counters = counters or Counters()
    return {
        name: _open(name, broker, config, offsets, counters)
        for name, broker in config.brokers.items()
    }


def with_relaxed_logs(
    config: Config, logs: Mapping[str, PortableLog], counters: Counters
) -> dict[LogName, PortableLog]:
    """Return the logs of the brokers, and those of relaxed routes (rule 1): each has a producer of its own, so that
    other routes get no less."""
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
    """Retention of an embedded log keeps what these have not read (rule 10) and what is not drained of spools, and
    no more what only others had not."""
    broker = config.brokers.get(name)
    if not isinstance(broker, EmbeddedBroker):
        return
    from app.brokers import embedded

    if not isinstance(log.driver, embedded.EmbeddedDriver):
        return
    spools = [spooled_route(topic) for topic in log.driver.engine.topics()]
    await log.driver.declare(
        [
            embedded.Declared(
                group_name(config.installation, spool_subscription(route)), (spool_topic(route),)
            )
            for route in filter(None, spools)
        ]
        + [
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
    """Of a subscription that is deleted: one made later under its id begins without a position. Other brokers keep
    groups for as long as they are set to."""
    log = logs.get(subscription.source.broker)
    if log is None or not has_embedded(config):
        return
    from app.brokers import embedded

    if isinstance(log.driver, embedded.EmbeddedDriver):
        await log.driver.forget(group_name(config.installation, subscription.id))


def has_embedded(config: Config) -> bool:
    """A service without an embedded log keeps none of its modules, nor of its spools."""
    return any(isinstance(each, EmbeddedBroker) for each in config.brokers.values())


def routes_with_spools(config: Config) -> frozenset[str]:
    return frozenset(each.name for each in config.routes if each.spool is not None)


def bound_logs(config: Config, logs: Mapping[LogName, PortableLog]) -> None:
    """Apply the bounds of a configuration to what is published from now on."""
    for name, log in logs.items():
        log.bounds = _bounds(config.brokers[name.broker], config)


def _open(
    name: str, broker: Broker, config: Config, offsets: OffsetStore | None, counters: Counters
) -> PortableLog:
    bounds = _bounds(broker, config)
    match broker:
        case KafkaBroker():
            return open_kafka(name, broker, bounds, counters)
        case RabbitBroker():
            return open_rabbitmq(name, broker, bounds, offsets)
        case PulsarBroker():
            return open_pulsar(name, broker, bounds)
        case EmbeddedBroker():
            return open_embedded(name, broker, bounds)


def _bounds(broker: Broker, config: Config) -> Bounds:
    return Bounds(
        records=broker.in_flight.records or config.limits.in_flight_records,
        bytes=broker.in_flight.bytes or config.limits.in_flight_bytes,
        publish_timeout=config.timeouts.publish,
        drain_timeout=config.timeouts.drain,
    )
