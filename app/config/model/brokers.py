"""The settings of each kind of broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from app.brokers.security import ClientTls, OAuth2
from app.config.model.kafka_broker import KafkaBroker, OAuth, Sasl, Security
from app.config.model.kafka_listener import KafkaListener, as_settings
from app.config.model.parts import InFlight, Topics
from app.config.model.pulsar_broker import PulsarBroker, PulsarSecurity
from app.config.model.rabbitmq_broker import RabbitBroker, RabbitSecurity
from app.model.duration import Count, Duration, Size
from app.model.route import Strict

__all__ = [
    "Broker",
    "ClientTls",
    "EmbeddedBroker",
    "EmbeddedTopic",
    "InFlight",
    "KafkaBroker",
    "KafkaListener",
    "OAuth",
    "OAuth2",
    "PulsarBroker",
    "PulsarSecurity",
    "RabbitBroker",
    "RabbitSecurity",
    "Retention",
    "Sasl",
    "Security",
    "Topics",
]


class Retention(Strict):
    """Limits above which the embedded log deletes records. Without age and size it keeps all."""

    age: Duration | None = Field(None, description="delete older records")
    size: Size | None = Field(
        None, description="most bytes of one partition; beyond, the oldest records are deleted"
    )


class EmbeddedTopic(Strict):
    """Settings of one topic of an embedded log."""

    validation: Literal["cloudevents"] | None = Field(
        None,
        alias="validate",
        description="cloudevents: Kafka clients may produce only CloudEvents, other records are "
        "refused; without it, all records are stored unchanged",
    )


class Find(Strict):
    """The index of events by source and id for skybridge find. It costs about 10 bytes and 1 µs per
    event.
    """

    keep: Annotated[Duration, Field(ge=0)] = Field(
        "7d",
        validate_default=True,
        description="an event is found by the index for at least this time, while its record is retained; "
        "0: no index, a search reads the log",
    )


class EmbeddedBroker(Strict):
    """The durable log inside Skybridge: one folder, nothing to install."""

    kind: Literal["embedded"] = Field(description="embedded")
    path: Path = Field(description="folder of the log; one process at a time")
    partitions: Annotated[Count, Field(ge=1, le=1024)] = Field(
        8, description="partitions of a topic that its first event creates"
    )
    max_partitions: Annotated[Count, Field(ge=1, le=100_000)] = Field(
        10_000, description="most partitions of all topics together"
    )
    group_age: Annotated[Duration, Field(gt=0)] = Field(
        7 * 86_400.0,
        description="an unused consumer group of Kafka clients is deleted after this time",
    )
    retention: Retention = Field(
        Retention(), description="which records may be deleted, by age and size"
    )
    size_cap: Size | None = Field(
        None, description="most bytes on disk; when it is reached, events are answered 503"
    )
    find: Find = Field(Find(), description="index of events for skybridge find")
    drop_unread: bool = Field(
        False, description="retention may delete records that a declared subscription has not read"
    )
    kafka_listener: (
        Annotated[
            KafkaListener,
            BeforeValidator(as_settings, json_schema_input_type=str | KafkaListener),
        ]
        | None
    ) = Field(
        None,
        description='serve Kafka\'s protocol: an address such as "127.0.0.1:19092", or a section',
    )
    topics: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")], EmbeddedTopic] = Field(
        {}, description="settings of single topics, by name"
    )
    in_flight: InFlight = Field(InFlight(), description="bounds of records without an answer yet")


Broker = Annotated[
    EmbeddedBroker | KafkaBroker | RabbitBroker | PulsarBroker, Field(discriminator="kind")
]
