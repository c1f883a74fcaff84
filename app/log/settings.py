"""What the embedded log can be told."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from app.log.database import Synchronous
from app.model.spool import spooled_route

PARTS = 4  # of what is kept, at least so many segments: whole ones are dropped


def wall_ms() -> int:
    """Milliseconds since the epoch: the time a record is stored under."""
    return time.time_ns() // 1_000_000


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What may go. None keeps for ever. ``max_age`` in seconds, ``max_bytes`` of one partition."""

    max_age: float | None = None
    max_bytes: int | None = None


SPOOL_RETENTION = Retention(max_age=900.0, max_bytes=64 << 20)


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``path``            the folder.
    ``max_bytes``       cap on file and write-ahead log together; 0: the disk is the cap.
    ``partitions``      of topics that come to be by their first record.
    ``segment_bytes``   a segment is closed at this size; retention drops whole ones.
    ``wal_bytes``       the write-ahead log is folded back at about this size.
    ``check_on_start``  read the whole file and report damage before serving.
    ``synchronous``     FULL keeps every acknowledged record through a power cut; the others do not.
    ``producer_age``    seconds after its last batch that an idempotent producer is forgotten.
    ``group_age``       seconds after its last use that a group without members is forgotten, unless a
                        subscription is one.
    ``max_partitions``  of all topics together. A user has a share of topics and partitions.
    ``max_producers``   states of idempotent producers, one a producer and partition; beyond them, and beyond
                        the share of a user, the one that has been quiet for longest is forgotten.
    ``find_keep``       seconds for which events are found by source and id without reading the log (see
                        ``event_index``); 0: not at all.
    ``vfs``             name of a registered SQLite VFS; fault tests put theirs here.
    """

    path: Path
    name: str = "log"
    max_bytes: int = 0
    max_topics: int = 1_000
    max_partitions: int = 10_000
    max_producers: int = 100_000
    find_keep: float = 7 * 86_400.0
    partitions: int = 8
    segment_bytes: int = 16 << 20
    wal_bytes: int = 4 << 20
    check_on_start: bool = False
    synchronous: Synchronous = "FULL"
    retention: Retention = Retention()
    topic_retention: Mapping[str, Retention] = {}
    retention_interval: float = 30.0
    producer_age: float = 7 * 86_400.0
    group_age: float = 7 * 86_400.0
    now_ms: Callable[[], int] = wall_ms
    vfs: str | None = None

    @property
    def setting(self) -> str:
        """Where in the configuration the folder is named."""
        return f"brokers.{self.name}.path"

    def retention_of(self, topic: str) -> Retention:
        """What is drained of a spool goes soon; what is not, its group keeps."""
        if spooled_route(topic) is not None:
            return SPOOL_RETENTION
        return self.topic_retention.get(topic, self.retention)

    def closes(self, topic: str, size: int, age_ms: int) -> bool:
        """Whether a segment takes no more: it must not hold more than a part of what is kept."""
        retention = self.retention_of(topic)
        if retention.max_age is not None and age_ms * PARTS > retention.max_age * 1000:
            return True
        most = self.segment_bytes
        if retention.max_bytes is not None:
            most = min(most, retention.max_bytes // PARTS)
        return size >= most
