"""Shell. The Kafka driver. aiokafka is used in this package only, and through ``brokers.aiokafka_adapter``.

- Access: ``settings``, ``bearer`` and ``addresses`` describe how to reach a cluster and log in.
- Publishing: ``producer`` and ``topics`` pass records to a ``batcher`` for each partition, whose topic has a
  ``topic_state``. ``shipper`` sends wire batches, with numbers from ``sequences`` and at the pace of ``throttles``.
  ``refusals`` handles those that are rejected. ``connection`` has a ``broker_link`` to each leader, on which ``produce_request`` writes and reads.
- Groups: ``start_positions``, ``membership`` and ``heartbeats`` join a group and stay in it.
- Reading: ``consumer``, ``ownership``, ``commits``, ``tail`` and ``fetching`` read and commit in a group.
  ``reader``, ``records`` and ``fetch_request`` read records, also without a group.
- Shared groups: ``shared_group``, ``shared_consumer``, ``shared_ownership``, ``shared_positions`` and ``shared_starts`` let
  many subscriptions share one membership.
- Administration: ``admin``, ``shared_admin`` and ``questions`` return metadata, offsets and lag, and create topics.
  ``leadership`` confirms which broker leads a partition.
- ``errors`` defines what errors mean. ``driver`` combines all modules for the portable log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.brokers.kafka.driver import CAPABILITIES, KafkaDriver
from app.brokers.kafka.settings import KafkaSettings, OAuthBearer, SaslCredentials, TokenSource
from app.brokers.portable import PortableLog, PublishBounds
from app.interfaces import ProgressStore

__all__ = [
    "CAPABILITIES",
    "KafkaDriver",
    "KafkaSettings",
    "OAuthBearer",
    "SaslCredentials",
    "TokenSource",
    "open_log",
]


def open_log(
    *,
    bounds: PublishBounds | None = None,
    refused: Callable[[int], None] = lambda _code: None,
    progress: ProgressStore | None = None,
    **settings: Any,
) -> PortableLog:
    """Return the ``Log`` of a Kafka cluster. Nothing is connected yet.

    Args:
        bounds: The limits of publishing.
        refused: Called with the code of each error that Kafka returns for a wire batch.
        progress: The positions of subscriptions that share a membership.
        settings: The fields of ``KafkaSettings``.
    """
    return PortableLog(KafkaDriver(KafkaSettings(**settings), refused, progress), bounds)
