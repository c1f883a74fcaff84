"""Shell. The RabbitMQ driver, on aio-pika.

``settings`` how to reach a cluster · ``connection`` a connection · ``aiormq_adapter`` what lies
below aio-pika, for the hot path · ``topology``, ``layout``, ``declarations`` what a topic is there,
which of its queues are, how they are declared · ``frames`` a record as the
bytes of a publish · ``targets``, ``outbox``, ``unconfirmed``, ``failed_publish``, ``producer`` what is asked
for, on the wire, confirmed, at fault · ``owned_partition``, ``group_roster``,
``group_queues``, ``queue_ownership``, ``consumer`` one member of a group · ``stream``,
``stream_ends``, ``stream_places`` the same for queues that keep
what was read · ``admin`` depths and topics · ``errors`` what the client's errors mean ·
``driver`` all of it behind the portable log.
"""

from __future__ import annotations

from typing import Any

from app.brokers.portable import Bounds, PortableLog
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
    *, bounds: Bounds | None = None, offsets: OffsetStore | None = None, **settings: Any
) -> PortableLog:
    """A cluster as a ``Log``, by the fields of ``RabbitSettings``. Nothing is connected yet.

    ``offsets``  where the groups of streams are, with ``kind="stream"``.
    """
    return PortableLog(RabbitDriver(RabbitSettings(**settings), offsets), bounds)
