"""How gateway processes reach an embedded log that another process owns: by Kafka's protocol.

The door is a Kafka listener of its own, beside whatever the configuration says of one: on loopback, on a
port that the parent holds for good, so that nobody else can answer there while the owner is replaced, and
behind a login whose password is made at each start and is nowhere but in our processes' memory. SCRAM: the
password never crosses the wire, and who answers has to know it too.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from app.brokers import embedded
from app.brokers.portable import Bounds, PortableLog
from app.config.brokers import EmbeddedBroker
from app.config.model import Config
from app.gateway.port import BACKLOG

LOOPBACK = "127.0.0.1"
MECHANISM: Literal["SCRAM-SHA-256"] = "SCRAM-SHA-256"
USER = "gateway"
LARGEST = (
    2 * embedded.CAPABILITIES.max_record
)  # bytes of a batch: one record of the largest, and its frame
METADATA_AGE = 5.0  # seconds until a topic that grew is seen to have grown


class Door(NamedTuple):
    """Of one embedded log. ``bound`` listens already."""

    bound: socket.socket
    password: str

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.bound.getsockname()[1]}"


Doors = Mapping[str, Door]
"""By the names of embedded logs."""
NO_DOORS: Doors = MappingProxyType({})


def doors_of(config: Config) -> Doors:
    """Made by the parent, before there is anybody else."""
    return {
        name: Door(socket.create_server((LOOPBACK, 0), backlog=BACKLOG), secrets.token_urlsafe(32))
        for name, broker in config.brokers.items()
        if isinstance(broker, EmbeddedBroker)
    }


def log_behind(name: str, broker: EmbeddedBroker, door: Door, bounds: Bounds) -> PortableLog:
    """The log as a gateway process sees it. Receipts and errors name it as its owner would."""
    from app.brokers import kafka  # noqa: PLC0415 - see ``runtime.drivers``

    return kafka.open_log(
        name=name,
        bootstrap_servers=door.address,
        client_id="skybridge-gateway",
        sasl=kafka.Sasl(mechanism=MECHANISM, username=USER, password=door.password),
        create_topics=True,
        partitions=broker.partitions,
        request_timeout=max(10.0, bounds.publish_timeout),
        metadata_age=METADATA_AGE,
        max_record=embedded.CAPABILITIES.max_record,
        bounds=bounds,
    )
