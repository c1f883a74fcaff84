"""Shell. The Kafka driver, and the only home of aiokafka.

``settings`` how to reach a cluster · ``connection`` one idempotent producer at a time, replaced
when it is wedged · ``batcher`` the queue and the wire batches of a partition · ``producer``,
``topics`` what becomes of each record · ``start_positions``, ``membership``, ``ownership``,
``commits``, ``consumer`` one member of a group · ``records`` header names that are not UTF-8 ·
``reader`` reading without a group · ``admin``, ``shared_admin``, ``questions`` metadata, offsets,
lag, topics · ``errors`` what the client's errors mean · ``driver`` all of it behind the portable
log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.brokers.kafka.driver import CAPABILITIES, KafkaDriver
from app.brokers.kafka.settings import KafkaSettings, OAuth, Sasl, TokenSource
from app.brokers.portable import Bounds, PortableLog

__all__ = [
    "CAPABILITIES",
    "KafkaDriver",
    "KafkaSettings",
    "OAuth",
    "Sasl",
    "TokenSource",
    "open_log",
]


def open_log(
    *,
    bounds: Bounds | None = None,
    refused: Callable[[int], None] = lambda _code: None,
    **settings: Any,
) -> PortableLog:
    """Return a cluster as a ``Log``, by the fields of ``KafkaSettings``. Nothing is connected yet. ``refused``: gets
    the code of each error that Kafka answers to a wire batch."""
    return PortableLog(KafkaDriver(KafkaSettings(**settings), refused), bounds)
