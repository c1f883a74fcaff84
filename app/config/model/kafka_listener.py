"""The settings of an embedded log's Kafka listener."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.config.model.parts import ServerTls
from app.model.duration import Count, Duration
from app.model.route import Strict
from app.model.secret import Secret

ADDRESS = r"^([^\s:/@\[\]]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}$"
Address = Annotated[str, Field(pattern=ADDRESS)]
"""``host:port``, with an IPv6 address in brackets."""


Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class ListenerSasl(Strict):
    """Users and login mechanisms."""

    mechanisms: Annotated[tuple[Mechanism, ...], Field(min_length=1)] = Field(
        ("SCRAM-SHA-512", "SCRAM-SHA-256"),
        description="the offered mechanisms; PLAIN sends the password itself",
    )
    users: dict[Annotated[str, Field(min_length=1)], Secret] = Field(
        {},
        description="passwords by user name, each with every right; write producers with kafka instead",
    )


class KafkaListener(Strict):
    """A listener with Kafka's protocol on an embedded log, for Kafka clients."""

    listen: Address = Field(description="host:port to listen on; port 0 takes a free one")
    advertised: Address | None = Field(
        None, description="host:port that clients shall connect to; without it, listen"
    )
    tls: ServerTls | None = Field(None, description="serve TLS")
    sasl: ListenerSasl | None = Field(
        None,
        description="how clients log in; they must, if it is set or a producer has kafka",
    )
    create_topics: bool = Field(
        True, description="create a topic when a client asks for it by name"
    )
    max_partitions: Annotated[Count, Field(ge=1, le=10_000)] = Field(
        1_000, description="most partitions of a topic that a client creates or extends"
    )
    min_session_timeout: Annotated[Duration, Field(gt=0)] = Field(
        6.0, description="the shortest session time-out that a group member may request"
    )
    max_session_timeout: Annotated[Duration, Field(gt=0)] = Field(
        1_800.0,
        description="the longest session time-out: a silent member keeps its partitions for so "
        "long",
    )


def as_settings(value: object) -> object:
    """Return text such as ``host:port`` as a section with this address, without TLS and logins.
    Return any other value unchanged.
    """
    return {"listen": value} if isinstance(value, str) else value


def split(address: str) -> tuple[str, int]:
    """Return the host, without brackets, and the port of an address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
