"""The channels of the AsyncAPI document, one per topic of a broker."""

from __future__ import annotations

import re
from typing import Any

from app.config.asyncapi import servers
from app.config.model.brokers import Broker, EmbeddedBroker, KafkaBroker, PulsarBroker, RabbitBroker
from app.config.model.config import Config
from app.model.route import Exchange, Target
from app.routing.places import QUEUE
from app.routing.templates import placeholders

Part = dict[str, Any]
Ref = dict[str, str]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Channels:
    """The channels of the document that were created so far. ``made`` maps the name of a channel,
    which references use, to the channel.
    """

    def __init__(self, config: Config, known: dict[str, Part]) -> None:
        self._config = config
        self._servers = known
        self._names: dict[tuple[str, str], str] = {}
        self.made: dict[str, Part] = {}

    def at(self, target: Target | Exchange) -> str:
        """Return the name of the channel for a target. The first call for a target creates the
        channel.
        """
        place = (target.broker, target.place)
        if place not in self._names:
            self._names[place] = self._free(_UNSAFE.sub("-", ".".join(place)).strip("-"))
            self.made[self._names[place]] = self._channel(target)
        return self._names[place]

    def carries(self, name: str, message: str) -> Ref:
        """Add the message to the channel, and return its reference for an operation."""
        self.made[name]["messages"][message] = {"$ref": f"#/components/messages/{message}"}
        return {"$ref": f"#/channels/{name}/messages/{message}"}

    def _free(self, name: str) -> str:
        found, number = name, 2
        while found in self.made:
            found, number = f"{name}-{number}", number + 1
        return found

    def _channel(self, target: Target | Exchange) -> Part:
        broker = self._config.brokers[target.broker]
        address = target.topic if isinstance(target, Target) else target.routing_key
        channel: Part = {"address": address, "messages": {}}
        if found := servers.names_of(target.broker, self._servers, self._config):
            channel["servers"] = [{"$ref": f"#/servers/{name}"} for name in found]
        else:
            channel["servers"] = []
            channel["description"] = f"In the embedded log {target.broker}, which has no listener."
        if names := dict.fromkeys(placeholders(address)):
            channel["parameters"] = {
                name: {"description": f"the attribute {name} of the event"} for name in names
            }
        if bindings := _bindings(broker, target):
            channel["bindings"] = bindings
        return channel


def _bindings(broker: Broker, target: Target | Exchange) -> Part:
    match broker:
        case KafkaBroker() if broker.topics.create:
            settings = broker.topics
            found = {"partitions": settings.partitions, "replicas": settings.replication}
            return {"kafka": {**{k: v for k, v in found.items() if v}, "bindingVersion": "0.5.0"}}
        case EmbeddedBroker():
            return {"kafka": {"partitions": broker.partitions, "bindingVersion": "0.5.0"}}
        case RabbitBroker():
            return {"amqp": {**_amqp(broker, target), "bindingVersion": "0.3.0"}}
        case PulsarBroker():
            return {
                "pulsar": {
                    "namespace": _namespace(broker, target),
                    "persistence": "persistent",
                    "bindingVersion": "0.1.0",
                }
            }
        case _:
            return {}


def _amqp(broker: RabbitBroker, target: Target | Exchange) -> Part:
    name = target.exchange if isinstance(target, Exchange) else target.topic
    if isinstance(target, Target) and name.startswith(QUEUE):
        return {"is": "queue", "queue": {"name": name.removeprefix(QUEUE), "vhost": broker.vhost}}
    return {"is": "routingKey", "exchange": {"name": name, "vhost": broker.vhost}}


def _namespace(broker: PulsarBroker, target: Target | Exchange) -> str:
    """Return the Pulsar namespace of a target. It is part of a topic name of the form
    ``tenant/namespace/topic``; otherwise it is that of the broker.
    """
    own = target.place.removeprefix("persistent://").split("/")
    return own[1] if len(own) > 2 else broker.namespace.partition("/")[2]  # noqa: PLR2004 - tenant, namespace, topic
