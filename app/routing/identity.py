"""The identity of an event, by which a route with ``deduplicate`` stores a repeated event once.

Two events are the same if producer, ``source`` and ``id`` are equal (core 3.1), and a repeat if the data is equal
too. Memory and disk store the same form: a digest of the identity, and a note about the event. The note holds a
digest of the data, the end of the window, and the position of the record.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Literal, NamedTuple

import msgspec

from app.event.value import CloudEvent
from app.model.receipt import Receipt
from app.model.route import Route

Verdict = Literal["new", "duplicate", "differs"]
"""The relation of an event to the stored event with the same identity."""
Entry = tuple[bytes, bytes]
"""The digest of an event's identity, and the note about the event: a ``StoredIdentity`` as bytes."""

_KEY, _DATA = 16, 8  # the stored bytes of each digest
_NO_DATA = bytes(_DATA)  # absent data differs from empty data
_NOTE = struct.Struct(">8sQI")
_COUNTS = struct.Struct(">QI")


class Window(msgspec.Struct, frozen=True):
    """The setting ``deduplicate`` of a route.

    Attributes:
        route: The name of the route.
        milliseconds: The time for which an event is remembered.
        most: The most events that are remembered.
    """

    route: str
    milliseconds: int
    most: int


class Identity(msgspec.Struct, frozen=True, gc=False):  # an instance can be in no reference cycle
    """The identity of an event within the window of its route.

    Attributes:
        window: The window of the route.
        key: The digest of producer, source and id.
        data: The digest of the data.
    """

    window: Window
    key: bytes
    data: bytes


Identify = Callable[[CloudEvent, str], Identity | None]
"""A function from an event and its producer's name to the identity. None for a document whose attributes are
unknown.
"""


def compile_identity(route: Route) -> Identify | None:
    """Return the function that computes identities for a route, or None if it does not deduplicate."""
    setting = route.deduplicate
    if setting is None:
        return None
    window = Window(route.name, round(setting.window * 1000), setting.max_entries)

    def identify(event: CloudEvent, producer: str) -> Identity | None:
        attributes = event.attributes
        if "id" not in attributes or "source" not in attributes:
            return None
        source, data = attributes["source"], event.data
        text = f"{len(producer)} {len(source)} {producer}{source}{attributes['id']}"
        key = sha256(text.encode()).digest()[:_KEY]
        digest = _NO_DATA if data is None else sha256(data).digest()[:_DATA]
        return Identity(window, key, digest)

    return identify


class StoredIdentity(NamedTuple):
    """The contents of a note about a stored event: a digest of its data, the end of its window, and its record's place.

    The end is in ms since 1970."""

    data: bytes
    until_ms: int
    partition: int
    position: str


def note_of(identity: Identity, now_ms: int, partition: int, position: str) -> bytes:
    """Return the note (``StoredIdentity`` as bytes) about an event that is stored at this position."""
    until = now_ms + identity.window.milliseconds
    return identity.data + _COUNTS.pack(until, partition) + position.encode()


def known_of(note: bytes) -> StoredIdentity:
    """Return the contents of a note about a stored event."""
    data, until_ms, partition = _NOTE.unpack_from(note)
    return StoredIdentity(data, until_ms, partition, note[_NOTE.size :].decode())


def judge(
    note: bytes | None, identity: Identity, now_ms: int, broker: str, topic: str
) -> tuple[Verdict, Receipt | None]:
    """Return whether an event is new, a duplicate, or differs from the stored event of the same identity. For a
    duplicate, return the receipt of the stored event too."""
    if note is None:
        return "new", None
    known = known_of(note)
    if known.until_ms < now_ms:
        return "new", None
    if known.data != identity.data:
        return "differs", None
    return "duplicate", Receipt(broker, topic, known.partition, known.position, "duplicate")


class Recent:
    """The identities that were stored last for one route and topic, oldest first and limited in number. Each has a
    note (``StoredIdentity``). Expired entries are removed when others are added."""

    def __init__(self) -> None:
        self._notes: OrderedDict[bytes, bytes] = OrderedDict()
        self.get = self._notes.get

    def __len__(self) -> int:
        return len(self._notes)

    def remember(self, entries: Iterable[Entry], most: int, now_ms: int) -> None:
        """Add entries. Remove expired entries, and the oldest entries beyond the number ``most``."""
        notes = self._notes
        for key, note in entries:
            if key in notes:
                notes.move_to_end(key)
            notes[key] = note
        while len(notes) > most:
            notes.popitem(last=False)
        self.forget_before(now_ms)

    def forget_before(self, now_ms: int) -> None:
        """Remove the entries whose window ended before ``now_ms``."""
        notes = self._notes
        while notes:
            oldest = next(iter(notes))
            if known_of(notes[oldest]).until_ms >= now_ms:
                return
            del notes[oldest]
