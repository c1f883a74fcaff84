"""The settings of the embedded log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from app.log.database import Synchronous
from app.model.spool import spooled_route

PARTS = 4  # retained data has at least this many segments, because whole segments are dropped


def wall_ms() -> int:
    """Return the wall clock in ms since the epoch, which becomes the time of a record."""
    return time.time_ns() // 1_000_000


class RetentionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The retention of a topic: ``max_age`` in seconds, and ``max_bytes`` per partition. None means no limit."""

    max_age: float | None = None
    max_bytes: int | None = None


SPOOL_RETENTION = RetentionLimits(max_age=900.0, max_bytes=64 << 20)


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one embedded log.

    Attributes:
        path: the folder.
        name: the name of the broker.
        max_bytes: the bound of file and write-ahead log together. 0 means that only the disk bounds them.
        max_topics: the number of topics.
        max_partitions: the number of partitions of all topics. Each user has a share of topics and partitions.
        max_producers: the number of states of idempotent producers, one per producer and partition. Beyond this
            number, or beyond a user's share, the state that was idle for longest is dropped.
        find_keep: seconds for which events are found by source and id without reading the log (``event_index``); 0:
            never.
        partitions: the number of partitions of topics that their first record creates.
        segment_bytes: the size at which a segment is closed. Retention drops whole segments.
        wal_bytes: the approximate size of the write-ahead log at which a checkpoint is made.
        check_on_start: whether the whole file is checked before the start.
        synchronous: FULL keeps every acknowledged record through a power cut. The other values may lose records.
        retention: the retention of topics that ``topic_retention`` does not name.
        topic_retention: the retention by topic.
        retention_interval: seconds between two runs of the upkeep.
        producer_age: seconds after its last batch that an idempotent producer is dropped.
        group_age: seconds after its last use that a group without members and subscription is dropped.
        now_ms: the wall clock.
        vfs: the name of a registered SQLite VFS, for fault tests.
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
    retention: RetentionLimits = RetentionLimits()
    topic_retention: Mapping[str, RetentionLimits] = {}
    retention_interval: float = 30.0
    producer_age: float = 7 * 86_400.0
    group_age: float = 7 * 86_400.0
    now_ms: Callable[[], int] = wall_ms
    vfs: str | None = None

    @property
    def setting(self) -> str:
        """Return the setting that names the folder."""
        return f"brokers.{self.name}.path"

    def retention_of(self, topic: str) -> RetentionLimits:
        """Return the retention of a topic. Records of a spool may go soon, but its group keeps those that are not
        drained yet."""
        if spooled_route(topic) is not None:
            return SPOOL_RETENTION
        return self.topic_retention.get(topic, self.retention)

    def closes(self, topic: str, size: int, age_ms: int) -> bool:
        """Return True if a segment of this size and age takes no more records, so that retention can drop it in
        time."""
        retention = self.retention_of(topic)
        if retention.max_age is not None and age_ms * PARTS > retention.max_age * 1000:
            return True
        most = self.segment_bytes
        if retention.max_bytes is not None:
            most = min(most, retention.max_bytes // PARTS)
        return size >= most
