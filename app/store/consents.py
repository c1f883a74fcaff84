"""Callback addresses at which webhooks may consent later (webhook specification 4), and their answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import ColumnElement, Connection, delete, select, update

from app.store import revision
from app.store.rows import insert, text
from app.store.tables import consents
from app.store.transactions import StorePart, transaction

_c = consents.c
_CALLED = _c.called_ms.is_not(None)


class Consents(StorePart):
    """The stored callback addresses for webhook consent. Implements ``interfaces.Consents``."""

    @transaction
    def open(
        self,
        connection: Connection,
        digest: bytes,
        subscription: str,
        *,
        until_ms: int,
        now_ms: int,
    ) -> None:
        connection.execute(delete(consents).where(_c.until_ms <= now_ms))
        row = {"digest": digest, "subscription": subscription, "until_ms": until_ms}
        connection.execute(insert(connection, consents).values(row).on_conflict_do_nothing())

    @transaction
    def call(self, connection: Connection, digest: bytes, rate: str | None, now_ms: int) -> bool:
        """Store the consent, and return True if the address is open.

        Anyone may try addresses, so an unknown address costs only a search in the index."""
        here = (_c.digest == digest) & _c.called_ms.is_(None) & (_c.until_ms > now_ms)
        if connection.execute(select(_c.digest).where(here)).first() is None:
            return False
        revision.grow(connection)  # lets the waiting subscription look for the consent
        called = (
            update(consents)
            .where(here)
            .values(called_ms=now_ms, rate=None if rate is None else text(rate))
        )
        return connection.execute(called.returning(_c.digest)).first() is not None

    async def take(self, digests: Collection[bytes]) -> Mapping[bytes, str | None]:
        return await self._transactions.run(_end, _c.digest.in_(digests) & _CALLED)

    async def close(self, digest: bytes) -> Mapping[bytes, str | None]:
        return await self._transactions.run(_end, _c.digest == digest)


def _end(connection: Connection, which: ColumnElement[bool]) -> dict[bytes, str | None]:
    ended = delete(consents).where(which).returning(_c.digest, _c.called_ms, _c.rate)
    return {row.digest: row.rate for row in connection.execute(ended) if row.called_ms is not None}
