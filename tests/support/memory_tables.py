"""The tables of the in-memory store that do not hold messages.

Attempts, audit, subscriptions, halts, commands, consents, replays and offsets belong to
``memory_store``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.delivery.offsets import decode_runs, encode_runs
from app.errors import StaleOwner, VersionConflict
from app.interfaces import (
    AlertBoard,
    AlertReport,
    Attempt,
    AttemptFilter,
    AuditEntry,
    AuditFilter,
    Command,
    Commit,
    Halt,
    Progress,
    Replay,
    RetryResult,
    StoredSubscription,
    SubscriptionChanges,
    SubscriptionTotals,
)
from app.interfaces.audit import FOLDED_MS
from app.model.message import Partition
from app.store.audit import AuditBounds, clipped

if TYPE_CHECKING:
    from memory_store import MemoryStore


class AlertRows:
    """The reports of processes, and the sender of alerts."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._reports: dict[str, AlertReport] = {}
        self.board = AlertBoard()

    async def report(self, process: str, document: bytes) -> AlertBoard:
        self._store.check()
        before = self._reports.get(process)
        self._reports[process] = AlertReport(process, before.beat + 1 if before else 1, document)
        if self.board.sender == process:
            self.board = replace(self.board, beat=self.board.beat + 1)
        return replace(self.board, reports=tuple(self._reports.values()))

    async def take(self, process: str, board: AlertBoard) -> bool:
        self._store.check()
        if (self.board.sender, self.board.beat) != (board.sender, board.beat):
            return False
        self.board = replace(self.board, sender=process, beat=board.beat + 1)
        return True

    async def save(self, process: str, state: bytes) -> bool:
        self._store.check()
        if self.board.sender != process:
            return False
        self.board = replace(self.board, state=state)
        return True

    async def forget(self, reports: Sequence[AlertReport]) -> None:
        for each in reports:
            found = self._reports.get(each.process)
            if found is not None and found.beat == each.beat:
                del self._reports[each.process]

    async def leave(self, process: str) -> None:
        self._store.check()
        self._reports.pop(process, None)
        if self.board.sender == process:
            self.board = replace(self.board, sender="")


class AttemptRows:
    """The table of attempts."""

    def __init__(self) -> None:
        self.rows: list[Attempt] = []

    async def add(self, attempts: Sequence[Attempt], latest: Sequence[Attempt] = ()) -> None:
        for one in latest:
            place = (one.subscription, one.outcome)
            self.rows = [row for row in self.rows if (row.subscription, row.outcome) != place]
        self.rows += [*attempts, *latest]

    async def find(self, choice: AttemptFilter, limit: int = 100) -> list[Attempt]:
        found = [
            row
            for row in self.rows
            if choice.subscription in (None, row.subscription)
            and (not choice.subscriptions or row.subscription in choice.subscriptions)
            and choice.event_id in (None, row.event.id)
            and choice.event_source in (None, row.event.source)
            and choice.outcome in (None, row.outcome)
        ]
        return found[::-1][:limit]

    async def trim(self, *, before_ms: int, most: int) -> int:
        young = [row for row in self.rows if row.started_ms >= before_ms]
        kept = young[max(0, len(young) - most) :]
        gone, self.rows = len(self.rows) - len(kept), kept
        return gone

    async def forget_exchanges(self, *, since_ms: int, before_ms: int) -> None:
        self.rows = [
            replace(row, exchange=None) if since_ms <= row.started_ms < before_ms else row
            for row in self.rows
        ]


class AuditRows:
    """The table of audit entries, with a bound for each kind."""

    def __init__(self, store: MemoryStore, bounds: AuditBounds) -> None:
        self._store = store
        self._bounds = bounds
        self._ids = count(1)
        self.rows: dict[int, AuditEntry] = {}

    async def add(self, entry: AuditEntry) -> int:
        self._store.check()
        number = next(self._ids)
        folded = self._folded(replace(entry, target=clipped(entry.target)))
        self.rows[number] = replace(folded, id=number)
        of_kind = [key for key, row in self.rows.items() if row.kind == entry.kind]
        for key in of_kind[: max(0, len(of_kind) - self._bounds._asdict()[entry.kind])]:
            del self.rows[key]
        return number

    async def conclude(self, entry: AuditEntry) -> None:
        self._store.check()
        row = self.rows[entry.id]
        done = replace(row, target=entry.target, status=entry.status, detail=entry.detail)
        self.rows[entry.id] = self._folded(done)

    def _folded(self, entry: AuditEntry) -> AuditEntry:
        for row in reversed(self.rows.values()):
            young = row.at_ms > entry.at_ms - FOLDED_MS
            if entry.folds and row.alike == entry.alike and young:
                del self.rows[row.id]
                return replace(entry, at_ms=row.at_ms, count=row.count + 1, last_ms=entry.at_ms)
        return entry

    async def find(
        self, choice: AuditFilter, limit: int = 100, before: int | None = None
    ) -> list[AuditEntry]:
        self._store.check()
        found = [
            row
            for row in reversed(self.rows.values())
            if choice.kind in (None, row.kind)
            and choice.who in (None, row.who)
            and choice.operation in (None, row.operation)
            and choice.target in (None, row.target)
            and (choice.since_ms or 0) <= (row.last_ms or row.at_ms)
            and (choice.until_ms is None or row.at_ms < choice.until_ms)
            and (before is None or row.id < before)
        ]
        return found[:limit]


class SubscriptionRows:
    """The table of subscriptions that the API made."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.rows: dict[str, StoredSubscription] = {}

    async def all(self) -> list[StoredSubscription]:
        return [self.rows[name] for name in sorted(self.rows)]

    async def changes(self, since: int) -> SubscriptionChanges:
        number, rows = await self.revision(), await self.all()
        if number == since:
            return SubscriptionChanges(
                revision=number, changed=[], totals=SubscriptionTotals.of(())
            )
        changed = [row for row in rows if row.version > since or number < since]
        totals = SubscriptionTotals.of(rows)
        return SubscriptionChanges(revision=number, changed=changed, totals=totals)

    async def ids(self) -> frozenset[str]:
        return frozenset(self.rows)

    async def get(self, subscription: str) -> StoredSubscription | None:
        return self.rows.get(subscription)

    async def put(
        self,
        subscription: str,
        document: bytes,
        *,
        expected: int | None,
        now_ms: int,
        owner: str = "",
    ) -> StoredSubscription:
        found = self.rows.get(subscription)
        self._check_version(subscription, expected)
        row = StoredSubscription(
            id=subscription,
            version=self._store.grow(),
            document=document,
            created_ms=now_ms if found is None else found.created_ms,
            updated_ms=now_ms,
            owner=owner if found is None else found.owner,
        )
        self.rows[subscription] = row
        return row

    async def delete(self, subscription: str, *, expected: int | None) -> bool:
        if subscription not in self.rows and not expected:
            return False
        self._check_version(subscription, expected)
        self._store.grow()
        del self.rows[subscription]
        await self.clear(subscription)
        return True

    async def clear(self, subscription: str) -> None:
        if subscription in self.rows:
            return
        store = self._store
        store.halts.rows.pop(subscription, None)
        for rows in (store.commands.rows, store.consents.rows, store.replays.rows):
            for each in [key for key, row in rows.items() if row.subscription == subscription]:
                del rows[each]
        store.pulled.rows = [row for row in store.pulled.rows if row.subscription != subscription]
        parked = store.parked.rows_by_id
        for each in [id_ for id_, row in parked.items() if row.subscription == subscription]:
            del parked[each]

    async def revision(self) -> int:
        self._store.check()
        return self._store.revision

    def _check_version(self, subscription: str, expected: int | None) -> None:
        found = self.rows.get(subscription)
        version = 0 if found is None else found.version
        if expected is not None and expected != version:
            raise VersionConflict(f"{subscription} is at {version}, not {expected}", version)


class HaltRows:
    """The table of paused and disabled subscriptions."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.rows: dict[str, Halt] = {}

    async def all(self) -> Mapping[str, Halt]:
        self._store.check()
        return dict(self.rows)

    async def halt(
        self, subscription: str, kind: Literal["paused", "disabled"], cause: str, now_ms: int
    ) -> None:
        self._store.fail()
        self._store.grow()
        found = self.rows.get(subscription)
        if found is not None and (found.kind, kind) == ("disabled", "paused"):
            return
        since = found.since_ms if found is not None and found.kind == kind else now_ms
        self.rows[subscription] = Halt(kind, cause, since)

    async def allow(self, subscription: str) -> None:
        self._store.grow()
        self.rows.pop(subscription, None)


class CommandRows:
    """The table of commands from the API to the workers."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._ids = count(1)
        self._taken: set[int] = set()
        self.rows: dict[int, Command] = {}

    async def ask(self, command: Command) -> int:
        self._store.grow()
        self.rows = {
            key: row
            for key, row in self.rows.items()
            if row.asked_ms > command.asked_ms - 3_600_000
        }
        kept = replace(command, id=next(self._ids), answer=None)
        self.rows[kept.id] = kept
        return kept.id

    async def take(self, subscriptions: Collection[str], now_ms: int) -> list[Command]:
        taken = [
            row
            for row in self.rows.values()
            if row.subscription in subscriptions
            and row.kind != "retry"
            and row.id not in self._taken
            and row.answer is None
            and row.asked_ms > now_ms - 60_000
        ]
        self._taken.update(row.id for row in taken)
        return taken

    async def retries(self, subscriptions: Collection[str], now_ms: int) -> list[Command]:
        return [
            row
            for row in self.rows.values()
            if row.subscription in subscriptions
            and row.kind == "retry"
            and row.asked_ms > now_ms - 60_000
        ]

    async def add_result(self, command: int, result: RetryResult) -> None:
        given = self.rows[command].answer if command in self.rows else None
        if given is not None:
            result = msgspec.json.decode(given, type=RetryResult).plus(result)
        await self.answer(command, msgspec.json.encode(result))

    async def answer(self, command: int, answer: bytes) -> None:
        if command in self.rows:
            self.rows[command] = replace(self.rows[command], answer=answer)

    async def get(self, command: int) -> Command | None:
        return self.rows.get(command)


class ConsentRow(Struct):
    """An open request for consent, and the answer of the webhook once it came."""

    subscription: str
    until_ms: int
    called: bool = False
    rate: str | None = None


class ConsentRows:
    """The table of handshakes that wait for consent, by the digest of their address."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.rows: dict[bytes, ConsentRow] = {}

    async def open(self, digest: bytes, subscription: str, *, until_ms: int, now_ms: int) -> None:
        self._store.fail()
        self.rows = {key: row for key, row in self.rows.items() if row.until_ms > now_ms}
        self.rows.setdefault(digest, ConsentRow(subscription, until_ms))

    async def call(self, digest: bytes, rate: str | None, now_ms: int) -> bool:
        self._store.fail()
        row = self.rows.get(digest)
        if row is None or row.called or row.until_ms <= now_ms:
            return False
        self._store.grow()
        row.called, row.rate = True, None if rate is None else rate.replace("\0", "�")
        return True

    async def take(self, digests: Collection[bytes]) -> Mapping[bytes, str | None]:
        self._store.fail()
        called = [key for key in digests if key in self.rows and self.rows[key].called]
        return {key: self.rows.pop(key).rate for key in called}

    async def close(self, digest: bytes) -> Mapping[bytes, str | None]:
        self._store.fail()
        row = self.rows.pop(digest, None)
        return {digest: row.rate} if row is not None and row.called else {}


class ReplayRows:
    """The table of replays."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._ids = count(1)
        self.rows: dict[int, Replay] = {}

    async def ask(self, replays: Sequence[Replay]) -> list[int]:
        self._store.grow()
        if {each.subscription for each in replays} & {
            row.subscription for row in self.rows.values()
        }:
            return []
        kept = [replace(each, id=next(self._ids)) for each in replays]
        self.rows.update({each.id: each for each in kept})
        return [each.id for each in kept]

    async def all(self, subscription: str | None = None) -> list[Replay]:
        return [row for row in self.rows.values() if subscription in (None, row.subscription)]

    async def save(self, replay: Replay, epoch: int) -> None:
        claim = (replay.subscription, replay.broker, replay.partition)
        self._store.owners.fence([(claim, epoch)])
        if replay.id in self.rows:
            kept = self.rows[replay.id]
            self.rows[replay.id] = replace(kept, next=replay.next, done=replay.done)

    async def end(self, replay: int) -> None:
        self._store.grow()
        self.rows.pop(replay, None)


class OffsetRows:
    """Committed offsets by broker, group and partition, each with the epoch of its owner."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, Partition], tuple[int, Commit]] = {}

    async def offsets(
        self, broker: str, group: str, partitions: Collection[Partition]
    ) -> Mapping[Partition, Commit]:
        return {
            partition: self.rows[broker, group, partition][1]
            for partition in partitions
            if (broker, group, partition) in self.rows
        }

    async def start_offsets(
        self, broker: str, group: str, commits: Mapping[Partition, Commit]
    ) -> None:
        for partition, commit in commits.items():
            self.rows.setdefault((broker, group, partition), (0, commit))

    async def own_offsets(
        self, broker: str, group: str, epoch: int, partitions: Collection[Partition]
    ) -> Mapping[Partition, Commit]:
        known = await self.offsets(broker, group, partitions)
        for partition, commit in known.items():
            self.rows[broker, group, partition] = (epoch, commit)
        return known

    async def save_offsets(
        self, broker: str, group: str, epoch: int, commits: Mapping[Partition, Commit]
    ) -> None:
        stale = []
        for partition, commit in commits.items():
            if epoch != self.rows.get((broker, group, partition), (epoch, commit))[0]:
                stale.append(partition)
            else:
                self.rows[broker, group, partition] = (epoch, commit)
        if stale:
            raise StaleOwner(f"{group}: {stale} have another owner")


class ProgressRows:
    """Positions in shared groups by group and partition. The floors are rows of ``offsets``."""

    def __init__(self, offsets: OffsetRows) -> None:
        self._offsets = offsets
        self.rows: dict[tuple[str, str, Partition], tuple[str, Progress]] = {}

    async def begin(
        self, broker: str, shared: str, starts: Mapping[str, Mapping[Partition, Commit]]
    ) -> None:
        for group, commits in starts.items():
            for at, commit in commits.items():
                row = shared, Progress(commit.offset, commit.metadata, True)
                self.rows.setdefault((broker, group, at), row)

    async def find(
        self, broker: str, groups: Collection[str]
    ) -> Mapping[str, Mapping[Partition, Progress]]:
        found: dict[str, dict[Partition, Progress]] = {}
        for where, group, at in self.rows:
            if where == broker and group in groups:
                found.setdefault(group, {})[at] = self._effective(where, group, at)
        return found

    async def own(
        self,
        broker: str,
        shared: str,
        epoch: int,
        partitions: Collection[Partition],
        *,
        newest: bool = False,
    ) -> tuple[Mapping[Partition, int], Mapping[Partition, Mapping[str, Progress]]]:
        floors = self._offsets.rows
        for at in partitions:
            known, commit = floors.setdefault((broker, shared, at), (epoch, Commit(0)))
            if newest and known > epoch:
                raise StaleOwner(f"{at} is owned with epoch {known}")
            floors[broker, shared, at] = epoch, commit
        rows = {
            at: {
                group: self._effective(broker, group, at)
                for (where, group, place), (through, _) in self.rows.items()
                if (where, through, place) == (broker, shared, at)
            }
            for at in partitions
        }
        return {at: floors[broker, shared, at][1].offset for at in partitions}, rows

    async def save(
        self,
        broker: str,
        shared: str,
        epoch: int,
        floors: Mapping[Partition, int],
        changed: Mapping[Partition, Mapping[str, Progress]],
    ) -> Collection[tuple[str, Partition]]:
        for at in floors:
            if self._offsets.rows.get((broker, shared, at), (None, None))[0] != epoch:
                raise StaleOwner(f"{at} has another owner")
        for at, floor in floors.items():
            self._offsets.rows[broker, shared, at] = epoch, Commit(floor)
        missing = []
        for at, groups in changed.items():
            for group, each in groups.items():
                if (broker, group, at) in self.rows:
                    self.rows[broker, group, at] = shared, each
                else:
                    missing.append((group, at))
        return missing

    async def remove(self, broker: str, groups: Collection[str]) -> None:
        self.rows = {
            key: row for key, row in self.rows.items() if key[0] != broker or key[1] not in groups
        }

    def _effective(self, broker: str, group: str, at: Partition) -> Progress:
        shared, row = self.rows[broker, group, at]
        _, floor = self._offsets.rows.get((broker, shared, at), (0, Commit(0)))
        if row.apart or row.offset >= floor.offset:
            return row
        runs = [
            (max(first, floor.offset), last)
            for first, last in decode_runs(row.offset, row.finished)
            if last >= floor.offset
        ]
        return Progress(floor.offset, encode_runs(floor.offset, runs))
