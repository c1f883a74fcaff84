"""Filters over rows of decoded events: ``app.filters`` itself, asked once a batch for each combination of values.

The values are those of the attributes that the filters name: a batch has few combinations of them, whatever
its rows. Filters that look into data are asked of every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute

from app.event.value import NO_TYPES, AttributeType, CloudEvent, DataForm
from app.filters.cesql.nodes import Attribute, Data, Exists, ExpressionNode, children
from app.filters.cesql.parser import parse
from app.filters.dialects import compile_filters, written
from app.filters.model import Filter
from app.pipeline.decode.judged import CORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DATA: Final = ("data", "data_bytes", "data_form")
_ALWAYS: Final = frozenset(["specversion"])
"""Asked for where no attribute is named: the same in every row."""


class Named(msgspec.Struct, frozen=True):
    """What filters ask of an event: ``attributes``, by their 1.0 names, and whether they ask for its ``data``."""

    attributes: frozenset[str] = frozenset()
    data: bool = False

    def __or__(self, other: Named) -> Named:
        return Named(self.attributes | other.attributes, self.data or other.data)

    def columns(self) -> tuple[str, ...]:
        """Of decoded rows, those that hold it."""
        core = sorted(map(_column, self.attributes & CORE))
        added = ("extensions", "types") if self.attributes - CORE else ()
        return (*core, *added, *(_DATA if self.data else ()))


def named(filters: Sequence[Filter]) -> Named:
    found = _all(map(_of_filter, filters))
    if found.data:
        return found | Named(frozenset(["datacontenttype"]))
    return found if found.attributes else Named(_ALWAYS)


def where(events: DataFrame, filters: Sequence[Filter]) -> DataFrame:
    """The rows, in their order, whose events pass all filters; an error is a no. They travel to Python and back: let
    them be narrow. ``events`` has at least the columns of ``named(filters)``, and no row with a verdict.
    """

    def batches(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = Wanted(filters)
        for batch in given:
            yield batch.take(wanted.rows(batch))

    return events.mapInArrow(batches, events.schema) if filters else events


class Wanted:
    """Filters, compiled."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._wants = compile_filters(filters)
        found = named(filters)
        self._names = sorted(found.attributes)
        self._typed = [name for name in self._names if name not in CORE]
        self._data = found.data

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        """The numbers of the rows that pass, from the first to the last."""
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
        """What the filters see of it."""
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
    """``time`` is the instant: filters see the text that came."""
    return "time_text" if name == "time" else name


def _of_filter(one: Filter) -> Named:
    dialect, argument = written(one)
    if dialect == "sql":
        return _of_node(parse(argument))
    if one.inner:
        return _all(map(_of_filter, one.inner))
    return Named(frozenset(argument))


def _of_node(node: ExpressionNode) -> Named:
    match node:
        case Attribute() | Exists():
            return Named(frozenset([node.name]))
        case Data():
            return Named(data=True)
    return _all(map(_of_node, children(node)))


def _all(found: Iterable[Named]) -> Named:
    return reduce(Named.__or__, found, Named())
