"""The kinds of the brokers in a configuration, by which events are written there, and the guide
that explains events.
"""

from __future__ import annotations

from app.access.rights import Rights
from app.config.derived.kafka_logins import kafka_logins
from app.config.derived.route_resources import load_resources
from app.config.model.brokers import EmbeddedBroker, PulsarBroker
from app.config.model.config import Config
from app.config.model.kafka_listener import KafkaListener
from app.errors import SetupError
from app.outlets.preview import compile_preview
from app.routing.journey import EventExplainer
from app.routing.publications import PulsarProfile


def kinds_of(config: Config) -> dict[str, str]:
    """Return the kind of each broker by its name. The kind decides the protocol binding."""
    return {name: broker.kind for name, broker in config.brokers.items()}


def attested_brokers(config: Config) -> frozenset[str]:
    """Return the brokers whose records prove which producer sent them.

    These are embedded logs to which only Skybridge writes the header ``skybridge-producer``. A
    Kafka listener without logins, or with a user that has every right, lets clients write it too.
    """
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


def manners_of(config: Config) -> dict[str, PulsarProfile]:
    """Return how events are written to each Pulsar broker, by its name."""
    return {
        name: PulsarProfile(broker.names, broker.strings)
        for name, broker in config.brokers.items()
        if isinstance(broker, PulsarBroker)
    }


def rights_of(config: Config, producer: str) -> Rights:
    """Return the rights of a producer. Raise SetupError if the producer does not exist."""
    for each in config.producers:
        if each.name == producer:
            return Rights(each.name, each.may)
    names = [each.name for each in config.producers]
    raise SetupError(
        f"The producer {producer!r} does not exist.",
        setting="producers",
        cure=f"Use one of: {', '.join(names) or 'none'}.",
    )


def guide_of(config: Config) -> EventExplainer:
    """Return the guide that explains events by the routes and subscriptions of the file, without
    those of the API.
    """
    return EventExplainer(
        config.routes,
        config.subscriptions,
        load_resources(config.routes),
        kinds_of(config),
        manners_of(config),
        compile_preview(config.subscriptions, config.limits.body),
    )
