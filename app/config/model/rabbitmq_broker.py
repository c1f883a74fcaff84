"""The settings of a RabbitMQ cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from app.brokers.security import ClientTls
from app.config.model.parts import InFlight, MaxRecord, Servers, Topics
from app.model.duration import Count, Duration
from app.model.route import Strict

HEARTBEAT_MIN = 2  # seconds


class RabbitSecurity(Strict):
    """Protection of the connection, and the login."""

    mechanism: Literal["PLAIN", "EXTERNAL"] = Field(
        "PLAIN", description="EXTERNAL: the client certificate of tls is the login"
    )
    username: str = Field(
        "guest", description="user name; RabbitMQ accepts guest only from loopback"
    )
    password: SecretStr = Field(
        SecretStr("guest"), description='password; best "${env:NAME}" or "${file:/path}"'
    )
    tls: ClientTls | None = Field(None, description="TLS (amqps); {} for the system's authorities")

    @model_validator(mode="after")
    def mechanism_fits(self) -> RabbitSecurity:
        if self.mechanism != "EXTERNAL":
            return self
        if self.tls is None or self.tls.cert is None:
            raise ValueError("The mechanism EXTERNAL needs tls with cert and key. Cure: Set both.")
        if {"username", "password"} & self.model_fields_set:
            raise ValueError(
                "The mechanism EXTERNAL has no username and password. Cure: Remove them."
            )
        return self


class RabbitBroker(Strict):
    """A RabbitMQ cluster. A topic is an exchange with a quorum queue for each partition. Publishing
    waits for the confirm of every queue that accepted the event. An event that no queue accepts is
    refused.
    """

    kind: Literal["rabbitmq"] = Field(description="rabbitmq")
    addresses: Servers = Field(
        description="host:port of one node or several, joined by commas or as a list; tried in turn"
    )
    vhost: Annotated[str, Field(min_length=1)] = Field("/", description="virtual host")
    client_id: Annotated[str, Field(min_length=1)] = Field(
        "skybridge", description="the connection's name in the management pages"
    )
    heartbeat: Annotated[Duration, Field(ge=HEARTBEAT_MIN, le=600)] = Field(
        10.0, description="a connection that is silent for longer is closed; whole seconds"
    )
    security: RabbitSecurity = Field(RabbitSecurity(), description="TLS and login")
    topics: Topics = Field(Topics(), description="creation of missing exchanges and queues")
    queue: Annotated[str, Field(pattern=r"\{partition\}")] = Field(
        "{topic}.{partition}",
        description="name of each queue of a topic. With {group} in it each subscription has its own queues and gets "
        "every event. Without it subscriptions share the queues",
    )
    queue_type: Literal["quorum", "stream"] = Field(
        "quorum",
        description="stream: queues keep messages after reading, so they can be read again",
    )
    dead_letter_queue: Annotated[str, Field(min_length=1)] = Field(
        "{topic}.dead",
        description="queue for messages that the broker itself gives up; created with the topic",
    )
    hash_exchange: bool = Field(
        False,
        description="also create <topic>.hash, which spreads the messages of other publishers "
        "by x-skybridge-key (needs the plugin rabbitmq_consistent_hash_exchange)",
    )
    prefetch: Annotated[Count, Field(ge=1, le=65_535)] = Field(
        500,
        description="most unfinished messages of one queue in this process; fetched ahead, not counted in "
        "limits.held_bytes; lower it if messages are large",
    )
    max_record: MaxRecord = Field(
        "16MiB",
        validate_default=True,
        description="most bytes of one record; the server's max_message_size must allow it",
    )
    in_flight: InFlight = Field(InFlight(), description="bounds of records without an answer yet")
