"""The rows of typed tables, made of a batch of decoded events. Tasks of the archive run this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.errors import Fault
from app.event.media_types import declares_json
from app.event.validate import shorten
from app.event.value import DataForm
from app.pipeline import tables
from app.pipeline.decode.buffers import Numbers
from app.pipeline.kinds import TypedTable
from app.pipeline.typed.fit import UNFIT, fit
from app.pipeline.typed.schema import PREFIX
from app.pipeline.typed.types import arrow_type

ATTRIBUTES: Final = (
    "id", "source", "type", "subject", "datacontenttype", "dataschema", "time", "extensions",
)  # fmt: skip
PLACE: Final = ("broker", "topic", "partition", "offset", "record_time")
COLUMNS: Final = {f"{PREFIX}{name}": name for name in (*ATTRIBUTES, *PLACE)}
"""The columns that a typed table has from ``events``, each with its name there."""

_NEEDED: Final = [*ATTRIBUTES, *PLACE, "data", "data_bytes", "data_form"]
_NO_JSON: Final = pa.scalar("\x00")
_FAULTS: Final = pa.list_(
    pa.struct([(name, pa.string()) for name in ("code", "detail", "at", "rule")])
)


class Typed(NamedTuple):
    """The rows of one typed table, and the records whose data does not fit.

    Attributes:
        rows: The rows, with the columns COLUMNS and those of the data.
        at: The row number in the batch of each of them.
        unfit: The refused records, with the columns of ``quarantine`` but ``seen``.
        unfit_at: The row number in the batch of each of them.
    """

    rows: pa.RecordBatch
    at: Numbers
    unfit: pa.RecordBatch | None
    unfit_at: Numbers


def rows_of(
    table: TypedTable, wanted: pa.Schema, events: pa.RecordBatch, sent: pa.RecordBatch
) -> Typed | None:
    """Return the rows of the valid events of the table's type; None if there are none.

    Args:
        table: The settings of the table.
        wanted: The columns of the table.
        events: A decoded batch.
        sent: The same records as they were received, with ``key``, ``value`` and ``headers``.
    """
    at, own = _of_type(table, events)
    if not len(at):
        return None
    names = [name for name in wanted.names if name not in COLUMNS]
    types = pa.struct([wanted.field(name) for name in names])
    found = fit(_documents(own), table.data, types)
    if found.faults:
        own = own.take(pa.array(found.rows, pa.int64()))
    data = dict(zip(names, found.data.flatten(), strict=True))
    columns = [
        own.column(COLUMNS[field.name]).cast(field.type)
        if field.name in COLUMNS
        else data[field.name]
        for field in wanted
    ]
    refused = np.array(sorted(found.faults), np.int64)
    return Typed(
        pa.RecordBatch.from_arrays(columns, schema=wanted),
        at[found.rows],
        _unfit(table, events, sent, at[refused], found.faults) if len(refused) else None,
        at[refused],
    )


def unfit_rows(table: TypedTable, events: pa.RecordBatch) -> Numbers:
    """Return the row numbers of the valid events of the table's type whose data does not fit."""
    at, own = _of_type(table, events)
    found = fit(_documents(own), table.data, arrow_type(table.data))
    return at[sorted(found.faults)]


def _of_type(table: TypedTable, events: pa.RecordBatch) -> tuple[Numbers, pa.RecordBatch]:
    """Return the row numbers of the events of the table's type, and the columns of these rows."""
    chosen = pc.equal(events.column("type"), table.type).fill_null(False)
    at = np.flatnonzero(chosen.to_numpy(zero_copy_only=False))
    needed = events.select(_NEEDED)
    return at, needed if len(at) == len(events) else needed.take(pa.array(at))


def _documents(events: pa.RecordBatch) -> list[bytes | None]:
    """Return the data of the events that is JSON. Other data, which fits no table, becomes a byte
    that is no JSON."""
    text = events.column("data")
    opaque = pc.equal(events.column("data_form"), DataForm.OPAQUE.value)
    types = events.column("datacontenttype").dictionary_encode()
    declared = pa.array([declares_json(each) for each in types.dictionary.to_pylist()], pa.bool_())
    by_type = declared.take(types.indices).fill_null(declares_json(None))
    json = pc.if_else(opaque, by_type, pc.equal(events.column("data_form"), DataForm.JSON.value))
    if not pc.all(json).as_py():
        text = pc.if_else(pc.or_(json, text.is_null()), text, _NO_JSON)
    binary = events.column("data_bytes").is_valid()
    if binary.true_count:
        text = pc.if_else(binary, _NO_JSON, text)
    documents: list[bytes | None] = text.cast(pa.binary()).to_pylist()
    return documents


def _unfit(
    table: TypedTable,
    events: pa.RecordBatch,
    sent: pa.RecordBatch,
    at: Numbers,
    faults: Mapping[int, Sequence[Fault]],
) -> pa.RecordBatch:
    place = events.select(list(PLACE)).take(pa.array(at))
    record = sent.select(["key", "value", "headers"]).take(pa.array(at))
    found = [faults[n] for n in sorted(faults)]
    details = [
        f"The data does not fit the table {table.table}: {each[0].detail} At {shorten(each[0].at)}."
        for each in found
    ]
    told = [[_shown(fault) for fault in each] for each in found]
    words = [[tables.UNFIT] * len(at), [UNFIT] * len(at), details]
    columns = [*(pa.array(each, pa.string()) for each in words), pa.array(told, _FAULTS)]
    names = [*PLACE, "key", "value", "headers", "verdict", "rule", "detail", "faults"]
    return pa.RecordBatch.from_arrays([*place.columns, *record.columns, *columns], names)


def _shown(fault: Fault) -> dict[str, str]:
    shown: dict[str, str] = {
        name: msgspec.structs.asdict(fault)[name] for name in ("code", "detail", "at", "rule")
    }
    return shown
