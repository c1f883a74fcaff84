"""Make the AsyncAPI 3 document of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app import __version__
from app.config.asyncapi import messages
from app.config.asyncapi.channels import Channels
from app.config.asyncapi.servers import servers
from app.config.model.config import Config
from app.model.route import Exchange, Route, Target
from app.model.spool import group_name
from app.model.subscription import Subscription

Part = dict[str, Any]
_EITHER = "as_received"


def document(config: Config) -> Part:
    """Return the AsyncAPI 3.0 document of a configuration. It has no credentials and no webhooks."""
    return _Document(config).whole()


class _Document:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._servers = servers(config)
        self._channels = Channels(config, self._servers)
        self._messages: dict[str, Part] = {}
        self._operations: dict[str, Part] = {}

    def whole(self) -> Part:
        for route in self._config.routes:
            self._route(route)
        for subscription in self._config.subscriptions:
            self._subscription(subscription)
        if self._config.operator_events is not None:
            target = self._config.operator_events
            self._send("operator-events", target, "binary", "Operator events.")
        return {
            "asyncapi": "3.0.0",
            "info": {
                "title": f"Skybridge {self._config.installation}",
                "version": __version__,
                "description": "CloudEvents in the topics that this installation writes and reads. "
                "The HTTP interface is described by OpenAPI.",
                "license": {"name": "Apache-2.0"},
                "tags": [{"name": "cloudevents"}],
            },
            "servers": self._servers,
            "channels": self._channels.made,
            "operations": self._operations,
            "components": {"messages": self._messages},
        }

    def _route(self, route: Route) -> None:
        for number, target in enumerate(route.to, 1):
            name = f"send-{route.name}" if number == 1 else f"send-{route.name}-{number}"
            words = f"Events that match the route {route.name}."
            self._send(name, target, route.content_mode, words, route.format)

    def _subscription(self, each: Subscription) -> None:
        source = each.source
        group = group_name(self._config.installation, each.id)
        for number, topic in enumerate(source.topics, 1):
            name = f"receive-{each.id}" if number == 1 else f"receive-{each.id}-{number}"
            target = Target(broker=source.broker, topic=topic)
            operation = self._operation("receive", target, _EITHER, _EITHER)
            operation["description"] = f"Events for the subscription {each.id}."
            if self._config.brokers[source.broker].kind in {"kafka", "embedded"}:
                known = {"type": "string", "enum": [group]}
                operation["bindings"] = {"kafka": {"groupId": known, "bindingVersion": "0.5.0"}}
            self._operations[name] = operation
        if isinstance(each.sink, Target | Exchange):
            words = f"Events mirrored by the subscription {each.id}."
            self._send(f"mirror-{each.id}", each.sink, each.content_mode, words, each.format)
        if each.dead_letter is not None:
            words = f"Dead letters of the subscription {each.id}."
            self._send(f"dead-letter-{each.id}", each.dead_letter, _EITHER, words)

    def _send(
        self, name: str, target: Target | Exchange, mode: str, words: str, format_: str = _EITHER
    ) -> None:
        self._operations[name] = {
            **self._operation("send", target, mode, format_),
            "description": words,
        }

    def _operation(self, action: str, target: Target | Exchange, mode: str, format_: str) -> Part:
        channel = self._channels.at(target)
        prefix = messages.prefix_of(self._config.brokers[target.broker])
        return {
            "action": action,
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": [
                self._channels.carries(channel, self._message(part))
                for part in _possible(mode, format_, prefix)
            ],
        }

    def _message(self, part: Part) -> str:
        name: str = part["name"]
        self._messages[name] = part
        return name


def _possible(mode: str, format_: str, prefix: str) -> Sequence[Part]:
    """Return the AsyncAPI messages for the forms in which a route may store an event. They depend
    on the content mode and the format.
    """
    structured = messages.structured(format_)
    if mode == "structured":
        return [messages.structured("json"), structured] if format_ == _EITHER else [structured]
    return [messages.binary(prefix), *([structured] if mode == _EITHER else [])]
