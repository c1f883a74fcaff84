"""Subscriptions that the API created, each with the version that its next change must name."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select

from app.errors import VersionConflict
from app.interfaces import StoredSubscription, SubscriptionChanges, SubscriptionTotals
from app.store import revision
from app.store.rows import insert, struct_of, values_of
from app.store.tables import commands, consents, halts, parked, pulled, replays, subscriptions
from app.store.transactions import StorePart, shared_transaction, transaction

_c = subscriptions.c
_ITS_OWN = (halts, commands, consents, replays, parked, pulled)  # deleted with the subscription


class SubscriptionRegistry(StorePart):
    """The stored subscriptions that the API created. Implements ``interfaces.SubscriptionRegistry``.

    A version is the store's revision at its change. So a subscription that is deleted and created again never
    repeats a version."""

    @transaction
    def all(self, connection: Connection) -> list[StoredSubscription]:
        rows = connection.execute(select(subscriptions).order_by(_c.id))
        return [struct_of(StoredSubscription, row) for row in rows]

    @transaction
    def changes(self, connection: Connection, since: int) -> SubscriptionChanges:
        number = revision.read(connection)  # first: each row of a lower version is visible then
        if number == since:
            return SubscriptionChanges(
                revision=number, changed=[], totals=SubscriptionTotals.of(())
            )
        query = select(subscriptions).order_by(_c.id)
        if number > since:
            query = query.where(_c.version > since)
        changed = [struct_of(StoredSubscription, row) for row in connection.execute(query)]
        sums = select(func.count(), func.sum(_c.version), func.sum(_c.updated_ms))
        totals = SubscriptionTotals(*(int(each or 0) for each in connection.execute(sums).one()))
        return SubscriptionChanges(revision=number, changed=changed, totals=totals)

    @transaction
    def ids(self, connection: Connection) -> frozenset[str]:
        return frozenset(connection.scalars(select(_c.id)))

    async def get(self, subscription: str) -> StoredSubscription | None:
        return await self._transactions.run(_get, subscription)

    @shared_transaction
    def put(
        self,
        connection: Connection,
        subscription: str,
        document: bytes,
        *,
        expected: int | None,
        now_ms: int,
        owner: str = "",
    ) -> StoredSubscription:
        version = revision.grow(connection)  # first, because its row lock serialises all changes
        found = _get(connection, subscription)
        _demand(subscription, found, expected)
        row = StoredSubscription(
            id=subscription,
            version=version,
            document=document,
            created_ms=now_ms if found is None else found.created_ms,
            updated_ms=now_ms,
            owner=owner if found is None else found.owner,
        )
        values = values_of(row, subscriptions, id=subscription)
        connection.execute(
            insert(connection, subscriptions)
            .values(values)
            .on_conflict_do_update(index_elements=["id"], set_=values)
        )
        return row

    @transaction
    def delete(self, connection: Connection, subscription: str, *, expected: int | None) -> bool:
        if not expected and _get(connection, subscription) is None:
            return False
        revision.grow(connection)
        found = _get(connection, subscription)
        _demand(subscription, found, expected)
        _clear(connection, subscription)
        connection.execute(delete(subscriptions).where(_c.id == subscription))
        return found is not None

    @transaction
    def clear(self, connection: Connection, subscription: str) -> None:
        revision.grow(connection)  # its row lock prevents a creation meanwhile
        if _get(connection, subscription) is None:
            _clear(connection, subscription)

    async def revision(self) -> int:
        return await self._transactions.run(revision.read)


def _clear(connection: Connection, subscription: str) -> None:
    for table in _ITS_OWN:
        connection.execute(delete(table).where(table.c.subscription == subscription))


def _get(connection: Connection, subscription: str) -> StoredSubscription | None:
    row = connection.execute(select(subscriptions).where(_c.id == subscription)).one_or_none()
    return None if row is None else struct_of(StoredSubscription, row)


def _demand(subscription: str, found: StoredSubscription | None, expected: int | None) -> None:
    version = 0 if found is None else found.version
    if expected is not None and expected != version:
        raise VersionConflict(
            f"subscription {subscription} is at version {version}, not {expected}", version
        )
