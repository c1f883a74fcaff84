"""Which event is which: the identity that a route compares so that a repeat is stored once.

An event is the same when its producer, ``source`` and ``id`` are, and a repeat of it when its data is, too
(core 3.1: source and id together name an event). What is remembered of it has one form in memory and on
the disk: the digest of its identity, and beside it a ``note`` of its data, how long it counts, and its place.
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
Entry = tuple[bytes, bytes]
"""An identity's key, and the note of it."""

_KEY, _DATA = 16, 8  # bytes of a digest that are kept
_NO_DATA = bytes(_DATA)  # absent data is not empty data
_NOTE = struct.Struct(">8sQI")
_COUNTS = struct.Struct(">QI")


class Window(msgspec.Struct, frozen=True):
    """How long a route remembers, in milliseconds, and how many events."""

    route: str
    milliseconds: int
    most: int


class Identity(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """``key``: digest of producer, source and id. ``data``: digest of the data."""

    window: Window
    key: bytes
    data: bytes


Identify = Callable[[CloudEvent, str], Identity | None]
"""From an event and the name of its producer; None for a document whose attributes nobody here reads."""


def compile_identity(route: Route) -> Identify | None:
    """None for a route that stores whatever comes."""
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


class Known(NamedTuple):
    """What a note says: where the record is, and until when that counts."""

    data: bytes
    until_ms: int
    partition: int
    position: str


def note_of(identity: Identity, now_ms: int, partition: int, position: str) -> bytes:
    until = now_ms + identity.window.milliseconds
    return identity.data + _COUNTS.pack(until, partition) + position.encode()


def known_of(note: bytes) -> Known:
    data, until_ms, partition = _NOTE.unpack_from(note)
    return Known(data, until_ms, partition, note[_NOTE.size :].decode())


def judge(
    note: bytes | None, identity: Identity, now_ms: int, broker: str, topic: str
) -> tuple[Verdict, Receipt | None]:
    """What the event is beside the one that was stored; the receipt of that one for a duplicate."""
    if note is None:
        return "new", None
    known = known_of(note)
    if known.until_ms < now_ms:
        return "new", None
    if known.data != identity.data:
        return "differs", None
    return "duplicate", Receipt(broker, topic, known.partition, known.position, "duplicate")


class Recent:
    """The notes of one route and topic, the oldest first. Bounded by number; those that no longer count go
    as others come."""

    def __init__(self) -> None:
        self._notes: OrderedDict[bytes, bytes] = OrderedDict()
        self.get = self._notes.get

    def __len__(self) -> int:
        return len(self._notes)

    def remember(self, entries: Iterable[Entry], most: int, now_ms: int) -> None:
        notes = self._notes
        for key, note in entries:
            if key in notes:
                notes.move_to_end(key)
            notes[key] = note
        while len(notes) > most:
            notes.popitem(last=False)
        self.forget_before(now_ms)

    def forget_before(self, now_ms: int) -> None:
        notes = self._notes
        while notes:
            oldest = next(iter(notes))
            if known_of(notes[oldest]).until_ms >= now_ms:
                return
            del notes[oldest]
