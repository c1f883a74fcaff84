"""Committed positions of groups, and which groups are declared: memory and file together.

Memory is read on the event loop; it changes only when the file has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw
import msgspec

from app.model.message import Partition


class Committed(msgspec.Struct, frozen=True):
    """The next offset that the group wants, and the text it gave with it."""

    offset: int
    metadata: str = ""


Places = Mapping[Partition, Committed]


class Declared(msgspec.Struct, frozen=True):
    """A group whose unread records retention keeps, unless ``drop_unread``."""

    group: str
    topics: tuple[str, ...]
    drop_unread: bool = False


class Positions:
    def __init__(self) -> None:
        self._committed: dict[str, dict[Partition, Committed]] = {}
        self._declared: dict[tuple[str, str], bool] = {}
        self._generations: dict[str, int] = {}

    def load(self, db: apsw.Connection) -> None:
        for group, topic, number, offset, metadata in db.execute("SELECT * FROM positions"):
            places = self._committed.setdefault(group, {})
            places[Partition(topic, number)] = Committed(offset, metadata)
        for group, topic, drop_unread in db.execute("SELECT * FROM declared"):
            self._declared[group, topic] = bool(drop_unread)
        self._generations.update(db.execute("SELECT name, generation FROM groups"))

    def of(self, group: str) -> Mapping[Partition, Committed]:
        return self._committed.get(group, {})

    def groups(self) -> list[str]:
        return sorted(self._committed)

    def generation(self, group: str) -> int:
        """The newest generation the group has had: it never goes back, also not by a restart."""
        return self._generations.get(group, 0)

    def declares(self, group: str, topic: str) -> bool:
        return (group, topic) in self._declared

    def keeps(self, place: Partition) -> int | None:
        """The lowest offset that a declared group still needs; None: nobody needs any."""
        needed = [
            committed.offset if committed else 0
            for (group, topic), drop_unread in list(self._declared.items())
            if topic == place.topic and not drop_unread
            for committed in [self.of(group).get(place)]
        ]
        return min(needed, default=None)

    # in the writer thread

    def commit(self, db: apsw.Connection, commits: Sequence[tuple[str, Places]]) -> None:
        """Of any number of groups, in one transaction; the later one of a group counts."""
        with db:
            db.executemany(
                "INSERT OR REPLACE INTO positions VALUES(?, ?, ?, ?, ?)",
                [
                    (group, place.topic, place.number, committed.offset, committed.metadata)
                    for group, places in commits
                    for place, committed in places.items()
                ],
            )
        for group, places in commits:
            self._committed[group] = {**self._committed.get(group, {}), **places}

    def begin(self, db: apsw.Connection, group: str, places: Places) -> None:
        """Commit only where the group has no position yet (rule 10)."""
        known = self.of(group)
        new = {place: start for place, start in places.items() if place not in known}
        if new:
            self.commit(db, [(group, new)])

    def advance(self, db: apsw.Connection, group: str, generation: int) -> None:
        with db:
            db.execute("INSERT OR REPLACE INTO groups VALUES(?, ?)", (group, generation))
        self._generations[group] = generation

    def declare(self, db: apsw.Connection, declared: Sequence[Declared], *, whole: bool) -> None:
        """``whole``: these are all there are; every other group is declared no more."""
        rows = {(d.group, topic): d.drop_unread for d in declared for topic in d.topics}
        with db:
            if whole:
                db.execute("DELETE FROM declared")
            db.executemany(
                "INSERT OR REPLACE INTO declared VALUES(?, ?, ?)",
                [(group, topic, drop) for (group, topic), drop in rows.items()],
            )
        self._declared = rows if whole else {**self._declared, **rows}
