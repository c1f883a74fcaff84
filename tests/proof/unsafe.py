"""The service with a promise given up in its code, for controls alone: no setting gives these promises up.

::

    python -m proof.unsafe confirms serve --config skybridge.yaml
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from app.brokers import rabbitmq
from app.brokers.kafka.membership import KafkaMembership
from app.brokers.rabbitmq.settings import RabbitSettings
from app.cli import main


class UnconfirmedSettings(RabbitSettings, frozen=True, kw_only=True):
    """Settings with which RabbitMQ confirms nothing."""

    confirms: bool = False


def without_confirms() -> None:
    """Acknowledge an event when it was written to RabbitMQ's connection."""
    rabbitmq.RabbitSettings = UnconfirmedSettings  # type: ignore[misc]


def without_lease() -> None:
    """Let a worker deliver although Kafka may have given its partitions to other workers."""
    KafkaMembership.has_lease = lambda _: True  # type: ignore[assignment, method-assign]


GIVEN_UP: Mapping[str, Callable[[], None]] = {
    "confirms": without_confirms,
    "lease": without_lease,
}

if __name__ == "__main__":
    GIVEN_UP[sys.argv.pop(1)]()
    main()
