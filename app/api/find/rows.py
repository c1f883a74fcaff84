"""Read what the store and the memory of this process know about an event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from app.api.asked.subscriptions import Subscriptions
from app.api.deliveries import views
from app.api.find.records import FoundRecord, SearchReport, WantedEvent, event_in
from app.api.http.parameters import read_page
from app.api.http.slices import ROW, Slices
from app.errors import StoreUnavailable
from app.interfaces import (
    Attempt,
    AttemptFilter,
    DeadLetter,
    DeadLetterFilter,
    Parked,
    PullMessage,
    Store,
    WaitingEvent,
)
from app.model.pull import Pull

T = TypeVar("T")

MOST = 1_000  # the most rows of a table
REMEMBERED = 10_000  # attempts that are read from the memory of this process
WALKED = 100_000  # rows of the pull queues that are read, because they have no index by event


class FoundEventRows(msgspec.Struct):
    """Rows of the store and of memory with one event id. Attempts are sorted, the oldest first."""

    attempts: Sequence[Attempt] = ()
    letters: Sequence[DeadLetter] = ()
    parked: Sequence[Parked] = ()
    offered: Sequence[PullMessage] = ()
    waiting: Sequence[WaitingEvent] = ()

    async def by_source(self, slices: Slices) -> Mapping[str, FoundEventRows]:
        """Return the rows of each source."""
        return await _grouped(self.tables(), attrgetter("event.source"), slices)

    async def by_subscription(self, slices: Slices) -> Mapping[str, FoundEventRows]:
        """Return the rows of each subscription."""
        return await _grouped(self.tables(), lambda each: str(each.subscription), slices)

    def tables(self) -> tuple[Sequence[Any], ...]:
        """Return the rows of each kind."""
        return self.attempts, self.letters, self.parked, self.offered, self.waiting

    @property
    def stored(self) -> bool:
        """Return True if the store has a row for the event, or an attempt to deliver it is known."""
        return any((self.attempts, self.letters, self.parked, self.offered))

    def with_record(self) -> list[DeadLetter | Parked | PullMessage]:
        """Return the rows that contain the record itself."""
        return [*self.letters, *self.parked, *self.offered]


async def _grouped(
    tables: Sequence[Sequence[Any]], of: Callable[[Any], str], slices: Slices
) -> Mapping[str, FoundEventRows]:
    """Return the rows by the name that ``of`` returns for each, in one pass."""
    found: dict[str, tuple[list[Any], ...]] = {}
    for number, table in enumerate(tables):
        for row in table:
            name = of(row)
            if name not in found:
                found[name] = tuple([] for _ in tables)
            found[name][number].append(row)
            await slices.spend(1)
    return {name: FoundEventRows(*each) for name, each in found.items()}


async def rows_of(
    store: Store, subscriptions: Subscriptions, wanted: WantedEvent, now_ms: int, slices: Slices
) -> tuple[FoundEventRows, list[SearchReport]]:
    """Return all rows of an event, and a report for each table. If a table does not answer, its report has
    the cause."""
    looked = list[SearchReport]()
    since = wanted.since_ms or 0
    remembered = [
        each
        for each in await slices.each(subscriptions.attempts(None, REMEMBERED))
        if each.event.id == wanted.id and wanted.source in (None, each.event.source)
    ]
    rows = FoundEventRows(remembered, waiting=subscriptions.waiting(None, wanted.id))

    async def ask(table: str, asked: Awaitable[tuple[list[T], bool]]) -> list[T]:
        try:
            found, more = await asked
        except StoreUnavailable as error:
            looked.append(_report(f"store {table}", wanted, None, str(error)))
            return []
        why = (
            f"there are more than {len(found)} rows. Cure: name the source of the event"
            if more
            else ""
        )
        looked.append(_report(f"store {table}", wanted, now_ms, why))
        return found

    choice = AttemptFilter(event_id=wanted.id, event_source=wanted.source)
    letters = DeadLetterFilter(event_id=wanted.id, source=wanted.source)
    stored = await ask("attempts", _with_more(store.attempts.find(choice, MOST)))
    merged = await views.merge_attempts(stored, remembered, slices)
    rows.attempts = [each for each in reversed(merged) if each.started_ms >= since]

    async def of_letters(limit: int, before: int | None) -> list[DeadLetter]:
        return await store.letters.find(letters, limit, before)

    async def of_parked(limit: int, after: int | None) -> list[Parked]:
        return await store.parked.find(limit=limit, after=after or 0, event_id=wanted.id)

    rows.letters = await ask("dead_letters", read_page(of_letters, MOST, None))
    rows.parked = await ask("parked", read_page(of_parked, MOST, None))
    if any(isinstance(each.sink, Pull) for each in await subscriptions.declared()):
        rows.offered = await ask("pulled", _with_more(store.pulled.named(wanted.id, WALKED)))
    return rows, looked


async def _with_more(asked: Awaitable[list[T]]) -> tuple[list[T], bool]:
    """Return the rows, and True if the table may have more than the query returned."""
    found = await asked
    return found, len(found) >= MOST


def _report(where: str, wanted: WantedEvent, until: int | None, why: str) -> SearchReport:
    """Return the report of searching one table."""
    return SearchReport(
        where=where, start_ms=wanted.since_ms, until_ms=until, complete=not why, detail=why
    )


def unread_tables(looked: Sequence[SearchReport]) -> list[str]:
    """Return the tables that may have rows which decide a fate and were not read. Of the attempts, only the
    oldest are left out if there are too many."""
    return [
        each.where
        for each in looked
        if each.until_ms is None or not (each.complete or each.where == "store attempts")
    ]


async def offered_at(store: Store, subscription: str, sighting: FoundRecord) -> PullMessage | None:
    """Return the row of a record in a pull queue, or None. The search is fast, because the table has an index
    by partition and position. Raise StoreUnavailable."""
    message = sighting.message
    return await store.pulled.at(subscription, sighting.broker, message.partition, message.position)


async def records_in_rows(
    kinds: Mapping[str, str], rows: FoundEventRows, wanted: WantedEvent, slices: Slices
) -> list[FoundRecord]:
    """Return the records that the rows contain."""
    found = []
    for row in rows.with_record():
        await slices.spend(ROW + (len(row.message.record.body or b"") >> 10))
        decoded = event_in(kinds, row.broker, row.message)
        if decoded is not None and wanted.matches(decoded):
            found.append(FoundRecord(row.broker, row.message, decoded))
    return found
