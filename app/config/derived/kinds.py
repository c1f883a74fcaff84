"""What the brokers of a configuration are, by name, as far as it decides how events are written there; and what
explains an event's way by it."""

from __future__ import annotations

from app.access.rights import Rights
from app.config.derived.kafka_logins import kafka_logins
from app.config.derived.route_resources import load_resources
from app.config.model.brokers import EmbeddedBroker, PulsarBroker
from app.config.model.config import Config
from app.config.model.kafka_listener import KafkaListener
from app.errors import SetupError
from app.routing.journey import Guide
from app.routing.publications import Manner


def kinds_of(config: Config) -> dict[str, str]:
    """The kind of each broker, by its name: it decides the binding."""
    return {name: broker.kind for name, broker in config.brokers.items()}


def attested_brokers(config: Config) -> frozenset[str]:
    """Return the brokers whose records prove which producer sent them: embedded logs to which only Skybridge writes
    the header ``skybridge-producer``. A Kafka listener without logins, or with a user that has every right, lets
    clients write it too."""
    return frozenset(
        name
        for name, broker in config.brokers.items()
        if isinstance(broker, EmbeddedBroker) and _attests(broker.kafka_listener, config)
    )


def _attests(listener: KafkaListener | None, config: Config) -> bool:
    if listener is None:
        return True
    logins = kafka_logins(listener, config.producers)
    return logins is not None and not (listener.sasl and listener.sasl.users)


def manners_of(config: Config) -> dict[str, Manner]:
    """How what goes to each Pulsar broker is written, by its name."""
    return {
        name: Manner(broker.names, broker.strings)
        for name, broker in config.brokers.items()
        if isinstance(broker, PulsarBroker)
    }


def rights_of(config: Config, producer: str) -> Rights:
    """Raises SetupError for a producer that there is not."""
    for each in config.producers:
        if each.name == producer:
            return Rights(each.name, each.may)
    names = [each.name for each in config.producers]
    raise SetupError(
        f"there is no producer {producer!r}",
        setting="producers",
        cure=f"known here: {', '.join(names) or 'none'}",
    )


def guide_of(config: Config) -> Guide:
    """By its routes and subscriptions alone; those made by the API are in the store."""
    return Guide(
        config.routes,
        config.subscriptions,
        load_resources(config.routes),
        kinds_of(config),
        manners_of(config),
    )
