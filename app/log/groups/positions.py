"""Committed positions of groups, and which groups are declared: memory and file together.

Memory is read on the event loop; it changes only when the file has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import apsw
import msgspec

from app.access.quota import SharedLimit, share_of
from app.model.message import Partition


class Committed(msgspec.Struct, frozen=True):
    """The next offset that the group wants, and the text it gave with it."""

    offset: int
    metadata: str = ""


Places = Mapping[Partition, Committed]
Commits = Sequence[tuple[str, Places]]
"""Of groups."""

MOST_GROUPS = 10_000  # that clients of a Kafka listener may create; one user has a share
MOST_HELD = 128 << 20  # bytes of places that clients may commit; one user has a share
PLACE = 512  # bytes of a place without its metadata, about
NOTED = 3_600_000  # milliseconds: when a group was last used need not be noted more exactly


def weight_of(places: Iterable[Committed]) -> int:
    """Return the bytes that places take in memory, about."""
    return sum(
        PLACE + (len(text) if (text := each.metadata).isascii() else len(text.encode()))
        for each in places
    )


def growth(known: Places, places: Places) -> int:
    """Return by how many bytes the known places of a group grow with ``places``."""
    before = [known[place] for place in places if place in known]
    return weight_of(places.values()) - weight_of(before)


class Declared(msgspec.Struct, frozen=True):
    """A group whose unread records retention keeps, unless ``drop_unread``."""

    group: str
    topics: tuple[str, ...]
    drop_unread: bool = False


class Positions:
    """``now_ms``: the wall clock of the log."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._committed: dict[str, dict[Partition, Committed]] = {}
        self._declared: dict[tuple[str, str], bool] = {}
        self._generations: dict[str, int] = {}
        self._floor = 0  # the highest generation of a group that was forgotten with its age
        self._used: dict[str, int] = {}  # time of the last use that was noted
        self._owners: dict[str, str] = {}  # of groups, the user that created each
        self._weights: dict[str, int] = {}  # of the places of each group
        self.held = SharedLimit(MOST_HELD)  # bytes of places, by the owner of their group

    def load(self, db: apsw.Connection) -> None:
        for group, topic, number, offset, metadata in db.execute("SELECT * FROM positions"):
            places = self._committed.setdefault(group, {})
            places[Partition(topic, number)] = Committed(offset, metadata)
        self._owners = dict(db.execute("SELECT name, user FROM owners WHERE kind = 'group'"))
        for group, places in self._committed.items():
            self._keep(group, places)
        for group, topic, drop_unread in db.execute("SELECT * FROM declared"):
            self._declared[group, topic] = bool(drop_unread)
        for group, generation, used_ms in db.execute("SELECT * FROM groups"):
            self._generations[group] = generation
            self._used[group] = used_ms or self._now_ms()  # 0: of a format without it, as is none
        for group in self._committed:  # not older than this start
            self._used.setdefault(group, self._now_ms())
        for (floor,) in db.execute("SELECT value FROM identity WHERE name = 'generation'"):
            self._floor = floor

    def of(self, group: str) -> Mapping[Partition, Committed]:
        return self._committed.get(group, {})

    def started(self, group: str) -> Mapping[Partition, Committed]:
        """Return the positions of a group without those that a Kafka tool reset, to -1 or -2: there the group
        starts as if it had none."""
        return {place: each for place, each in self.of(group).items() if each.offset >= 0}

    def groups(self) -> list[str]:
        return sorted(self._committed)

    @property
    def count(self) -> int:
        """Of groups with positions."""
        return len(self._committed)

    def knows(self, group: str) -> bool:
        """Whether the group has positions, or has had members that are remembered."""
        return group in self._committed or group in self._used

    def owner(self, group: str) -> str:
        """Return the user that created the group; "" where no user of a Kafka listener did."""
        return self._owners.get(group, "")

    def claim(self, group: str, owner: str) -> bool:
        """Make ``owner`` the creator of a group that is new. Return False where it has created as many groups as one
        user may. Groups count until they are forgotten."""
        if not owner or group in self._owners or self.knows(group):
            return True
        if sum(each == owner for each in list(self._owners.values())) >= share_of(MOST_GROUPS):
            return False
        self._owners[group] = owner
        return True

    def generation(self, group: str) -> int:
        """The newest generation the group has had: it never goes back, also not by a restart."""
        return self._generations.get(group, self._floor)

    def declares(self, group: str, topic: str) -> bool:
        return (group, topic) in self._declared

    def declared_of(self, group: str) -> list[str]:
        """The topics that a subscription of Skybridge reads as this group."""
        return [topic for name, topic in list(self._declared) if name == group]

    def readers(self, topic: str) -> list[str]:
        """The groups of subscriptions of Skybridge that read this topic."""
        return [group for group, name in list(self._declared) if name == topic]

    def idle(self, before_ms: int) -> list[str]:
        """Groups that nobody has used since, and no subscription is."""
        declared = {group for group, _ in list(self._declared)}
        return [
            group
            for group, used_ms in list(self._used.items())
            if used_ms < before_ms and group not in declared
        ]

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

    def commit(self, db: apsw.Connection, commits: Commits) -> None:
        """Of any number of groups, in a transaction of their own."""
        with db:
            publish = self.store(db, commits)
        publish()

    def store(self, db: apsw.Connection, commits: Commits) -> Callable[[], None]:
        """In a transaction; the later one of a group counts. Returns what to do once that is committed."""
        db.executemany(
            "INSERT OR REPLACE INTO positions VALUES(?, ?, ?, ?, ?)",
            [
                (group, place.topic, place.number, committed.offset, committed.metadata)
                for group, places in commits
                for place, committed in places.items()
            ],
        )
        noted = self._note(db, {group for group, _ in commits})

        def publish() -> None:
            for group, places in commits:
                known = self._committed.get(group, {})
                grown = growth(known, places)
                self._keep(group, {**known, **places}, self._weights.get(group, 0) + grown)
            self._used.update(noted)

        return publish

    def begin(self, db: apsw.Connection, group: str, places: Places) -> None:
        """Commit only where the group has no position yet (rule 10)."""
        known = self.started(group)
        new = {place: start for place, start in places.items() if place not in known}
        if new:
            self.commit(db, [(group, new)])

    def advance(self, db: apsw.Connection, group: str, generation: int) -> None:
        now = self._now_ms()
        with db:
            db.execute("INSERT OR REPLACE INTO groups VALUES(?, ?, ?)", (group, generation, now))
            self._note_owners(db, [group])
        self._generations[group], self._used[group] = generation, now

    def use(self, db: apsw.Connection, group: str) -> None:
        """It has just been used; when, is kept about."""
        with db:
            noted = self._note(db, {group})
        self._used.update(noted)

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

    def forget(self, db: apsw.Connection, group: str) -> None:
        """Its places, and that it was declared; its generation stays, for epochs never go back."""
        with db:
            db.execute('DELETE FROM positions WHERE "group" = ?', (group,))
            db.execute('DELETE FROM declared WHERE "group" = ?', (group,))
        self._keep(group, {})
        self._declared = {key: drop for key, drop in self._declared.items() if key[0] != group}

    def forget_idle(self, db: apsw.Connection, groups: Sequence[str]) -> None:
        """All of them, with their generations: one of their names begins above every one of these."""
        floor = max([self._floor, *map(self.generation, groups)])
        with db:
            for group in groups:
                db.execute('DELETE FROM positions WHERE "group" = ?', (group,))
                db.execute("DELETE FROM groups WHERE name = ?", (group,))
                db.execute("DELETE FROM owners WHERE kind = 'group' AND name = ?", (group,))
            db.execute("INSERT OR REPLACE INTO identity VALUES('generation', ?)", (floor,))
        self._floor = floor
        for group in groups:
            self._keep(group, {})
            self._owners.pop(group, None)
            self._generations.pop(group, None)
            self._used.pop(group, None)

    def forget_places(self, db: apsw.Connection, group: str, places: Sequence[Partition]) -> None:
        with db:
            db.executemany(
                'DELETE FROM positions WHERE "group" = ? AND topic = ? AND partition = ?',
                [(group, place.topic, place.number) for place in places],
            )
        left = {p: c for p, c in self.of(group).items() if p not in places}
        self._keep(group, left)

    def forget_topic(self, db: apsw.Connection, topic: str) -> Callable[[], None]:
        """In the transaction that deletes it. Returns what to do once that is committed."""
        db.execute("DELETE FROM positions WHERE topic = ?", (topic,))

        def forget() -> None:
            for group, places in list(self._committed.items()):
                if any(place.topic == topic for place in places):
                    self._keep(group, {p: c for p, c in places.items() if p.topic != topic})

        return forget

    def _keep(
        self, group: str, places: dict[Partition, Committed], weight: int | None = None
    ) -> None:
        """Replace the places of a group, and count their bytes: ``weight``, where that is known."""
        if weight is None:
            weight = weight_of(places.values())
        self.held.add(self.owner(group), weight - self._weights.get(group, 0))
        if places:
            self._committed[group], self._weights[group] = places, weight
        else:
            self._committed.pop(group, None)
            self._weights.pop(group, None)

    def _note(self, db: apsw.Connection, groups: set[str]) -> dict[str, int]:
        """When these were used, as far as it is not known well enough."""
        now = self._now_ms()
        due = {group: now for group in groups if now - self._used.get(group, -NOTED) >= NOTED}
        db.executemany(
            "INSERT INTO groups VALUES(?, ?, ?) ON CONFLICT(name) DO UPDATE SET used_ms = ?3",
            [(group, self.generation(group), now) for group in due],
        )
        self._note_owners(db, due)
        return due

    def _note_owners(self, db: apsw.Connection, groups: Iterable[str]) -> None:
        db.executemany(
            "INSERT OR REPLACE INTO owners VALUES('group', ?, ?)",
            [(group, owner) for group in groups if (owner := self.owner(group))],
        )
