"""Events that a route stores once: their identities, in memory and in the file.

A commit group asks ``judge`` of each event as it stages it, beside what it has staged itself
(``Recognition``), and writes what it found new in the transaction of its records: after a kill both are
there or neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import apsw
import msgspec

from app.model.receipt import Receipt
from app.routing.identity import Entry, Identity, Recent, Verdict, Window, judge, note_of

Kept = tuple[str, str]
"""Route and topic."""

ROWS = 2_000  # that are deleted in one transaction
_write = msgspec.msgpack.encode
_read = msgspec.msgpack.Decoder(list[Entry]).decode


class Identities:
    """In the writer thread only, but for ``count``."""

    def __init__(self, broker: str, now_ms: Callable[[], int]) -> None:
        self._broker = broker
        self._now = now_ms
        self._recent: dict[Kept, Recent] = {}
        self.count = 0
        self.oldest_ms = 1 << 62  # when the first row may go; far off where there is none

    def load(self, db: apsw.Connection) -> None:
        now = self._now()
        for route, topic, most, until, entries in db.execute(
            "SELECT route, topic, most, until_ms, entries FROM identities ORDER BY number"
        ):
            self.oldest_ms = min(self.oldest_ms, until)
            self.remember((route, topic), _read(entries), most, now)

    def begin(self) -> Recognition:
        return Recognition(self, self._broker, self._now())

    def note(self, kept: Kept, key: bytes) -> bytes | None:
        recent = self._recent.get(kept)
        return None if recent is None else recent.get(key)

    def remember(self, kept: Kept, entries: list[Entry], most: int, now_ms: int) -> None:
        recent = self._recent.setdefault(kept, Recent())
        before = len(recent)
        recent.remember(entries, most, now_ms)
        self.count += len(recent) - before

    def forget(self, db: apsw.Connection) -> int:
        """Rows that no longer count; returns how many went. A transaction of its own, and bounded."""
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
        """In the transaction that deletes it. Returns what to do once that is committed."""
        db.execute("DELETE FROM identities WHERE topic = ?", (topic,))

        def forget() -> None:
            for kept in [kept for kept in self._recent if kept[1] == topic]:
                del self._recent[kept]
            self._count()

        return forget

    def _count(self) -> None:
        self.count = sum(map(len, self._recent.values()))


class Recognition:
    """The identities of one commit group. Dropped without ``publish``, nothing happened."""

    def __init__(self, known: Identities, broker: str, now_ms: int) -> None:
        self._known = known
        self._broker = broker
        self._now = now_ms
        self._staged: dict[tuple[Window, str], dict[bytes, bytes]] = {}

    def judge(self, topic: str, identity: Identity) -> tuple[Verdict, Receipt | None]:
        staged = self._staged.get((identity.window, topic))
        note = staged.get(identity.key) if staged else None
        if note is None:
            note = self._known.note((identity.window.route, topic), identity.key)
        return judge(note, identity, self._now, self._broker, topic)

    def stage(self, identity: Identity, receipt: Receipt) -> None:
        notes = self._staged.setdefault((identity.window, receipt.topic), {})
        notes[identity.key] = note_of(identity, self._now, receipt.partition, receipt.position)

    def store(self, db: apsw.Connection) -> None:
        """In the transaction of the records."""
        for window, topic, entries in self._entries():
            until = self._now + window.milliseconds
            db.execute(
                "INSERT INTO identities(route, topic, most, until_ms, entries)"
                " VALUES(?, ?, ?, ?, ?)",
                (window.route, topic, window.most, until, _write(entries)),
            )

    def publish(self) -> None:
        """After the commit."""
        for window, topic, entries in self._entries():
            known = self._known
            known.remember((window.route, topic), entries, window.most, self._now)
            known.oldest_ms = min(known.oldest_ms, self._now + window.milliseconds)

    def _entries(self) -> Iterator[tuple[Window, str, list[Entry]]]:
        for (window, topic), notes in self._staged.items():
            yield window, topic, list(notes.items())
