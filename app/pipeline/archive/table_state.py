"""The number of files, bytes and snapshots of a table, as its newest snapshot states them."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import msgspec

from app.pipeline import history


class TableState(msgspec.Struct, frozen=True):
    """The state of a table.

    Attributes:
        newest: The id of the newest snapshot; None if there is none.
        added: The rows that were added since another snapshot.
        files: The number of data files.
        octets: The size of the data files in bytes.
        snapshots: The number of snapshots.
    """

    newest: int | None = None
    added: int = 0
    files: int = 0
    octets: int = 0
    snapshots: int = 0


def table_state(loaded: Any, before: TableState | None) -> TableState:
    """Return the state of a loaded table. Rows are counted since the state ``before``; without it,
    none are counted.
    """
    newest = next(history.snapshots_of(loaded), None)
    if newest is None:
        return TableState()
    if before is not None and newest.id == before.newest:
        return msgspec.structs.replace(before, added=0, snapshots=len(loaded.snapshots()))
    since = newest.id if before is None else before.newest
    later = takewhile(lambda each: each.id != since, history.snapshots_of(loaded))
    return TableState(
        newest=newest.id,
        added=sum(each.count("added-records") for each in later if each.operation == "append"),
        files=newest.count("total-data-files"),
        octets=newest.count("total-files-size"),
        snapshots=len(loaded.snapshots()),
    )
