"""Read what happened to events from the attempts in a store, for reports."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from app.errors import SetupError
from app.store.attempts import LONGEST
from app.store.tables import attempts

LONGEST_ID = LONGEST
"""The number of characters of an event's id that are stored."""
_GIVEN_UP = ("dead-letter", "disable", "expired")
_UNSENT = "unsent"


class EventAttempts(msgspec.Struct, frozen=True):
    """The attempts of one subscription for one event.

    ``id`` is clipped to ``LONGEST_ID`` characters. ``delivered_ms`` is the first success, in ms since the epoch, or
    None. ``given_up`` is True if the event became a dead letter or the subscription was disabled."""

    subscription: str
    source: str
    id: str
    attempts: int
    delivered_ms: int | None
    given_up: bool


Reader = Callable[[int], list[EventAttempts]]
"""A function that returns the attempts since a time in ms since the epoch. It raises SetupError if the store cannot
be read."""


def of_file(path: Path) -> Reader:
    """Return a reader of an SQLite store, which opens the file read-only, also while a service writes."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.NullPool)
    return lambda since_ms: _read(engine, since_ms, str(path), "store.path")


def of_database(dsn: str, timeout: float) -> Reader:
    """Return a reader of a PostgreSQL store."""
    from app.store import postgresql  # noqa: PLC0415 - its client is heavy, and few need it

    engine = postgresql.engine_of(dsn, timeout)
    name = postgresql.name_of(dsn)
    return lambda since_ms: _read(engine, since_ms, name, postgresql.SETTING)


def _read(engine: sa.Engine, since_ms: int, name: str, setting: str) -> list[EventAttempts]:
    try:
        with engine.connect() as connection:
            return [_tried(row) for row in connection.execute(_query(since_ms))]
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise SetupError(
            f"the attempts of the store {name} cannot be read: {' '.join(str(cause).split())}",
            setting=setting,
            cure="check that the store exists and has this release's schema (skybridge store status), or leave deliveries"
            " out: --no-deliveries",
        ) from None
    finally:
        engine.dispose()


def _query(since_ms: int) -> sa.Select[Any]:
    c = attempts.c
    ended = c.started_ms + c.duration_ms
    return (
        sa.select(
            c.subscription,
            c.event_source,
            c.event_id,
            sa.func.sum(sa.case((c.outcome == _UNSENT, 0), else_=1)).label("attempts"),
            sa.func.min(sa.case((c.outcome == "delivered", ended))).label("delivered_ms"),
            sa.func.max(sa.case((c.outcome.in_(_GIVEN_UP), 1), else_=0)).label("given_up"),
        )
        .where(c.started_ms >= since_ms)
        .group_by(c.subscription, c.event_source, c.event_id)
    )


def _tried(row: sa.Row[Any]) -> EventAttempts:
    return EventAttempts(
        subscription=row.subscription,
        source=row.event_source,
        id=row.event_id,
        attempts=row.attempts,
        delivered_ms=None if row.delivered_ms is None else round(row.delivered_ms),
        given_up=bool(row.given_up),
    )
