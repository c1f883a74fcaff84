"""What an error of the database means to whoever waits for it. Its text never holds a row."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from app.errors import StoreFull, StoreUnavailable

_MET_ANOTHER = {"40001", "40P01"}  # PostgreSQL: serialization failure, deadlock
_DISK_FULL = "53100"


def said(name: str, error: SQLAlchemyError) -> StoreUnavailable:
    """StoreFull for a full disk, which is a full bound (rule 8)."""
    cause: object = error
    if isinstance(error, DBAPIError):
        cause = " ".join(str(error.orig).split())
    kind = StoreFull if _disk_is_full(error) else StoreUnavailable
    return kind(f"{name}: {cause}")


def met_another(error: SQLAlchemyError) -> bool:
    """Nothing is wrong with it: begun anew, the same transaction succeeds."""
    return _state(error) in _MET_ANOTHER


def will_fail_again(error: SQLAlchemyError) -> bool:
    """The rows themselves are at fault: a bug of ours, and no time will mend it."""
    return isinstance(error, DataError | IntegrityError)


def _disk_is_full(error: SQLAlchemyError) -> bool:
    original = getattr(error, "orig", None)
    code = getattr(original, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_FULL or _state(error) == _DISK_FULL


def _state(error: SQLAlchemyError) -> str | None:
    return getattr(getattr(error, "orig", None), "sqlstate", None)
