"""Values that decide how events are written and explained: the kinds of the brokers, the rights of
producers, and the explainer of events.
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
    """Return the names of the brokers on which a record's header ``skybridge-producer`` proves who
    sent it.

    These are embedded logs on which only Skybridge can write this header. If a Kafka listener has
    no logins, or a user with every right, its clients can write the header too.
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
    """Return the profile of each Pulsar broker by its name. The profile defines how events are
    written to the broker.
    """
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
    """Return the explainer of events. It uses the routes and subscriptions of the configuration
    file, without subscriptions that the API created.
    """
    return EventExplainer(
        config.routes,
        config.subscriptions,
        load_resources(config.routes),
        kinds_of(config),
        manners_of(config),
        compile_preview(config.subscriptions, config.limits.body),
    )
