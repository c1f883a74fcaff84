"""Where the events of the log are, by source and id.

Beside each record stands a print of its event, eight bytes in the order of the records: checksums of its id and
of its source. They are appended with the records, in the same transaction, so that no page of the file is
touched that would not be: a tree by id would touch one an event. A search looks through the prints, in SQLite,
and reads the records that match; the prints of a closed segment become one row.
"""

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

SIZE = 8  # bytes of a print
MOST = 1_000  # places of one answer: many events of many sources may have one id
NONE = bytes(SIZE)  # of a record that is no event

_INSERT = "INSERT INTO prints VALUES(?, ?, ?)"
_OF_SEGMENT = "DELETE FROM prints WHERE segment = ?"
SEARCH = "SELECT base_offset, prints FROM prints WHERE segment = ?1 AND instr(prints, ?2)"
_COVERED = "SELECT coalesce(sum(length(prints)), 0) FROM prints WHERE segment = ?"
_DOCUMENT, _JSON = b"application/cloudevents", b"application/cloudevents+json"
_pack = struct.Struct(">II").pack
_SPOOLED_FOR = ("kafka", "rabbitmq", "pulsar")


class _Named(msgspec.Struct):
    """What is read of a document; others are ignored."""

    specversion: Literal["1.0"]
    id: str
    source: str


_named = msgspec.json.Decoder(_Named).decode


def print_of(event_id: bytes, source: bytes) -> bytes:
    """Of the texts in UTF-8."""
    return _pack(crc32(event_id), crc32(source))


def prints_of(records: Sequence[Fields]) -> bytes:
    """One a record. Hot: it is asked of every record that is stored."""
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
            pass  # an older version, or none
    return _closely(fields) if _may_be_event(headers) else NONE


def _may_be_event(headers: Sequence[Header]) -> bool:
    if headers and headers[-1][0] == SPOOLED:
        return True
    return any(
        name[:3].lower() in {"ce_", "ce-"} or (value or b"")[:23].lower() == _DOCUMENT
        for name, value in headers
    )


def _closely(fields: Fields) -> bytes:
    """As any reader of the log reads it; a record of a spool is written for another kind of broker."""
    record = Record(*fields)
    spooled = bool(record.headers) and record.headers[-1][0] == SPOOLED
    for kind in _SPOOLED_FOR if spooled else ("embedded",):
        try:
            attributes = BINDINGS[kind].decode(record).event.attributes
            return print_of(attributes["id"].encode(), attributes["source"].encode())
        except (SenderError, KeyError, ValueError, TypeError, AttributeError):
            continue
    return NONE


class Hits(NamedTuple):
    """``places``: records that may hold the event, the newest segment of each partition first. ``unread``:
    segments that have no prints and were not read in time. ``crowded``: there are more than ``MOST``."""

    places: list[tuple[Partition, int]]
    unread: list[Segment]
    crowded: bool


class EventIndex:
    """``keep``: seconds for which prints of closed segments stay; 0: none are made. In the writer thread, but for
    ``search``."""

    def __init__(self, keep: float, now_ms: Callable[[], int]) -> None:
        self.keep = keep
        self._now = now_ms
        self._loose: set[int] = set()  # segments with several rows

    def load(self, db: apsw.Connection) -> None:
        several = "SELECT segment FROM prints GROUP BY segment HAVING count(*) > 1"
        self._loose = {segment for (segment,) in db.execute(several)}

    def store(self, db: apsw.Connection, segment: Segment, base: int, prints: bytes) -> None:
        """In the transaction of the records."""
        db.execute(_INSERT, (segment.id, base, prints))
        self._loose.add(segment.id)

    def due(self, catalogue: Catalogue) -> list[Segment]:
        """Closed segments whose prints are to be joined or to go."""
        before = self._now() - round(self.keep * 1000)
        return [
            segment
            for partition in catalogue.partitions()
            for segment in partition.segments[:-1]
            if segment.id in self._loose or (segment.prints and segment.last_ms < before)
        ]

    def tidy(self, segment: Segment, db: apsw.Connection) -> None:
        """Of one that is closed: its prints become one row, or go. A transaction of its own."""
        old = segment.last_ms < self._now() - round(self.keep * 1000)
        with db:
            found = "SELECT base_offset, prints FROM prints WHERE segment = ? ORDER BY base_offset"
            rows = [] if old else list(db.execute(found, (segment.id,)))
            db.execute(_OF_SEGMENT, (segment.id,))
            db.executemany(_INSERT, [(segment.id, *run) for run in _joined(rows)])
        segment.prints = not old
        self._loose.discard(segment.id)


def _joined(rows: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Rows that follow each other as one; where prints are missing between them, they stay apart."""
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


class Search(NamedTuple):
    """``source`` None: of any. ``since_ms``: segments that ended before are passed over. ``within``: seconds for
    segments without prints, whose records are read."""

    event_id: str
    source: str | None
    since_ms: int
    within: float

    @property
    def needle(self) -> bytes:
        found = print_of(self.event_id.encode(), (self.source or "").encode())
        return found[:4] if self.source is None else found

    def run(self, db: apsw.Connection, partitions: Sequence[PartitionLog]) -> Hits:
        """In a thread. Each segment is a statement of its own, so that no reader holds up the writer."""
        hits = Hits([], [], crowded=False)
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
                        return Hits(hits.places[:MOST], hits.unread, crowded=True)
                end = segment.base
        return hits

    def _of(
        self, db: apsw.Connection, segment: Segment, count: int, ends: float
    ) -> list[int] | None:
        """Offsets, the newest first; None: they cannot be had in time."""
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
        """Without prints: every record of the segment."""
        try:
            return [
                row[0] + at // SIZE
                for row in db.execute(rows_of(segment), (segment.base, 1 << 62))
                for at in _aligned(prints_of(decode_row(row) or ()), needle)
            ]
        except apsw.SQLError:  # retention dropped the table meanwhile
            return []


def _aligned(prints: bytes, needle: bytes) -> Iterator[int]:
    at = prints.find(needle)
    while at >= 0:
        if at % SIZE == 0:
            yield at
        at = prints.find(needle, at + 1)
