"""Filters over rows of decoded events. ``app.filters`` evaluates them once for each combination of
attribute values in a batch, of which even a large batch has few. Only the attributes that the
filters use count. Filters that read the data of an event are evaluated for every row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute

from app.event.value import NO_TYPES, AttributeType, CloudEvent, DataForm
from app.filters.cesql.nodes import Attribute, Data, Exists, children
from app.filters.cesql.parser import parse
from app.filters.dialects import compile_filters, with_inner
from app.filters.model import Filter
from app.pipeline.decode.judged import CORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DATA: Final = ("data", "data_bytes", "data_form")
_ALWAYS: Final = frozenset(["specversion"])
"""The attribute that is read if the filters name no attribute, because its value is the same in
every row."""


class FilterInputs(msgspec.Struct, frozen=True):
    """The parts of an event that a set of filters reads.

    Attributes:
        attributes: The 1.0 names of the attributes.
        data: Whether the filters read the data.
    """

    attributes: frozenset[str]
    data: bool

    def columns(self) -> tuple[str, ...]:
        """Return the columns of the decoded rows that hold these attributes and data."""
        core = sorted(map(_column, self.attributes & CORE))
        added = ("extensions", "types") if self.attributes - CORE else ()
        return (*core, *added, *(_DATA if self.data else ()))


def filter_inputs(filters: Sequence[Filter]) -> FilterInputs:
    """Return the attributes that these filters read, and whether they read data."""
    every = with_inner(filters)
    texts = [named for one in every for named in (one.exact, one.prefix, one.suffix) if named]
    nodes = [parse(one.sql) for one in every if one.sql is not None]
    for node in nodes:
        nodes += children(node)
    names = {node.name for node in nodes if isinstance(node, Attribute | Exists)}.union(*texts)
    data = any(isinstance(node, Data) for node in nodes)
    named = names | {"datacontenttype"} if data else names
    return FilterInputs(frozenset(named or _ALWAYS), data)


def passing_rows(events: DataFrame, filters: Sequence[Filter]) -> DataFrame:
    """Return the rows whose events pass all filters, in their order. A filter that fails rejects
    the event.

    The rows travel to Python and back, so select few columns first.

    Args:
        events: Decoded rows with at least the columns of ``filter_inputs(filters)``, and no row
            with a verdict.
        filters: The filters. Without filters the frame is returned unchanged.
    """

    def batches(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = RowFilter(filters)
        for batch in given:
            yield batch.take(wanted.rows(batch))

    return events.mapInArrow(batches, events.schema) if filters else events


class RowFilter:
    """Compiled filters that select rows of Arrow batches."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._wants = compile_filters(filters)
        found = filter_inputs(filters)
        self._names = sorted(found.attributes)
        self._typed = [name for name in self._names if name not in CORE]
        self._data = found.data

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the numbers of the rows that pass the filters, in ascending order."""
        columns = [_text(batch, name) for name in self._names]
        columns += [_of_map(batch, "types", name) for name in self._typed]
        numbers = pa.array(range(len(batch)), pa.int64())
        if self._data:
            data = [batch.column(name) for name in _DATA]
            return numbers.filter(self._passing([*columns, *data]))
        names = [str(n) for n in range(len(columns))]
        table = pa.Table.from_arrays([*columns, numbers], [*names, "rows"])
        groups = table.group_by(names, use_threads=False).aggregate([("rows", "list")])
        passing = self._passing([groups.column(name) for name in names])
        chosen = groups.column("rows_list").filter(passing).combine_chunks()
        found = pyarrow.compute.list_flatten(chosen)
        return found.take(pyarrow.compute.sort_indices(found))

    def _passing(self, columns: Sequence[pa.Array]) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([self._wants(self._event(row)) for row in rows], pa.bool_())

    def _event(self, row: tuple[Any, ...]) -> CloudEvent:
        """Return the event with the attributes and data that the filters read."""
        texts, rest = row[: len(self._names)], row[len(self._names) :]
        kinds, payload = rest[: len(self._typed)], rest[len(self._typed) :]
        attributes = {
            n: text for n, text in zip(self._names, texts, strict=True) if text is not None
        }
        types = {n: AttributeType(kind) for n, kind in zip(self._typed, kinds, strict=True) if kind}
        if not payload:
            return CloudEvent(attributes, types=types or NO_TYPES)
        text, octets, form = payload
        data = octets if text is None else text.encode()
        return CloudEvent(attributes, data, DataForm(form), types or NO_TYPES)


def _text(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(_column(name)) if name in CORE else _of_map(batch, "extensions", name)


def _of_map(batch: pa.RecordBatch, column: str, name: str) -> pa.Array:
    return pyarrow.compute.map_lookup(batch.column(column), pa.scalar(name), "first")


def _column(name: str) -> str:
    """Return the column that filters read for an attribute. For ``time`` this is the received text
    of the time."""
    return "time_text" if name == "time" else name
