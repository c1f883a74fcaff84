"""The servers of the AsyncAPI document: the brokers with an address. An embedded log without a
listener is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.config.model.brokers import Broker, EmbeddedBroker, KafkaBroker, PulsarBroker, RabbitBroker
from app.config.model.config import Config

Part = dict[str, Any]

_SASL = {"PLAIN": "plain", "SCRAM-SHA-256": "scramSha256", "SCRAM-SHA-512": "scramSha512"}


def servers(config: Config) -> dict[str, Part]:
    """Return the servers by name. A cluster with several addresses has one server each: ``main``,
    ``main-2``.
    """
    return {
        name if number == 1 else f"{name}-{number}": server
        for name, broker in config.brokers.items()
        for number, server in enumerate(_servers(broker), 1)
    }


def names_of(broker: str, every: dict[str, Part], config: Config) -> list[str]:
    count = len(list(_servers(config.brokers[broker])))
    names = [broker if n == 1 else f"{broker}-{n}" for n in range(1, count + 1)]
    return [name for name in names if name in every]


def _servers(broker: Broker) -> Iterator[Part]:
    match broker:
        case KafkaBroker():
            yield from _kafka(broker)
        case RabbitBroker():
            yield from _rabbitmq(broker)
        case PulsarBroker():
            scheme, _, hosts = broker.service_url.partition("://")
            for host in hosts.rstrip("/").split(","):
                bindings = {"pulsar": {"tenant": broker.namespace.partition("/")[0]}}
                yield {"host": host, "protocol": scheme, "bindings": bindings}
        case EmbeddedBroker() if broker.kafka_listener is not None:
            listener = broker.kafka_listener
            protocol = "kafka-secure" if listener.tls or listener.sasl else "kafka"
            yield {"host": listener.advertised or listener.listen, "protocol": protocol}
        case EmbeddedBroker():
            return


def _kafka(broker: KafkaBroker) -> Iterator[Part]:
    security, methods = broker.security, []
    if security.sasl is not None and security.sasl.mechanism in _SASL:
        methods.append({"type": _SASL[security.sasl.mechanism]})
    if security.tls is not None and security.tls.cert is not None:
        methods.append({"type": "X509"})
    protocol = "kafka-secure" if security.sasl or security.encryption else "kafka"
    for host in _hosts(broker.bootstrap_servers):
        yield {"host": host, "protocol": protocol, **({"security": methods} if methods else {})}


def _rabbitmq(broker: RabbitBroker) -> Iterator[Part]:
    method = "X509" if broker.security.mechanism == "EXTERNAL" else "userPassword"
    for host in _hosts(broker.addresses):
        yield {
            "host": host,
            "pathname": f"/{broker.vhost.removeprefix('/')}",
            "protocol": "amqps" if broker.security.tls else "amqp",
            "security": [{"type": method}],
        }


def _hosts(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]
