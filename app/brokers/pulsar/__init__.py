"""Shell. The Pulsar driver. pulsar-client is used in this package only.

- Access: ``settings`` describes how to reach a cluster. ``connection`` and ``bridge`` wrap the client library.
- Records: ``positions`` and ``messages`` convert positions and records.
- Publishing: ``batchers``, ``topics`` and ``producer`` send records and resolve results.
- Groups: ``start_positions``, ``ownership``, ``owned_partition`` and ``consumer`` are members of subscriptions.
  ``reader`` reads without a subscription.
- Administration: ``admin``, ``admin_requests``, ``tokens``, ``answers`` and ``catalogue`` use the REST administration.
- ``errors`` defines what errors mean. ``driver`` combines all modules for the portable log.
"""

from __future__ import annotations

from typing import Any

from app.brokers.portable import PortableLog, PublishBounds
from app.brokers.pulsar.driver import CAPABILITIES, PulsarDriver
from app.brokers.pulsar.settings import PulsarSettings

__all__ = ["CAPABILITIES", "PulsarDriver", "PulsarSettings", "open_log"]


def open_log(*, bounds: PublishBounds | None = None, **settings: Any) -> PortableLog:
    """Return the ``Log`` of a Pulsar cluster. Nothing is connected yet. ``settings`` are the fields of
    ``PulsarSettings``."""
    return PortableLog(PulsarDriver(PulsarSettings(**settings)), bounds)
