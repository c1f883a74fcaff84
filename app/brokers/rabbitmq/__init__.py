"""Shell. The RabbitMQ driver, on aio-pika.

- Access: ``settings`` describes how to reach a cluster. ``connection`` is one connection, and ``aiormq_adapter`` and
  ``frames`` are the fast path below aio-pika.
- Topics: ``topology``, ``layout`` and ``declarations`` name, count and declare exchanges and queues.
- Publishing: ``producer``, ``targets``, ``publish_queue``, ``unconfirmed`` and ``failed_publish`` send records and
  resolve results.
- Groups: ``group_roster``, ``group_queues``, ``queue_ownership``, ``owned_partition`` and ``consumer`` share queues
  among members.
- Streams: ``stream``, ``stream_ends``, ``stream_replicas`` and ``stream_positions`` do the same for queues that keep
  messages.
- Administration: ``admin`` returns metadata and depths, and creates topics.
- ``errors`` defines what errors mean. ``driver`` combines all modules for the portable log.
"""

from __future__ import annotations

from typing import Any

from app.brokers.portable import PortableLog, PublishBounds
from app.brokers.rabbitmq.driver import CAPABILITIES, STREAM_CAPABILITIES, RabbitDriver
from app.brokers.rabbitmq.settings import RabbitSettings
from app.interfaces import OffsetStore

__all__ = [
    "CAPABILITIES",
    "STREAM_CAPABILITIES",
    "RabbitDriver",
    "RabbitSettings",
    "open_log",
]


def open_log(
    *, bounds: PublishBounds | None = None, offsets: OffsetStore | None = None, **settings: Any
) -> PortableLog:
    """Return the ``Log`` of a RabbitMQ cluster. Nothing is connected yet.

    Args:
        bounds: The limits of publishing.
        offsets: The store of group positions, for ``kind="stream"``.
        settings: The fields of ``RabbitSettings``.
    """
    return PortableLog(RabbitDriver(RabbitSettings(**settings), offsets), bounds)
