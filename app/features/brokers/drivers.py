"""Create the driver of a broker from its settings.

A client library is imported only if a configuration has a broker of its kind. The libraries take a third of
the start time and of the memory of a process.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Any, Literal

import msgspec
from pydantic import BaseModel, SecretStr

from app.brokers.portable import PortableLog, PublishBounds
from app.config.model.brokers import EmbeddedBroker, KafkaBroker, PulsarBroker, RabbitBroker
from app.interfaces import OffsetStore, ProgressStore
from app.telemetry import Counters

ANSWER = 10.0  # the least seconds for an answer of Kafka: see ``KafkaSettings.request_timeout``


def open_embedded(name: str, broker: EmbeddedBroker, bounds: PublishBounds) -> PortableLog:
    """Return the log of an embedded broker."""
    from app.brokers import embedded

    retention = broker.retention
    settings = _common_settings(embedded.EngineSettings, broker) | {
        "name": name,
        "max_bytes": broker.size_cap or 0,
        "find_keep": broker.find.keep,
        "retention": embedded.RetentionLimits(max_age=retention.age, max_bytes=retention.size),
    }
    return embedded.open_log(bounds=bounds, **settings)


def open_kafka(
    name: str,
    broker: KafkaBroker,
    bounds: PublishBounds,
    counters: Counters,
    acks: Literal["all", 1, 0] = "all",
    progress: ProgressStore | None = None,
) -> PortableLog:
    """Return the log of a Kafka broker. ``counters`` counts the batches that the cluster refuses. ``progress`` has the
    positions of subscriptions that share a membership."""
    from app.brokers import kafka
    from app.features.tokens import token_source

    sasl = broker.security.sasl
    login: kafka.SaslCredentials | kafka.OAuthBearer | None
    if sasl is None:
        login = None
    elif sasl.mechanism == "OAUTHBEARER":
        login = kafka.OAuthBearer(token=token_source(sasl))
    else:
        login = kafka.SaslCredentials(
            mechanism=sasl.mechanism,
            username=sasl.username or "",
            password=_revealed(sasl.password) or "",
        )
    settings = _common_settings(kafka.KafkaSettings, broker, broker.topics) | {
        "name": name,
        "tls": broker.security.encryption,
        "sasl": login,
        "acks": acks,
        "compression": None if broker.compression == "none" else broker.compression,
        "create_topics": broker.topics.create,
        "request_timeout": max(ANSWER, bounds.publish_timeout),
    }

    def refused(code: int) -> None:
        counters.add("kafka_produce_errors", name, str(code))

    return kafka.open_log(bounds=bounds, refused=refused, progress=progress, **settings)


def open_rabbitmq(
    name: str, broker: RabbitBroker, bounds: PublishBounds, offsets: OffsetStore | None
) -> PortableLog:
    """Return the log of a RabbitMQ broker. ``offsets`` stores the positions of stream groups."""
    from app.brokers import rabbitmq

    security = broker.security
    external = security.mechanism == "EXTERNAL"
    settings = _common_settings(rabbitmq.RabbitSettings, broker, broker.topics) | {
        "name": name,
        "username": "" if external else security.username,
        "password": "" if external else _revealed(security.password),
        "auth": "external" if external else "plain",
        "tls": security.tls,
        "heartbeat": round(broker.heartbeat),
        "create_topics": broker.topics.create,
        "kind": broker.queue_type,
        "dead_letters": broker.dead_letter_queue,
    }
    return rabbitmq.open_log(bounds=bounds, offsets=offsets, **settings)


def open_pulsar(name: str, broker: PulsarBroker, bounds: PublishBounds) -> PortableLog:
    """Return the log of a Pulsar broker."""
    from app.brokers import pulsar

    security = broker.security
    settings = _common_settings(pulsar.PulsarSettings, broker, broker.topics) | {
        "name": name,
        "tls": security.tls,
        "token": _revealed(security.token),
        "oauth2": security.oauth2,
        "compression": None if broker.compression == "none" else broker.compression,
        "create_topics": broker.topics.create,
        "send_timeout": bounds.publish_timeout,
        "client_log": None if broker.client_log is None else str(broker.client_log),
    }
    return pulsar.open_log(bounds=bounds, **settings)


def _common_settings(settings: type[msgspec.Struct], *parts: BaseModel) -> dict[str, Any]:
    """Return the settings in the configuration that have the name of a driver's setting."""
    return {
        name: getattr(part, name)
        for part in parts
        for name in settings.__struct_fields__
        if name in type(part).model_fields
    }


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
