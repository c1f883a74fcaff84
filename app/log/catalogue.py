"""The catalogue of a log: its topics, partitions and segments, in the file and in memory together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import apsw

from app.errors import BoundReached, BrokerRefused, PositionOutOfRange
from app.log.partitions import PartitionLog, Segment, Topic, is_topic_name
from app.model.message import Partition

SAMPLE = 100  # rows that a segment's size is estimated from


class Catalogue:
    """All topics. ``load`` at the start; afterwards memory and file change together."""

    def __init__(self, max_topics: int, max_partitions: int) -> None:
        self.topics: dict[str, Topic] = {}
        self.max_topics = max_topics
        self.max_partitions = max_partitions
        self._last_segment = 0

    def load(self, db: apsw.Connection) -> list[str]:
        """Read what is there; returns what looks damaged, for the operator."""
        for row in db.execute(
            "SELECT id, topics.name, partitions, coalesce(user, '') FROM topics"
            " LEFT JOIN owners ON kind = 'topic' AND owners.name = topics.name"
        ):
            self.topics[row[1]] = Topic(*row)
        by_id = {topic.id: topic for topic in self.topics.values()}
        ends: dict[PartitionLog, int] = {}
        for row in list(db.execute("SELECT * FROM segments ORDER BY base_offset")):
            segment_id, topic_id, number, base, end, size, last_ms = row
            partition = by_id[topic_id].partitions[number]
            partition.segments += (Segment(segment_id, base, size, last_ms),)
            ends[partition] = end
            self._last_segment = max(self._last_segment, segment_id)
        findings: list[str] = []
        for partition, end in ends.items():
            findings += _find_end(db, partition, end)
        return findings

    def partitions(self) -> Iterator[PartitionLog]:
        for topic in list(self.topics.values()):
            yield from topic.partitions

    def find(self, place: Partition) -> PartitionLog:
        """Raises PositionOutOfRange where there is no such partition."""
        topic = self.topics.get(place.topic)
        if topic is None or not 0 <= place.number < len(topic.partitions):
            raise PositionOutOfRange(f"there is no partition {place}")
        return topic.partitions[place.number]

    def create(self, db: apsw.Connection, name: str, partitions: int, owner: str = "") -> None:
        """A transaction of its own; no error when the topic is there."""
        if name in self.topics:
            return
        if not is_topic_name(name):
            raise BrokerRefused(f"{name[:80]!r} is not a valid topic name", kind="unknown-topic")
        if len(self.topics) >= self.max_topics:
            raise BoundReached(f"the log has {len(self.topics)} topics, its bound")
        self._check_room(partitions)
        with db:
            db.execute("INSERT INTO topics(name, partitions) VALUES(?, ?)", (name, partitions))
            topic = Topic(db.last_insert_rowid(), name, partitions, owner)
            if owner:
                db.execute("INSERT OR REPLACE INTO owners VALUES('topic', ?, ?)", (name, owner))
        self.topics = {**self.topics, name: topic}

    def grow(self, db: apsw.Connection, name: str, partitions: int) -> None:
        """A transaction of its own. Keys that were in one partition may be in another from now on."""
        topic = self.topics[name]
        before = len(topic.partitions)
        self._check_room(partitions - before)
        db.execute("UPDATE topics SET partitions = ? WHERE id = ?", (partitions, topic.id))
        added = range(before, partitions)
        topic.partitions += tuple(PartitionLog(Partition(name, n), topic.id) for n in added)

    def delete(
        self, db: apsw.Connection, name: str, forgetting: Callable[[], list[Callable[[], None]]]
    ) -> Topic:
        """With all of its segments, and what ``forgetting`` takes from the file beside them, in one
        transaction; what that returns is called once it is committed."""
        topic = self.topics[name]
        before = {partition: partition.segments for partition in topic.partitions}
        for partition in topic.partitions:
            partition.segments = ()  # first: a reader that finds no table looks here again
        try:
            with db:
                for segment in [each for segments in before.values() for each in segments]:
                    _drop(db, segment)
                db.execute("DELETE FROM segments WHERE topic = ?", (topic.id,))
                db.execute("DELETE FROM topics WHERE id = ?", (topic.id,))
                db.execute("DELETE FROM owners WHERE kind = 'topic' AND name = ?", (name,))
                forgotten = forgetting()
        except BaseException:
            for partition, segments in before.items():
                partition.segments = segments
            raise
        self.topics = {key: value for key, value in self.topics.items() if key != name}
        for forget in forgotten:
            forget()
        return topic

    def _check_room(self, partitions: int) -> None:
        have = sum(len(topic.partitions) for topic in self.topics.values())
        if have + partitions > self.max_partitions:
            raise BoundReached(f"the log has {have} partitions; its bound is {self.max_partitions}")

    def new_segment(self, db: apsw.Connection, partition: PartitionLog, base: int) -> Segment:
        """A table for the offsets from ``base`` on. Seen by others only once it is committed."""
        self._last_segment += 1
        segment = Segment(self._last_segment, base)
        db.execute(
            f"CREATE TABLE {segment.table}(base_offset INTEGER PRIMARY KEY, count INTEGER NOT NULL,"
            " time_ms INTEGER NOT NULL, checksum INTEGER NOT NULL, records BLOB NOT NULL) STRICT"
        )
        if partition.segments:
            _note(db, partition.segments[-1], base)
        db.execute(
            "INSERT INTO segments VALUES(?, ?, ?, ?, ?, 0, 0)",
            (segment.id, partition.topic_id, partition.number, base, base),
        )
        return segment

    def note_ends(self, db: apsw.Connection) -> None:
        """For an orderly stop: what a later start checks the last rows against."""
        with db:
            for partition in self.partitions():
                if partition.segments:
                    _note(db, partition.segments[-1], partition.next_offset)

    def drop_segments(self, db: apsw.Connection, partition: PartitionLog, count: int) -> None:
        """The oldest ``count`` go; the last one is replaced by an empty one, to keep the place."""
        before = partition.segments
        gone, kept = before[:count], before[count:]
        partition.segments = kept  # first: a reader that finds no table looks here again
        try:
            with db:
                if not kept:
                    kept = (self.new_segment(db, partition, partition.next_offset),)
                for segment in gone:
                    db.execute("DELETE FROM segments WHERE id = ?", (segment.id,))
                    _drop(db, segment)
        except BaseException:
            partition.segments = before
            raise
        partition.segments = kept


def _drop(db: apsw.Connection, segment: Segment) -> None:
    """Its records, and the prints of their events (``event_index``)."""
    db.execute(f"DROP TABLE {segment.table}")
    db.execute("DELETE FROM prints WHERE segment = ?", (segment.id,))


def _note(db: apsw.Connection, segment: Segment, end: int) -> None:
    db.execute(
        "UPDATE segments SET end_offset = ?, bytes = ?, last_ms = ? WHERE id = ?",
        (end, segment.bytes, segment.last_ms, segment.id),
    )


def _find_end(db: apsw.Connection, partition: PartitionLog, noted: int) -> list[str]:
    """The next offset is where the last row ends; a segment without rows keeps the place by its
    base. It is never less than what was noted at the last orderly stop: a difference is damage."""
    newest = partition.segments[-1]
    earlier = partition.segments[-2].last_ms if len(partition.segments) > 1 else 0
    found = newest.base
    try:
        found = _measure(db, newest)
    except apsw.CorruptError as error:
        partition.next_offset = max(found, noted)
        return [f"{partition.place}: the newest segment cannot be read: {error}"]
    partition.last_ms = max(newest.last_ms, earlier)
    partition.next_offset = max(found, noted)
    if found >= noted:
        return []
    return [f"{partition.place}: next offset {noted}, but the records end before {found}"]


def _measure(db: apsw.Connection, segment: Segment) -> int:
    """Sets its times, and its size as its last rows let it seem: reading all of every newest segment
    would hold up the start. Returns the offset after its last record."""
    table = segment.table
    rows = f"SELECT base_offset, count, time_ms FROM {table} ORDER BY base_offset"  # noqa: S608 - our number
    first = next(db.execute(f"{rows} LIMIT 1"), None)
    last = next(db.execute(f"{rows} DESC LIMIT 1"), None)
    if first is None or last is None:
        return segment.base
    segment.first_ms, segment.last_ms = first[2], last[2]
    end = int(last[0] + last[1])
    sample = (
        f"SELECT sum(length(records)), sum(count) FROM (SELECT records, count FROM {table}"  # noqa: S608 - our number
        " ORDER BY base_offset DESC LIMIT ?)"
    )
    size, records = next(db.execute(sample, (SAMPLE,)))
    segment.bytes = size * (end - first[0]) // records
    return end
