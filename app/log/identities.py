"""Identities of events that a route stores once, in memory and in the file.

A commit group checks each event with ``judge``: against the stored identities, and against those that the group
itself has staged (``IdentityCheck``). New identities are written in the transaction of the records, so a crash
loses both or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import apsw
import msgspec

from app.model.receipt import Receipt
from app.routing.identity import Entry, Identity, Recent, Verdict, Window, judge, note_of

Kept = tuple[str, str]
"""The route and the topic to which a set of identities belongs."""

ROWS = 2_000  # rows that are deleted in one transaction
_INSERT = "INSERT INTO identities(route, topic, most, until_ms, entries) VALUES(?, ?, ?, ?, ?)"
_write = msgspec.msgpack.encode
_read = msgspec.msgpack.Decoder(list[Entry]).decode


class StagedIdentities(NamedTuple):
    """The identities that a commit group adds for one route and topic."""

    window: Window
    notes: dict[bytes, bytes]


class Identities:
    """The identities that are still within their windows. Used in the writer thread only, except ``count``.

    ``oldest_ms`` is when the first row expires, in ms since the epoch; a time in the far future if there are no
    rows."""

    def __init__(self, broker: str, now_ms: Callable[[], int]) -> None:
        self._broker = broker
        self._now = now_ms
        self._recent: dict[Kept, Recent] = {}
        self.count = 0
        self.oldest_ms = 1 << 62

    def load(self, db: apsw.Connection) -> None:
        """Read all identities from the file."""
        now = self._now()
        for route, topic, most, until, entries in db.execute(
            "SELECT route, topic, most, until_ms, entries FROM identities ORDER BY number"
        ):
            self.oldest_ms = min(self.oldest_ms, until)
            self.remember((route, topic), _read(entries), most, now)

    def begin(self, now_ms: int) -> IdentityCheck:
        """Start the check of the identities of a commit group."""
        return IdentityCheck(self, self._broker, now_ms)

    def note(self, kept: Kept, key: bytes) -> bytes | None:
        """Return the stored entry of an event's identity, or None if the event is new."""
        recent = self._recent.get(kept)
        return None if recent is None else recent.get(key)

    def remember(self, kept: Kept, entries: Iterable[Entry], most: int, now_ms: int) -> None:
        """Add identities to the memory of a route and topic, at most ``most`` of them."""
        recent = self._recent.setdefault(kept, Recent())
        before = len(recent)
        recent.remember(entries, most, now_ms)
        self.count += len(recent) - before

    def forget(self, db: apsw.Connection) -> int:
        """Delete some thousand expired rows in a transaction of its own, and return their number."""
        now = self._now()
        with db:
            db.execute(
                "DELETE FROM identities WHERE number IN"
                " (SELECT number FROM identities WHERE until_ms < ? ORDER BY until_ms LIMIT ?)",
                (now, ROWS),
            )
            gone = db.changes()
            ((oldest,),) = db.execute("SELECT min(until_ms) FROM identities")
        self.oldest_ms = oldest or 1 << 62
        for recent in self._recent.values():
            recent.forget_before(now)
        self._count()
        return gone

    def forget_topic(self, db: apsw.Connection, topic: str) -> Callable[[], None]:
        """Delete the identities of a topic in the current transaction. Return the function to call after the
        commit."""
        db.execute("DELETE FROM identities WHERE topic = ?", (topic,))

        def forget() -> None:
            for kept in [kept for kept in self._recent if kept[1] == topic]:
                del self._recent[kept]
            self._count()

        return forget

    def _count(self) -> None:
        self.count = sum(map(len, self._recent.values()))


class IdentityCheck:
    """The identities of one commit group. Nothing is changed in memory before ``publish`` is called."""

    def __init__(self, known: Identities, broker: str, now_ms: int) -> None:
        self._known = known
        self._broker = broker
        self._now = now_ms
        self._staged: dict[Kept, StagedIdentities] = {}

    def judge(self, topic: str, identity: Identity) -> tuple[Verdict, Receipt | None]:
        """Return whether the event is new, a repeat or a different event, with the receipt of a repeat."""
        key, kept = identity.key, (identity.window.route, topic)
        staged = self._staged.get(kept)
        if staged is None:
            staged = self._staged[kept] = StagedIdentities(identity.window, {})
        note = staged.notes.get(key) or self._known.note(kept, key)
        return judge(note, identity, self._now, self._broker, topic)

    def stage(self, identity: Identity, receipt: Receipt) -> None:
        """Stage the identity that was just judged, with the receipt of its event."""
        notes = self._staged[identity.window.route, receipt.topic].notes
        notes[identity.key] = note_of(identity, self._now, receipt.partition, receipt.position)

    def store(self, db: apsw.Connection) -> None:
        """Write the staged identities in the transaction of the records."""
        for (route, topic), (window, notes) in self._staged.items():
            if notes:
                until = self._now + window.milliseconds
                row = (route, topic, window.most, until, _write(list(notes.items())))
                db.execute(_INSERT, row)

    def publish(self) -> None:
        """Apply the staged identities in memory after the commit."""
        known = self._known
        for kept, (window, notes) in self._staged.items():
            if notes:
                known.remember(kept, notes.items(), window.most, self._now)
                known.oldest_ms = min(known.oldest_ms, self._now + window.milliseconds)
