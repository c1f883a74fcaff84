"""The catalogue of a log: its topics, partitions and segments, in the file and in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import apsw

from app.errors import BoundReached, BrokerRefused, PositionOutOfRange
from app.log.partitions import LogTopic, PartitionLog, Segment, is_topic_name
from app.model.message import Partition

SAMPLE = 100  # rows from which the size of a segment is estimated


class Catalogue:
    """All topics of the log. ``load`` reads them at the start; later changes update the file and the memory
    together."""

    def __init__(self, max_topics: int, max_partitions: int) -> None:
        self.topics: dict[str, LogTopic] = {}
        self.max_topics = max_topics
        self.max_partitions = max_partitions
        self._last_segment = 0

    def load(self, db: apsw.Connection) -> list[str]:
        """Read the catalogue. Return descriptions of damage for the operator."""
        for row in db.execute(
            "SELECT id, topics.name, partitions, coalesce(user, '') FROM topics"
            " LEFT JOIN owners ON kind = 'topic' AND owners.name = topics.name"
        ):
            self.topics[row[1]] = LogTopic(*row)
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
        """Return a partition. Raise PositionOutOfRange if it does not exist."""
        topic = self.topics.get(place.topic)
        if topic is None or not 0 <= place.number < len(topic.partitions):
            raise PositionOutOfRange(f"there is no partition {place}")
        return topic.partitions[place.number]

    def create(self, db: apsw.Connection, name: str, partitions: int, owner: str = "") -> None:
        """Create a topic in a transaction of its own, unless it exists.

        Raises:
            BrokerRefused: the name is not valid.
            BoundReached: the log has as many topics or partitions as it may have.
        """
        if name in self.topics:
            return
        if not is_topic_name(name):
            raise BrokerRefused(f"{name[:80]!r} is not a valid topic name", kind="unknown-topic")
        if len(self.topics) >= self.max_topics:
            raise BoundReached(
                f"the log has {len(self.topics)} topics; its bound is {self.max_topics}"
            )
        self._check_room(partitions)
        with db:
            topic = LogTopic(_new_id(db), name, partitions, owner)
            db.execute("INSERT INTO topics VALUES(?, ?, ?)", (topic.id, name, partitions))
            if owner:
                db.execute("INSERT OR REPLACE INTO owners VALUES('topic', ?, ?)", (name, owner))
        self.topics = {**self.topics, name: topic}

    def grow(self, db: apsw.Connection, name: str, partitions: int) -> None:
        """Raise the number of partitions in a transaction of its own. A key may move to another partition."""
        topic = self.topics[name]
        before = len(topic.partitions)
        self._check_room(partitions - before)
        db.execute("UPDATE topics SET partitions = ? WHERE id = ?", (partitions, topic.id))
        added = range(before, partitions)
        topic.partitions += tuple(PartitionLog(Partition(name, n), topic.id) for n in added)

    def delete(
        self, db: apsw.Connection, name: str, forgetting: Callable[[], list[Callable[[], None]]]
    ) -> LogTopic:
        """Delete a topic with its segments in one transaction, and return it.

        Args:
            db: the writer's connection.
            name: the topic.
            forgetting: deletes other rows of the topic, and returns functions to call after the commit.
        """
        topic = self.topics[name]
        before = {partition: partition.segments for partition in topic.partitions}
        for partition in topic.partitions:
            partition.segments = ()  # before the tables go, because a reader that misses a table checks this
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
        """Create the table of a new segment for offsets from ``base`` on. It becomes visible after the commit."""
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
        """Store the ends of all partitions at an orderly stop, so that a later start can check the last rows."""
        with db:
            for partition in self.partitions():
                if partition.segments:
                    _note(db, partition.segments[-1], partition.next_offset)

    def drop_segments(self, db: apsw.Connection, partition: PartitionLog, count: int) -> None:
        """Drop the oldest ``count`` segments. If no segment is left, create an empty one, which keeps the next
        offset."""
        before = partition.segments
        gone, kept = before[:count], before[count:]
        partition.segments = (
            kept  # before the tables go, because a reader that misses a table checks this
        )
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


def _new_id(db: apsw.Connection) -> int:
    """Return an id that no topic of this log has had, so that a topic that is created again differs
    from its predecessor.
    """
    newest = "SELECT max(id) FROM topics UNION SELECT value FROM identity WHERE name = 'topic-id'"
    number = 1 + max(row[0] or 0 for row in db.execute(newest))
    db.execute("INSERT OR REPLACE INTO identity VALUES('topic-id', ?)", (number,))
    return int(number)


def _drop(db: apsw.Connection, segment: Segment) -> None:
    """Drop a segment's records and the fingerprints of its events (``event_index``)."""
    db.execute(f"DROP TABLE {segment.table}")
    db.execute("DELETE FROM prints WHERE segment = ?", (segment.id,))


def _note(db: apsw.Connection, segment: Segment, end: int) -> None:
    db.execute(
        "UPDATE segments SET end_offset = ?, bytes = ?, last_ms = ? WHERE id = ?",
        (end, segment.bytes, segment.last_ms, segment.id),
    )


def _find_end(db: apsw.Connection, partition: PartitionLog, noted: int) -> list[str]:
    """Find the next offset of a partition, and return descriptions of damage.

    The next offset is the end of the last row; a segment without rows has it as its base. It is never less than the
    end that was stored at the last orderly stop. Rows that end before are damage."""
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
    """Set the times of a segment and estimate its size from its last rows. Return the offset after its last record.

    Reading all rows would delay the start."""
    table = segment.table
    rows = f"SELECT base_offset, count, time_ms FROM {table} ORDER BY base_offset"  # noqa: S608 - a number from the catalogue
    first = next(db.execute(f"{rows} LIMIT 1"), None)
    last = next(db.execute(f"{rows} DESC LIMIT 1"), None)
    if first is None or last is None:
        return segment.base
    segment.first_ms, segment.last_ms = first[2], last[2]
    end = int(last[0] + last[1])
    sample = (
        f"SELECT sum(length(records)), sum(count) FROM (SELECT records, count FROM {table}"  # noqa: S608 - a number from the catalogue
        " ORDER BY base_offset DESC LIMIT ?)"
    )
    size, records = next(db.execute(sample, (SAMPLE,)))
    segment.bytes = size * (end - first[0]) // records
    return end
