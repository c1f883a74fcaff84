"""Shell. The Pulsar driver, and the only home of pulsar-client.

``settings`` how to reach a cluster ·
``bridge`` between the client's threads and the loop · ``connection`` one client of the
library · ``positions``, ``messages`` positions and records on the wire · ``batchers``,
``topics``, ``producer`` what publishes, and what becomes of each record · ``start_positions``,
``owned_partition``, ``ownership``, ``consumer`` one member of a Failover subscription ·
``reader`` reading without one · ``tokens``, ``answers``, ``admin``, ``catalogue`` the
administration and what it says · ``errors`` what answers mean · ``driver`` all of it behind the
portable log.
"""

from __future__ import annotations

from typing import Any

from app.brokers.portable import Bounds, PortableLog
from app.brokers.pulsar.driver import CAPABILITIES, PulsarDriver
from app.brokers.pulsar.settings import PulsarSettings

__all__ = ["CAPABILITIES", "PulsarDriver", "PulsarSettings", "open_log"]


def open_log(*, bounds: Bounds | None = None, **settings: Any) -> PortableLog:
    """A cluster as a ``Log``, by the fields of ``PulsarSettings``. Nothing is connected yet."""
    return PortableLog(PulsarDriver(PulsarSettings(**settings)), bounds)
