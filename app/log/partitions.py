"""Topics, partitions and segments in memory. Only the writer thread changes them. Other threads read attributes
that are replaced as a whole."""

from __future__ import annotations

import re
from bisect import bisect_right
from operator import attrgetter

from app.errors import PositionOutOfRange
from app.model.message import Partition

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")  # the rule of Kafka
KEYLESS_RUN = (
    32  # records without a key that go to one partition in a row, so that pages are filled
)


class Segment:
    """A range of offsets in a table of its own, which retention drops as a whole.

    A row has the records that one commit group stored for the partition: consecutive records from ``base_offset``
    on, as one value (``codec``)."""

    __slots__ = ("base", "bytes", "first_ms", "id", "insert", "last_ms", "prints")

    def __init__(self, segment_id: int, base: int, size: int = 0, last_ms: int = 0) -> None:
        self.id = segment_id
        self.base = base
        self.bytes = size
        self.first_ms = 0  # set for the newest segment only
        self.last_ms = last_ms
        self.prints = True  # there may be fingerprints, see event_index
        self.insert = f"INSERT INTO {self.table} VALUES(?, ?, ?, ?, ?)"

    @property
    def table(self) -> str:
        return f"s{self.id}"


class PartitionLog:
    """One partition: its segments, oldest first, and the offset of the next record."""

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
        """Return the first offset of the partition. If the partition is empty, return the next offset."""
        return self.segments[0].base if self.segments else self.next_offset

    def segment_of(self, offset: int) -> Segment | None:
        """Return the segment that has ``offset``, or the first segment if the offset is lower."""
        segments = self.segments
        if not segments:
            return None
        return segments[max(0, bisect_right(segments, offset, key=attrgetter("base")) - 1)]

    def after(self, segment: Segment) -> Segment | None:
        """Return the segment after this one, or None."""
        segments = self.segments
        at = bisect_right(segments, segment.base, key=attrgetter("base"))
        return segments[at] if at < len(segments) else None

    def reach(self, offset: int, until: int) -> tuple[Segment, int] | None:
        """Return the segment that has ``offset``, and the end up to which to read: its own end or ``until``. Return
        None if there is no segment.

        Raises:
            PositionOutOfRange: retention has dropped the offset meanwhile.
        """
        segment = self.segment_of(offset)
        self.check(offset)
        if segment is None:
            return None
        following = self.after(segment)
        return segment, min(until, following.base) if following else until

    def check(self, offset: int) -> None:
        """Raise PositionOutOfRange if the partition does not have this position."""
        if not self.earliest <= offset <= self.next_offset:
            raise PositionOutOfRange(
                f"{self.place} holds {self.earliest} to {self.next_offset}, not {offset}",
                earliest=str(self.earliest),
                latest=str(self.next_offset),
            )


class LogTopic:
    """A topic with its partitions.

    ``owner`` is the user of a Kafka listener that created the topic, or "" for any other creator."""

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
        """Return True if no partition has a record."""
        return all(each.earliest == each.next_offset for each in self.partitions)

    def spread(self) -> int:
        """Return the partition of the next record without a key."""
        self._keyless += 1
        return self._keyless // KEYLESS_RUN % len(self.partitions)


def is_topic_name(name: str) -> bool:
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")
