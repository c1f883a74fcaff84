"""What only the status and ``/metrics`` ask of a service, and what ``find`` asks of its spools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from app.access.caller import EventMeter
from app.api.status.answers import DiskView, KafkaListenerView, SpoolView
from app.api.status.families import Family


class Spools(Protocol):
    async def states(self) -> Sequence[SpoolView]:
        """Return the spools of this process."""


class KafkaListeners(Protocol):
    def views(self) -> Sequence[KafkaListenerView]:
        """Return the Kafka listeners of this process that are open."""


class IntakeTallies(Protocol):
    def tallies(self) -> Mapping[str, EventMeter]:
        """Return by intake what it has taken and refused; nothing in a process without intakes."""


class Volumes(Protocol):
    async def disks(self) -> Mapping[str, DiskView]:
        """Return by folder the volumes of the embedded logs and of the store."""


class Measured(Protocol):
    async def metrics(self) -> Sequence[Family]:
        """Return the families that ``/metrics`` shows in addition to the counters."""
