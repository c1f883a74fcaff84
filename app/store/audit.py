"""The audit entries: who changed or looked at what by the admin listener, when, and with which outcome."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from app.interfaces import AuditEntry, AuditFilter
from app.interfaces.audit import FOLDED_MS
from app.store.rows import struct_of, text, values_of
from app.store.tables import audit
from app.store.transactions import StorePart, Transactions, shared_transaction, transaction

STRIDE = (
    100  # rows by which a bound may be exceeded: surplus rows are deleted at every hundredth id
)
LONGEST = 500  # characters of a text

_c = audit.c


class AuditBounds(NamedTuple):
    """The maximum number of rows of each kind."""

    change: int = 100_000
    login: int = 10_000
    look: int = 100_000
    refusal: int = 10_000


class Audit(StorePart):
    """The stored audit entries. Implements ``interfaces.AuditTrail``. A repeated write stores its entry twice."""

    def __init__(self, transactions: Transactions, bounds: AuditBounds) -> None:
        super().__init__(transactions)
        self._bounds = bounds

    @shared_transaction
    def add(self, connection: Connection, entry: AuditEntry) -> int:
        texts = {name: clipped(getattr(entry, name)) for name in ("who", "address", "operation")}
        row = values_of(entry, audit, **texts) | _outcome(entry) | _folded(connection, entry)
        number: int = connection.execute(insert(audit).values(row).returning(_c.id)).scalar_one()
        if number % STRIDE == 0:
            for kind, most in self._bounds._asdict().items():
                _trim(connection, kind, most)
        return number

    @shared_transaction
    def conclude(self, connection: Connection, entry: AuditEntry) -> None:
        values = _outcome(entry) | _folded(connection, entry)
        connection.execute(update(audit).where(_c.id == entry.id).values(values))

    @transaction
    def find(
        self,
        connection: Connection,
        choice: AuditFilter,
        limit: int = 100,
        before: int | None = None,
    ) -> list[AuditEntry]:
        query = select(audit).where(*_chosen(choice)).order_by(_c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(_c.id < before)
        return [struct_of(AuditEntry, row) for row in connection.execute(query)]


def _trim(connection: Connection, kind: str, most: int) -> None:
    of_kind = _c.kind == kind
    surplus = select(_c.id).where(of_kind).order_by(_c.id.desc()).offset(most).limit(1)
    first = connection.scalar(surplus)
    if first is not None:
        connection.execute(delete(audit).where(of_kind, _c.id <= first))


def _folded(connection: Connection, entry: AuditEntry) -> dict[str, Any]:
    """Delete the newest equal entry, and return the columns that continue it with a higher count.

    On PostgreSQL another process may have deleted it first. Then there are two entries, and each use is still
    counted once."""
    if not entry.folds:
        return {}
    mark = hashlib.sha256(repr(entry.alike).encode("utf-8", "surrogatepass")).hexdigest()
    newest = (
        select(_c.id)
        .where(_c.alike == mark, _c.at_ms > entry.at_ms - FOLDED_MS)
        .order_by(_c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    gone = delete(audit).where(_c.id == newest).returning(_c.at_ms, _c["count"])
    before = connection.execute(gone).first()
    if before is None:
        return {"alike": mark}
    at_ms, count = before
    return {"alike": mark, "at_ms": at_ms, "count": count + 1, "last_ms": entry.at_ms}


def _outcome(entry: AuditEntry) -> dict[str, Any]:
    return {
        "target": clipped(entry.target),
        "status": entry.status,
        "detail": clipped(entry.detail),
    }


def clipped(outside: str) -> str:
    """Return text of a request as the audit stores it, clipped to 500 characters."""
    return text(outside)[:LONGEST]


def _chosen(choice: AuditFilter) -> Iterator[ColumnElement[bool]]:
    for name in ("kind", "who", "operation", "target"):
        wanted = getattr(choice, name)
        if wanted is not None:
            yield _c[name] == wanted
    if choice.since_ms is not None:
        yield func.coalesce(_c.last_ms, _c.at_ms) >= choice.since_ms
    if choice.until_ms is not None:
        yield _c.at_ms < choice.until_ms
