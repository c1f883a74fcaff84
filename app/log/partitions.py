"""Topics, partitions and segments as they are in memory. The writer thread alone changes them; other threads read
attributes that are replaced as a whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from operator import attrgetter

from app.errors import PositionOutOfRange
from app.model.message import Partition

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")  # as Kafka has it
KEYLESS_RUN = 32  # records without a key go to one partition in runs, so that a page is filled


class Segment:
    """A run of offsets in a table of its own, which retention drops whole.

    A row of it is what one commit group stored for the partition: consecutive records from
    ``base_offset`` on, as one value (see codec)."""

    __slots__ = ("base", "bytes", "first_ms", "id", "insert", "last_ms", "prints")

    def __init__(self, segment_id: int, base: int, size: int = 0, last_ms: int = 0) -> None:
        self.id = segment_id
        self.base = base
        self.bytes = size
        self.first_ms = 0  # known of the newest one only
        self.last_ms = last_ms
        self.prints = True  # there may be some, see event_index
        self.insert = f"INSERT INTO {self.table} VALUES(?, ?, ?, ?, ?)"

    @property
    def table(self) -> str:
        return f"s{self.id}"


class PartitionLog:
    """One partition: its segments, oldest first, and the offset that the next record gets."""

    __slots__ = ("last_ms", "next_offset", "number", "place", "segments", "topic_id")

    def __init__(self, place: Partition, topic_id: int, next_offset: int = 0) -> None:
        self.place = place
        self.number = place.number
        self.topic_id = topic_id
        self.next_offset = next_offset
        self.segments: tuple[Segment, ...] = ()
        self.last_ms = 0

    @property
    def earliest(self) -> int:
        return self.segments[0].base if self.segments else self.next_offset

    def segment_of(self, offset: int) -> Segment | None:
        """The segment that holds ``offset`` or the first after it."""
        segments = self.segments
        if not segments:
            return None
        return segments[max(0, bisect_right(segments, offset, key=attrgetter("base")) - 1)]

    def after(self, segment: Segment) -> Segment | None:
        segments = self.segments
        at = bisect_right(segments, segment.base, key=attrgetter("base"))
        return segments[at] if at < len(segments) else None

    def reach(self, offset: int, until: int) -> tuple[Segment, int] | None:
        """The segment to read ``offset`` from, and where it ends or ``until`` is; None where all are gone.
        Raises PositionOutOfRange for an ``offset`` that retention took meanwhile."""
        segment = self.segment_of(offset)
        self.check(offset)
        if segment is None:
            return None
        following = self.after(segment)
        return segment, min(until, following.base) if following else until

    def check(self, offset: int) -> None:
        """Raises PositionOutOfRange for a position that is not held (rule 10)."""
        if not self.earliest <= offset <= self.next_offset:
            raise PositionOutOfRange(
                f"{self.place} holds {self.earliest} to {self.next_offset}, not {offset}",
                earliest=str(self.earliest),
                latest=str(self.next_offset),
            )


class Topic:
    """``owner``: the user of a Kafka listener that created the topic; "" for any other creator."""

    __slots__ = ("_keyless", "id", "name", "owner", "partitions")

    def __init__(self, topic_id: int, name: str, partitions: int, owner: str = "") -> None:
        self.id = topic_id
        self.name = name
        self.owner = owner
        self.partitions = tuple(
            PartitionLog(Partition(name, number), topic_id) for number in range(partitions)
        )
        self._keyless = 0

    @property
    def empty(self) -> bool:
        """Whether no partition holds a record."""
        return all(each.earliest == each.next_offset for each in self.partitions)

    def spread(self) -> int:
        """The partition of the next record without a key."""
        self._keyless += 1
        return self._keyless // KEYLESS_RUN % len(self.partitions)


def is_topic_name(name: str) -> bool:
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")
