"""The service with a promise given up in its code, for controls alone: no setting gives these promises up.

::

    python -m proof.unsafe confirms serve --config skybridge.yaml
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from app.brokers import rabbitmq
from app.brokers.kafka.consumer import KafkaConsumer
from app.brokers.kafka.membership import KafkaMembership
from app.brokers.kafka.shared_group import SharedGroup
from app.brokers.rabbitmq.publish_channels import PublishChannels
from app.brokers.rabbitmq.settings import RabbitSettings
from app.cli import main
from app.errors import StaleOwner
from app.store import owners, progress
from app.worker.gate import EndpointState


class UnconfirmedSettings(RabbitSettings, frozen=True, kw_only=True):
    """Settings with which RabbitMQ confirms nothing."""

    confirms: bool = False


def without_confirms() -> None:
    """Acknowledge an event when it was written to RabbitMQ's connection."""
    rabbitmq.RabbitSettings = UnconfirmedSettings  # type: ignore[misc]


def with_shared_channel() -> None:
    """Publish to all streams of RabbitMQ through one channel."""
    PublishChannels.join = lambda channels, *what: channels.main.outbox.join(*what)  # type: ignore[method-assign]


def without_fence() -> None:
    """Let a worker keep its partitions of Kafka although it has lost its lease, and let the store accept what it writes."""
    KafkaMembership.has_lease = lambda _: True  # type: ignore[assignment, method-assign]
    for member in (KafkaConsumer, SharedGroup):
        member.on_partitions_revoked = _keep  # type: ignore[assignment, method-assign]
    fence, raise_floor = owners._fence, progress._raise_floor
    progress._raise_floor = lambda *row: raise_floor(*row) or True

    def accept(*row: Any) -> None:
        with suppress(StaleOwner):
            fence(*row)

    owners._fence = accept  # type: ignore[assignment]


def without_pause() -> None:
    """Let a worker deliver although its subscription is paused."""
    EndpointState.halt = lambda *_: None  # type: ignore[assignment, method-assign]


async def _keep(_member: object, _revoked: object) -> None:
    """Keep partitions that were revoked until others are assigned."""


GIVEN_UP: Mapping[str, Callable[[], None]] = {
    "channels": with_shared_channel,
    "confirms": without_confirms,
    "fence": without_fence,
    "pause": without_pause,
}

if __name__ == "__main__":
    GIVEN_UP[sys.argv.pop(1)]()
    main()
