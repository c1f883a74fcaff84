"""Find the events of the log by source and id.

Each record has a fingerprint of eight bytes: the checksums of the event's id and source. Fingerprints are appended
in the transaction of the records, so that no other page of the file is written. A tree by id would write one page
per event. A search scans the fingerprints in SQLite and reads the matching records. The fingerprints of a closed
segment become one row, or a few."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Literal, NamedTuple
from zlib import crc32

import apsw
import msgspec

from app.bindings.record import Header, Record
from app.bindings.spooled import HEADER as SPOOLED
from app.bindings.table import BINDINGS
from app.errors import SenderError
from app.log.catalogue import Catalogue
from app.log.codec import Fields, decode_row
from app.log.partitions import PartitionLog, Segment
from app.log.reader import rows_of
from app.model.message import Partition

SIZE = 8  # bytes of a fingerprint
MOST = 1_000  # records in one answer, because many events may have the same id
NO_FINGERPRINT = bytes(SIZE)  # for a record that is not an event

_INSERT = "INSERT INTO prints VALUES(?, ?, ?)"
_NEXT_ROWS = "SELECT base_offset, prints FROM prints WHERE segment = ? AND base_offset >= ? ORDER BY base_offset LIMIT ?"
_DELETE_UP_TO = "DELETE FROM prints WHERE segment = ? AND base_offset BETWEEN ? AND ?"
SEARCH = "SELECT base_offset, prints FROM prints WHERE segment = ?1 AND instr(prints, ?2)"
_COVERED = "SELECT coalesce(sum(length(prints)), 0) FROM prints WHERE segment = ?"
STEP = 1_000
"""Most rows that one step of merging reads and deletes, in one transaction. Appends wait for it, about a millisecond."""
_LONG = 64 << 10  # bytes of a row that is not merged with later ones
_DOCUMENT, _JSON = b"application/cloudevents", b"application/cloudevents+json"
_pack = struct.Struct(">II").pack
_SPOOLED_FOR = ("kafka", "rabbitmq", "pulsar")


class _Named(msgspec.Struct):
    """The members of a JSON document that the index reads. Other members are ignored."""

    specversion: Literal["1.0"]
    id: str
    source: str


_named = msgspec.json.Decoder(_Named).decode


def fingerprint_of(event_id: bytes, source: bytes) -> bytes:
    """Return the fingerprint of an event, from its id and source in UTF-8."""
    return _pack(crc32(event_id), crc32(source))


def fingerprints_of(records: Sequence[Fields]) -> bytes:
    """Return the fingerprints of the records, one after the other. Hot path: runs for every stored record."""
    return b"".join(map(_print, records))


def _print(fields: Fields) -> bytes:
    headers = fields[1]
    known = dict(headers)
    content_type = known.get("content-type") or b""
    if content_type[:23] != _DOCUMENT:
        if known.get("ce_specversion") == b"1.0":
            event_id, source = known.get("ce_id"), known.get("ce_source")
            if event_id and source:
                return _pack(crc32(event_id), crc32(source))
    elif content_type[:28] == _JSON and fields[2]:
        try:
            named = _named(fields[2])
            return _pack(crc32(named.id.encode()), crc32(named.source.encode()))
        except (msgspec.DecodeError, UnicodeError):
            pass  # an older version, or no event
    return _by_decoding(fields) if _may_be_event(headers) else NO_FINGERPRINT


def _may_be_event(headers: Sequence[Header]) -> bool:
    if headers and headers[-1][0] == SPOOLED:
        return True
    return any(
        name[:3].lower() in {"ce_", "ce-"} or (value or b"")[:23].lower() == _DOCUMENT
        for name, value in headers
    )


def _by_decoding(fields: Fields) -> bytes:
    """Return the fingerprint by decoding the record, with another broker's binding for a record of a spool."""
    record = Record(*fields)
    spooled = bool(record.headers) and record.headers[-1][0] == SPOOLED
    for kind in _SPOOLED_FOR if spooled else ("embedded",):
        try:
            attributes = BINDINGS[kind].decode(record).event.attributes
            return fingerprint_of(attributes["id"].encode(), attributes["source"].encode())
        except (SenderError, KeyError, ValueError, TypeError, AttributeError):
            continue
    return NO_FINGERPRINT


class SearchHits(NamedTuple):
    """The records that a search found.

    ``places`` are partitions and offsets of records that may have the event, the newest segment of each partition
    first. ``unread`` are segments without fingerprints that were not read in time. ``crowded`` is True if there are
    more than 1,000 hits."""

    places: list[tuple[Partition, int]]
    unread: list[Segment]
    crowded: bool


class EventIndex:
    """The fingerprints of the log's events. Used in the writer thread, except for searches.

    Args:
        keep: seconds for which fingerprints of closed segments are kept; 0: none are made.
        now_ms: the wall clock in ms.
    """

    def __init__(self, keep: float, now_ms: Callable[[], int]) -> None:
        self.keep = keep
        self._now = now_ms
        self._unmerged: dict[
            int, int
        ] = {}  # ids of segments with several rows; the offset where merging goes on

    def load(self, db: apsw.Connection) -> None:
        several = "SELECT segment FROM prints GROUP BY segment HAVING count(*) > 1"
        self._unmerged = {segment: 0 for (segment,) in db.execute(several)}

    def store(self, db: apsw.Connection, segment: Segment, base: int, prints: bytes) -> None:
        """Write the fingerprints in the transaction of the records."""
        db.execute(_INSERT, (segment.id, base, prints))
        self._unmerged.setdefault(segment.id, 0)

    def due(self, catalogue: Catalogue) -> list[Segment]:
        """Return closed segments whose fingerprints have to be merged or deleted."""
        before = self._now() - round(self.keep * 1000)
        return [
            segment
            for partition in catalogue.partitions()
            for segment in partition.segments[:-1]
            if segment.id in self._unmerged or (segment.prints and segment.last_ms < before)
        ]

    def tidy(self, segment: Segment, db: apsw.Connection) -> bool:
        """Make one step of merging the fingerprints of a closed segment, or of deleting them if they have expired.

        A step is a transaction of its own. The next one begins with the last row that this one has made, unless that is
        long enough. Return True if no step is left.
        """
        old = segment.last_ms < self._now() - round(self.keep * 1000)
        begin = 0 if old else self._unmerged.get(segment.id, 0)
        rows = list(db.execute(_NEXT_ROWS, (segment.id, begin, STEP)))
        runs = [] if old else list(_joined(rows))
        if len(runs) < len(rows):
            with db:
                db.execute(_DELETE_UP_TO, (segment.id, rows[0][0], rows[-1][0]))
                db.executemany(_INSERT, [(segment.id, *run) for run in runs])
        if len(rows) == STEP:
            long = bool(runs) and len(runs[-1][1]) >= _LONG
            self._unmerged[segment.id] = 0 if old else rows[-1][0] + 1 if long else runs[-1][0]
            return False
        segment.prints = not old
        self._unmerged.pop(segment.id, None)
        return True


def _joined(rows: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Merge rows of fingerprints whose offsets follow each other. Rows with a gap between them stay separate."""
    base, parts, end = 0, list[bytes](), -1
    for start, prints in rows:
        if start != end and parts:
            yield base, b"".join(parts)
            parts = []
        base = base if parts else start
        parts.append(prints)
        end = start + len(prints) // SIZE
    if parts:
        yield base, b"".join(parts)


class EventSearch(NamedTuple):
    """A search for events by id.

    ``source`` is None for events of any source. ``since_ms`` skips segments that ended before it (ms since the
    epoch). ``within`` is the time in seconds to read segments without fingerprints."""

    event_id: str
    source: str | None
    since_ms: int
    within: float

    @property
    def needle(self) -> bytes:
        """Return the bytes to look for: the fingerprint of id and source. Without a source, return its first half,
        which depends on the id alone."""
        found = fingerprint_of(self.event_id.encode(), (self.source or "").encode())
        return found[:4] if self.source is None else found

    def run(self, db: apsw.Connection, partitions: Sequence[PartitionLog]) -> SearchHits:
        """Search the partitions in a thread. Each segment is a statement of its own, so that the writer never waits
        long."""
        hits = SearchHits([], [], crowded=False)
        ends = monotonic() + self.within
        for partition in partitions:
            end = partition.next_offset
            for segment in reversed(partition.segments):
                if segment.last_ms >= self.since_ms and segment.base < end:
                    offsets = self._of(db, segment, end - segment.base, ends)
                    if offsets is None:
                        hits.unread.append(segment)
                    hits.places.extend((partition.place, offset) for offset in offsets or ())
                    if len(hits.places) > MOST:
                        return SearchHits(hits.places[:MOST], hits.unread, crowded=True)
                end = segment.base
        return hits

    def _of(
        self, db: apsw.Connection, segment: Segment, count: int, ends: float
    ) -> list[int] | None:
        """Return the offsets of the hits in a segment, newest first. Return None if some records have
        no fingerprints, and the time ``ends`` is over."""
        needle = self.needle
        found = [
            base + at // SIZE
            for base, prints in db.execute(SEARCH, (segment.id, needle))
            for at in _aligned(prints, needle)
        ]
        ((covered,),) = db.execute(_COVERED, (segment.id,))
        if covered < count * SIZE:
            if monotonic() > ends:
                return None
            found = self._read(db, segment, needle)
        return sorted(found, reverse=True)

    @staticmethod
    def _read(db: apsw.Connection, segment: Segment, needle: bytes) -> list[int]:
        """Return the hits of a segment without fingerprints by reading all its records."""
        try:
            return [
                row[0] + at // SIZE
                for row in db.execute(rows_of(segment), (segment.base, 1 << 62))
                for at in _aligned(fingerprints_of(decode_row(row) or ()), needle)
            ]
        except apsw.SQLError:  # retention dropped the table meanwhile
            return []


def _aligned(prints: bytes, needle: bytes) -> Iterator[int]:
    at = prints.find(needle)
    while at >= 0:
        if at % SIZE == 0:
            yield at
        at = prints.find(needle, at + 1)
