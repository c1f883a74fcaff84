"""The job object of an archive: topics and limits, the lake with its lock, and callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from app.pipeline.archive.derive import Derived, Observe
from app.pipeline.archive.lease import LakeHold
from app.pipeline.settings import Lake
from app.spark.positions import Where
from app.spark.settings import KafkaPlace, PulsarPlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ArchivePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that are archived, and the limits.

    Attributes:
        place: The cluster of the topics.
        topics: The topics.
        start: Where reading begins in topics that the lake does not know.
        trigger: The seconds from the start of one batch to the next.
        most: The largest number of records in a batch. A batch of Pulsar has all records.
        at_once: The largest number of records that are derived at once, and repeated after a kill.
        skip_lost: Whether to continue after a gap that retention left.
    """

    place: KafkaPlace | PulsarPlace
    topics: tuple[str, ...]
    start: Where = "earliest"
    trigger: float = 30.0
    most: int = 200_000
    at_once: int = 500_000
    skip_lost: bool = False


class ArchiveProgress(msgspec.Struct, frozen=True):
    """A progress report of the archive.

    Attributes:
        step: The step: ``copy`` (topic to ``events_raw``) or ``derive``.
        done: The number of records done in this step.
        total: The number of records of this step; None if unknown.
        derived: The counts of the last derived range.
        trouble: The error that made a step fail. The step is tried again.
        notice: A sentence for the operator, who need not do anything.
    """

    step: str
    done: int
    total: int | None = None
    derived: Derived | None = None
    trouble: str = ""
    notice: str = ""


Tell = Callable[[ArchiveProgress], None]


def ignore(_: object) -> None:
    """Do nothing, as the default of callbacks."""


class ArchiveJob:
    """An archive that runs."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        plan: ArchivePlan,
        held: LakeHold,
        *,
        tell: Tell = ignore,
        observe: Observe = ignore,
        stop: threading.Event | None = None,
    ) -> None:
        """Return a job that has the lock ``held``.

        Progress is reported to ``tell``, and the name of each moment to ``observe``. When ``stop`` is
        set, the job ends after the current batch.
        """
        self.spark, self.lake, self.plan, self.held = spark, lake, plan, held
        self.tell, self.observe, self.stop = tell, observe, stop or threading.Event()

    def notice(self, text: str) -> None:
        """Report a sentence for the operator."""
        self.tell(ArchiveProgress("copy", 0, notice=text))
