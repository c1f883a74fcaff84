"""The committed positions of groups and the declared groups, in memory and in the file.

The event loop reads the memory, which changes only after the file has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import apsw
import msgspec

from app.access.quota import SharedLimit, share_of
from app.model.message import Partition


class CommittedOffset(msgspec.Struct, frozen=True):
    """The committed position of a group in one partition: the next offset to read, and the metadata of the commit."""

    offset: int
    metadata: str = ""


Places = Mapping[Partition, CommittedOffset]
Commits = Sequence[tuple[str, Places]]
"""Groups with the positions that they commit."""

MOST_GROUPS = 10_000  # groups that clients of a Kafka listener may create; each user has a share
MOST_HELD = 128 << 20  # bytes of positions that clients may commit; each user has a share
PLACE = 512  # approximate bytes of a position without its metadata
NOTED = 3_600_000  # ms between updates of the time of a group's last use


def weight_of(places: Iterable[CommittedOffset]) -> int:
    """Return the approximate bytes that positions take in memory."""
    return sum(
        PLACE + (len(text) if (text := each.metadata).isascii() else len(text.encode()))
        for each in places
    )


def growth(known: Places, places: Places) -> int:
    """Return by how many bytes the stored positions (``known``) of a group grow if ``places`` are added."""
    before = [known[place] for place in places if place in known]
    return weight_of(places.values()) - weight_of(before)


class DeclaredGroup(msgspec.Struct, frozen=True):
    """A group of a subscription, whose unread records retention keeps unless ``drop_unread`` is True."""

    group: str
    topics: tuple[str, ...]
    drop_unread: bool = False


class GroupPositions:
    """The positions, generations, declarations and creators of all groups of a log."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._committed: dict[str, dict[Partition, CommittedOffset]] = {}
        self._declared: dict[tuple[str, str], bool] = {}
        self._generations: dict[str, int] = {}
        self._floor = 0  # the highest generation of a dropped group
        self._used: dict[str, int] = {}  # stored time of the last use, in ms
        self._owners: dict[str, str] = {}  # the user that created each group
        self._weights: dict[str, int] = {}  # bytes of the positions of each group
        self.held = SharedLimit(MOST_HELD)  # bytes of positions, by the user that created the group

    def load(self, db: apsw.Connection) -> None:
        for group, topic, number, offset, metadata in db.execute("SELECT * FROM positions"):
            places = self._committed.setdefault(group, {})
            places[Partition(topic, number)] = CommittedOffset(offset, metadata)
        self._owners = dict(db.execute("SELECT name, user FROM owners WHERE kind = 'group'"))
        for group, places in self._committed.items():
            self._keep(group, places)
        for group, topic, drop_unread in db.execute("SELECT * FROM declared"):
            self._declared[group, topic] = bool(drop_unread)
        for group, generation, used_ms in db.execute("SELECT * FROM groups"):
            self._generations[group] = generation
            self._used[group] = used_ms or self._now_ms()  # 0 was written by a format without it
        for group in self._committed:  # a group without a stored time counts as used now
            self._used.setdefault(group, self._now_ms())
        for (floor,) in db.execute("SELECT value FROM identity WHERE name = 'generation'"):
            self._floor = floor

    def of(self, group: str) -> Mapping[Partition, CommittedOffset]:
        """Return the positions of a group."""
        return self._committed.get(group, {})

    def started(self, group: str) -> Mapping[Partition, CommittedOffset]:
        """Return the positions of a group without those that a Kafka tool reset to -1 or -2, which count as
        missing."""
        return {place: each for place, each in self.of(group).items() if each.offset >= 0}

    def groups(self) -> list[str]:
        """Return the names of the groups with positions."""
        return sorted(self._committed)

    @property
    def count(self) -> int:
        """Return the number of groups with positions."""
        return len(self._committed)

    def knows(self, group: str) -> bool:
        """Return True if the group has positions now, or if the log remembers an earlier use of the group."""
        return group in self._committed or group in self._used

    def owner(self, group: str) -> str:
        """Return the user of a Kafka listener that created the group, or ""."""
        return self._owners.get(group, "")

    def claim(self, group: str, owner: str) -> bool:
        """Make ``owner`` the creator of a new group. Return False if the user has created as many groups as
        allowed.

        Groups count until they are dropped."""
        if not owner or group in self._owners or self.knows(group):
            return True
        if sum(each == owner for each in list(self._owners.values())) >= share_of(MOST_GROUPS):
            return False
        self._owners[group] = owner
        return True

    def generation(self, group: str) -> int:
        """Return the newest generation that the group has had. It never goes back, not even by a restart."""
        return self._generations.get(group, self._floor)

    def declares(self, group: str, topic: str) -> bool:
        """Return True if a subscription reads the topic as this group."""
        return (group, topic) in self._declared

    def declared_of(self, group: str) -> list[str]:
        """Return the topics that a subscription reads as this group."""
        return [topic for name, topic in list(self._declared) if name == group]

    def readers(self, topic: str) -> list[str]:
        """Return the groups of subscriptions that read this topic."""
        return [group for group, name in list(self._declared) if name == topic]

    def idle(self, before_ms: int) -> list[str]:
        """Return the groups that have not been used since ``before_ms`` and belong to no subscription."""
        declared = {group for group, _ in list(self._declared)}
        return [
            group
            for group, used_ms in list(self._used.items())
            if used_ms < before_ms and group not in declared
        ]

    def keeps(self, place: Partition) -> int | None:
        """Return the lowest offset that a declared group still needs, or None."""
        needed = [
            committed.offset if committed else 0
            for (group, topic), drop_unread in list(self._declared.items())
            if topic == place.topic and not drop_unread
            for committed in [self.of(group).get(place)]
        ]
        return min(needed, default=None)

    # in the writer thread

    def commit(self, db: apsw.Connection, commits: Commits) -> None:
        """Commit positions of any number of groups, in a transaction of their own."""
        with db:
            publish = self.store(db, commits)
        publish()

    def store(self, db: apsw.Connection, commits: Commits) -> Callable[[], None]:
        """Write positions in the current transaction. If a group commits twice, its later positions count. Return
        the function to call after the commit."""
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
        """Commit start positions of partitions for which the group has no position yet."""
        known = self.started(group)
        new = {place: start for place, start in places.items() if place not in known}
        if new:
            self.commit(db, [(group, new)])

    def advance(self, db: apsw.Connection, group: str, generation: int) -> None:
        """Store a new generation of a group."""
        now = self._now_ms()
        with db:
            db.execute("INSERT OR REPLACE INTO groups VALUES(?, ?, ?)", (group, generation, now))
            self._note_owners(db, [group])
        self._generations[group], self._used[group] = generation, now

    def use(self, db: apsw.Connection, group: str) -> None:
        """Store that the group was just used, at most once an hour."""
        with db:
            noted = self._note(db, {group})
        self._used.update(noted)

    def declare(
        self, db: apsw.Connection, declared: Sequence[DeclaredGroup], *, whole: bool
    ) -> None:
        """Store declarations. ``whole`` is True if all other declarations are removed."""
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
        """Delete the positions and declarations of a group. Its generation stays, because generations never go
        back."""
        with db:
            db.execute('DELETE FROM positions WHERE "group" = ?', (group,))
            db.execute('DELETE FROM declared WHERE "group" = ?', (group,))
        self._keep(group, {})
        self._declared = {key: drop for key, drop in self._declared.items() if key[0] != group}

    def forget_idle(self, db: apsw.Connection, groups: Sequence[str]) -> None:
        """Delete these groups with their generations. Later groups of their names start above all of these
        generations."""
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
        """Delete the positions in a topic in the current transaction. Return the function to call after the commit."""
        db.execute("DELETE FROM positions WHERE topic = ?", (topic,))

        def forget() -> None:
            for group, places in list(self._committed.items()):
                if any(place.topic == topic for place in places):
                    self._keep(group, {p: c for p, c in places.items() if p.topic != topic})

        return forget

    def _keep(
        self, group: str, places: dict[Partition, CommittedOffset], weight: int | None = None
    ) -> None:
        """Replace the positions of a group in memory and count their bytes (``weight``, if known)."""
        if weight is None:
            weight = weight_of(places.values())
        self.held.add(self.owner(group), weight - self._weights.get(group, 0))
        if places:
            self._committed[group], self._weights[group] = places, weight
        else:
            self._committed.pop(group, None)
            self._weights.pop(group, None)

    def _note(self, db: apsw.Connection, groups: set[str]) -> dict[str, int]:
        """Store that these groups were used now, unless the stored time is at most an hour old. Return the new
        times."""
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
