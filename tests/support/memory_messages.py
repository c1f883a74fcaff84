"""The tables of parked and pulled messages of the in-memory store (``memory_store``)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from app.delivery.lane_id import has_key
from app.interfaces import (
    DeadLetter,
    Parked,
    ParkedCount,
    ParkedKey,
    PullMessage,
    QueueCount,
    StoredLane,
)
from app.model.message import Partition

if TYPE_CHECKING:
    from memory_store import MemoryStore

Claim = tuple[str, str, Partition]


def claim_of(kept: Any) -> tuple[Claim, int]:
    message = kept.message
    return (kept.subscription, kept.broker, message.partition), message.epoch


def _place(kept: Any) -> tuple[Any, ...]:
    """Return the identity of a row: subscription, broker, partition, position and content.

    The content is part of the identity, because another message may get the same position later.
    """
    message, record = kept.message, kept.message.record
    what = record.key, record.headers, record.body
    return kept.subscription, kept.broker, message.partition, message.position, what


def known(kept: Any, rows: Iterable[Any]) -> bool:
    return any(_place(kept) == _place(row) for row in rows)


class ParkedRows:
    """The table of parked messages."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._ids = count(1)
        self.rows_by_id: dict[int, Parked] = {}

    async def park(self, rows: Sequence[Parked], *, numbered: bool = False) -> None:
        self._store.fail()
        self._store.owners.fence([claim_of(row) for row in rows])
        for row in rows:
            self._add(self._numbered(row) if numbered else row)

    def _numbered(self, row: Parked) -> Parked:
        offset = self._store.owners.number(claim_of(row)[0])
        return replace(row, message=replace(row.message, offset=offset))

    def _add(self, row: Parked) -> None:
        if not known(row, self.rows_by_id.values()):
            kept = replace(row, id=next(self._ids))
            self.rows_by_id[kept.id] = kept

    async def lanes(
        self, subscription: str, broker: str, partitions: Collection[Partition]
    ) -> Mapping[Partition, Mapping[bytes, StoredLane]]:
        found: dict[Partition, dict[bytes, StoredLane]] = {}
        for partition in partitions:
            mine = self._of((subscription, broker, partition))
            lanes = {row.lane: [each for each in mine if each.lane == row.lane] for row in mine}
            if lanes:
                found[partition] = {
                    lane: StoredLane(len(rows), rows[0].due_ms) for lane, rows in lanes.items()
                }
        return found

    def _of(self, claim: Claim) -> list[Parked]:
        """Return the parked rows with one key in one partition (the ``claim``) in the order of
        their offsets. Redriven rows are left out."""
        mine = [
            row
            for row in self.rows_by_id.values()
            if not row.redriven and claim_of(row)[0] == claim
        ]
        return sorted(mine, key=lambda row: row.message.offset)

    async def rows(
        self, *place: Any, after: int, limit: int, epoch: int | None = None
    ) -> list[Parked]:
        subscription, broker, partition, lane = place
        mine = self._of((subscription, broker, partition))
        found = [row for row in mine if row.lane == lane and row.message.offset > after][:limit]
        return found if epoch is None else [_under(row, epoch) for row in found]

    async def redriven(self, *places: Any, limit: int) -> list[Parked]:
        subscription, broker, epochs = places
        given_back = [
            row
            for row in self.rows_by_id.values()
            if row.redriven
            and (row.subscription, row.broker) == (subscription, broker)
            and row.message.partition in epochs
        ]
        leading = [row for row in given_back if not _is_behind(row, given_back)]
        found = sorted(leading, key=lambda row: (row.due_ms, row.id))[:limit]
        return [_under(row, epochs[row.message.partition]) for row in found]

    async def unpark(self, rows: Sequence[Parked]) -> None:
        self._store.fail()
        self._store.owners.fence([claim_of(row) for row in rows])
        self.remove({row.id for row in rows})

    async def defer(self, row: Parked) -> None:
        self._store.fail()
        self._store.owners.fence([claim_of(row)])
        kept = self.rows_by_id.get(row.id)
        if kept is not None:
            self.rows_by_id[row.id] = replace(
                kept,
                steps=row.steps,
                attempts=row.attempts,
                due_ms=row.due_ms,
                cause=row.cause,
                detail=row.detail,
            )

    async def count(self) -> Mapping[str, ParkedCount]:
        self._store.check()
        of: dict[str, list[Parked]] = {}
        for row in self.rows_by_id.values():
            of.setdefault(row.subscription, []).append(row)
        return {
            name: ParkedCount(
                len(rows),
                len({row.lane for row in rows if has_key(row.lane)}),
                sum(not has_key(row.lane) for row in rows),
                min(row.at_ms for row in rows),
                sum(row.redriven for row in rows),
            )
            for name, rows in of.items()
        }

    async def keys(self, subscription: str | None = None, limit: int = 100) -> list[ParkedKey]:
        of: dict[tuple[Any, ...], list[Parked]] = {}
        for row in self.rows_by_id.values():
            if subscription in (None, row.subscription):
                of.setdefault((claim_of(row)[0], row.lane), []).append(row)
        keys = [
            ParkedKey(len(rows), sum(r.redriven for r in rows), _without_body(rows[0]))
            for rows in of.values()
        ]
        return keys[:limit]

    async def find(
        self,
        subscription: str | None = None,
        limit: int = 100,
        after: int = 0,
        event_id: str | None = None,
    ) -> list[Parked]:
        found = [
            row
            for row in self.rows_by_id.values()
            if row.id > after
            and subscription in (None, row.subscription)
            and event_id in (None, row.event.id)
        ]
        return found[:limit]

    def remove(self, ids: Collection[int]) -> None:
        for each in ids:
            self.rows_by_id.pop(each, None)

    def give_back(self, letters: Sequence[DeadLetter], rate: float, now_ms: int) -> None:
        gap = 1000 / rate if rate else 0.0
        ahead: dict[str, float] = {}
        for row in self.rows_by_id.values():
            if rate and row.redriven and row.attempts == 0:
                ahead[row.subscription] = max(ahead.get(row.subscription, 0.0), row.due_ms)
        for letter in letters:
            due = max(ahead.get(letter.subscription, now_ms - gap) + gap, now_ms)
            ahead[letter.subscription] = due
            place = _place(letter)
            rows = self.rows_by_id.values()
            self.remove([row.id for row in rows if row.redriven and _place(row) == place])
            self._add(
                Parked(
                    subscription=letter.subscription,
                    broker=letter.broker,
                    message=letter.message,
                    lane=letter.lane,
                    redriven=True,
                    due_ms=int(due),
                    cause=letter.cause,
                    detail=letter.detail,
                    at_ms=now_ms,
                    event=letter.event,
                    letter=letter.id,
                )
            )


class PulledRows:
    """The table of messages in pull queues."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._ids = count(1)
        self._tokens = (f"token-{number}" for number in count(1))
        self.rows: list[PullMessage] = []

    async def offer(self, rows: Sequence[PullMessage]) -> None:
        self._store.fail()
        self._store.owners.fence([claim_of(row) for row in rows])
        for row in rows:
            if not known(row, self.rows):
                self.rows.append(replace(row, id=next(self._ids)))

    async def receive(
        self,
        subscription: str,
        *,
        most: int,
        most_bytes: int,
        lock_ms: int,
        now_ms: int,
        consumer: str = "",
    ) -> list[PullMessage]:
        mine = [row for row in self.rows if row.subscription == subscription]
        heads = {row.lane: row for row in reversed(mine)}
        free = [row for row in mine if heads[row.lane] is row and row.locked_until_ms <= now_ms]
        ahead = accumulate(map(_size, free), initial=0)
        return [
            self._hand_out(row, now_ms + lock_ms, row.deliveries + 1, consumer)
            for row, before in zip(free[:most], ahead, strict=False)
            if before < most_bytes
        ]

    async def worn_out(
        self, subscription: str, *, most_deliveries: int, now_ms: int
    ) -> list[PullMessage]:
        worn = [
            row
            for row in self.rows
            if row.subscription == subscription
            and row.locked_until_ms <= now_ms
            and row.deliveries >= most_deliveries
        ]
        return [self._hand_out(row, now_ms + 60_000, row.deliveries) for row in worn]

    async def at(
        self, subscription: str, broker: str, partition: Partition, position: str
    ) -> PullMessage | None:
        wanted = subscription, broker, partition, position
        return next((row for row in self.rows if _place(row)[:-1] == wanted), None)

    async def named(self, event_id: str, most: int) -> list[PullMessage]:
        newest = sorted(self.rows, key=lambda row: row.id)[-most:]
        return [row for row in newest if row.event.id == event_id][:100]

    def _hand_out(
        self, row: PullMessage, until_ms: int, deliveries: int, consumer: str = ""
    ) -> PullMessage:
        return self._set(
            row,
            token=next(self._tokens),
            locked_until_ms=until_ms,
            deliveries=deliveries,
            consumer=consumer,
        )

    def _set(self, row: PullMessage, **values: Any) -> PullMessage:
        changed = replace(row, **values)
        self.rows[self.rows.index(row)] = changed
        return changed

    async def locked(
        self, subscription: str, tokens: Sequence[str], now_ms: int
    ) -> list[PullMessage]:
        return list(self._held(subscription, tokens, now_ms).values())

    def _held(
        self, subscription: str | None, tokens: Collection[str], now_ms: int
    ) -> dict[str, PullMessage]:
        return {
            row.token: row
            for row in self.rows
            if row.token
            and row.token in tokens
            and row.locked_until_ms > now_ms
            and subscription in (None, row.subscription)
        }

    async def acknowledge(
        self, subscription: str, tokens: Sequence[str], now_ms: int
    ) -> Mapping[str, bool]:
        return self._each(subscription, tokens, now_ms, self.rows.remove)

    async def release(
        self, subscription: str, tokens: Sequence[str], *, delay_ms: int, now_ms: int
    ) -> Mapping[str, bool]:
        until = now_ms + delay_ms

        def free(row: PullMessage) -> None:
            self._set(row, token="", locked_until_ms=until)

        return self._each(subscription, tokens, now_ms, free)

    async def renew(
        self, subscription: str, tokens: Sequence[str], *, lock_ms: int, now_ms: int
    ) -> Mapping[str, bool]:
        def lock(row: PullMessage) -> None:
            self._set(row, locked_until_ms=now_ms + lock_ms)

        return self._each(subscription, tokens, now_ms, lock)

    def _each(
        self,
        subscription: str,
        tokens: Sequence[str],
        now_ms: int,
        step: Callable[[PullMessage], None],
    ) -> Mapping[str, bool]:
        held = self._held(subscription, tokens, now_ms)
        for row in held.values():
            step(row)
        return {token: token in held for token in tokens}

    async def bury(self, letters: Mapping[str, DeadLetter], now_ms: int) -> Mapping[str, bool]:
        self._store.fail()
        held = self._held(None, letters, now_ms)
        self._store.letters.check_room([letters[token] for token in held])
        for token, row in held.items():
            self._store.letters.write(letters[token])
            self.rows.remove(row)
        return {token: token in held for token in letters}

    async def count(self, subscription: str) -> int:
        return sum(row.subscription == subscription for row in self.rows)

    async def count_all(self) -> Mapping[str, QueueCount]:
        found: dict[str, list[int]] = {}
        for row in self.rows:
            found.setdefault(row.subscription, []).append(row.at_ms)
        return {name: QueueCount(len(times), min(times)) for name, times in found.items()}


def _size(row: PullMessage) -> int:
    record = row.message.record
    return len(record.body or b"") + sum(len(value or b"") for _, value in record.headers)


def _is_behind(row: Parked, rows: Iterable[Parked]) -> bool:
    return any(
        each.lane == row.lane and each.letter < row.letter and each.due_ms > row.due_ms
        for each in rows
    )


def _under(row: Parked, epoch: int) -> Parked:
    return replace(row, message=replace(row.message, epoch=epoch))


def _without_body(row: Parked) -> Parked:
    record = replace(row.message.record, body=None)
    return replace(row, message=replace(row.message, record=record))
