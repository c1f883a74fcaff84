"""Subscriptions that the API made, each with the version that its next change must name."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from app.errors import VersionConflict
from app.interfaces import StoredSubscription
from app.store import revision
from app.store.rows import insert, struct_of, values_of
from app.store.tables import commands, consents, halts, parked, pulled, replays, subscriptions
from app.store.transactions import Transactions

_c = subscriptions.c
_ITS_OWN = (halts, commands, consents, replays, parked, pulled)  # go with it


class SubscriptionRegistry:
    """Fills ``interfaces.SubscriptionRegistry``. A version is the revision of its change: one that was
    deleted and made anew bears no version that it had before."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def all(self) -> list[StoredSubscription]:
        return await self._transactions.run(_all)

    async def get(self, subscription: str) -> StoredSubscription | None:
        return await self._transactions.run(_get, subscription)

    async def put(
        self, subscription: str, document: bytes, *, expected: int | None, now_ms: int
    ) -> StoredSubscription:
        return await self._transactions.run(_put, subscription, document, expected, now_ms)

    async def delete(self, subscription: str, *, expected: int | None) -> bool:
        return await self._transactions.run(_delete, subscription, expected)

    async def revision(self) -> int:
        return await self._transactions.run(revision.read)


def _all(connection: Connection) -> list[StoredSubscription]:
    rows = connection.execute(select(subscriptions).order_by(_c.id))
    return [struct_of(StoredSubscription, row) for row in rows]


def _get(connection: Connection, subscription: str) -> StoredSubscription | None:
    row = connection.execute(select(subscriptions).where(_c.id == subscription)).one_or_none()
    return None if row is None else struct_of(StoredSubscription, row)


def _put(
    connection: Connection, subscription: str, document: bytes, expected: int | None, now_ms: int
) -> StoredSubscription:
    version = revision.grow(connection)  # first: its lock puts all changes in a row
    found = _get(connection, subscription)
    _demand(subscription, found, expected)
    row = StoredSubscription(
        id=subscription,
        version=version,
        document=document,
        created_ms=now_ms if found is None else found.created_ms,
        updated_ms=now_ms,
    )
    values = values_of(row, subscriptions, id=subscription)
    connection.execute(
        insert(connection, subscriptions)
        .values(values)
        .on_conflict_do_update(index_elements=["id"], set_=values)
    )
    return row


def _delete(connection: Connection, subscription: str, expected: int | None) -> bool:
    if not expected and _get(connection, subscription) is None:
        return False
    revision.grow(connection)
    found = _get(connection, subscription)
    _demand(subscription, found, expected)
    for table in _ITS_OWN:
        connection.execute(delete(table).where(table.c.subscription == subscription))
    connection.execute(delete(subscriptions).where(_c.id == subscription))
    return found is not None


def _demand(subscription: str, found: StoredSubscription | None, expected: int | None) -> None:
    version = 0 if found is None else found.version
    if expected is not None and expected != version:
        raise VersionConflict(
            f"subscription {subscription} is at version {version}, not {expected}", version
        )
