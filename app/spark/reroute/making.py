"""Run the gateway's own code, ``app.bindings`` and ``app.routing``, over Arrow batches in Spark's
Python workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from app.bindings import kafka
from app.bindings.record import Record
from app.errors import SenderError
from app.model.route import Route
from app.routing.plan import Router
from app.spark.arrow_records import arrays, records
from app.spark.columns import HEADERS, column_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROUTED_COLUMNS: Final = (
    "nth INT, route STRING, broker STRING, topic STRING, key BINARY, value BINARY, "
    f"headers {HEADERS}, reason STRING"
)
"""The columns of a record that a reroute writes.

- ``nth``: The number of the record among the records of its event.
- ``reason``: The code of the cause of a rejection; null for other records. A rejected record is
unchanged; its ``route`` and ``broker`` are null.
"""
BROKEN: Final = "decoder-failed"
"""The reason of a record that a defect of Skybridge rejected. The lake uses the same code."""

LARGEST: Final = 32 << 20
"""The approximate size limit of a batch in bytes. Without it, a route with many targets could
exceed the size limit of an Arrow column."""

_TYPES: Final = {
    "nth": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
_SCHEMA: Final = pa.schema(
    [(name, _TYPES.get(name, pa.string())) for name in column_names(ROUTED_COLUMNS)]
)

RoutedRecord = tuple[str | None, str | None, str, Record, str | None]
"""Route, broker, topic, record and reason, as in ``ROUTED_COLUMNS``."""


def routed(routes: Sequence[Route], raw: DataFrame) -> DataFrame:
    """Return the rows of ``ROUTED_COLUMNS`` for the rows of RAW, in their order: the publications
    of each record, or the rejected record."""

    def batches(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        router = Router(routes)
        for batch in given:
            yield from routed_batches(router, batch)

    return raw.select("topic", "key", "value", "headers").mapInArrow(batches, ROUTED_COLUMNS)


def routed_batches(router: Router, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows: list[tuple[object, ...]] = []
    size = 0
    for topic, record in zip(batch.column("topic").to_pylist(), records(batch), strict=True):
        for nth, each in enumerate(publications(router, topic, record)):
            rows.append(_row(nth, each))
            size += len(each[3].body or b"")
        if size >= LARGEST:
            yield _batch(rows)
            rows, size = [], 0
    yield _batch(rows)


def publications(router: Router, topic: str, record: Record) -> list[RoutedRecord]:
    """Return the publications of a record, whose key counts as the sender's key, or the record with
    the reason of its rejection.

    The function never raises, because a record that causes an error would stop the job for ever.
    """
    try:
        planned = router.plan(kafka.decode(record), record.key)
    except SenderError as error:
        return [(None, None, topic, record, error.code)]
    except Exception:  # noqa: BLE001 - the record would stop the job for ever
        return [(None, None, topic, record, BROKEN)]
    return [(each.route, each.broker, each.topic, each.record, None) for each in planned]


def _row(nth: int, item: RoutedRecord) -> tuple[object, ...]:
    route, broker, topic, record, reason = item
    return nth, route, broker, topic, record.key, record.body, list(record.headers), reason


def _batch(rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(arrays(rows, _SCHEMA), schema=_SCHEMA)
