"""The protocols through which the status, ``/metrics`` and ``find`` use a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from app.access.caller import EventMeter
from app.api.status.answers import DiskView, KafkaListenerView, SpoolView
from app.api.status.families import Family
from app.model.operator_verdict import OperatorVerdict


class Spools(Protocol):
    """The spools of this process."""

    async def states(self) -> Sequence[SpoolView]:
        """Return the state of each spool."""


class KafkaListeners(Protocol):
    """The Kafka listeners of this process."""

    def views(self) -> Sequence[KafkaListenerView]:
        """Return the open Kafka listeners."""


class IntakeTallies(Protocol):
    """The counts of the intakes of this process."""

    def tallies(self) -> Mapping[str, EventMeter]:
        """Return the counts of each intake by name. The result is empty in a process without intakes."""


class Volumes(Protocol):
    """The volumes on which this process stores data."""

    async def disks(self) -> Mapping[str, DiskView]:
        """Return the volumes of the embedded logs and of the store, by folder."""


class AttentionSource(Protocol):
    """A provider of everything that needs a person."""

    async def attention(self) -> Sequence[OperatorVerdict]:
        """Return what needs a person now, the gravest first."""


class Measured(Protocol):
    """The metrics that are measured at each scrape."""

    async def metrics(self) -> Sequence[Family]:
        """Return the metrics that ``/metrics`` shows in addition to the counters."""
