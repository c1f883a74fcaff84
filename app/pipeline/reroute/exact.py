"""The exact way: ``app.bindings`` and ``app.routing`` themselves, over Arrow batches in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from app.bindings import kafka
from app.bindings.record import Record
from app.errors import SenderError
from app.model.route import Route
from app.pipeline.decode.exact import arrays, records
from app.pipeline.reroute.native import MADE
from app.routing.plan import Router

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_SCHEMA = pa.schema(
    [
        ("origin", pa.string()),
        ("source_partition", pa.int32()),
        ("source_offset", pa.int64()),
        ("nth", pa.int32()),
        ("route", pa.string()),
        ("broker", pa.string()),
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(_HEADER)),
        ("reason", pa.string()),
    ]
)


class Made(NamedTuple):
    """A record to write; see ``native.MADE``."""

    route: str | None
    broker: str | None
    topic: str
    record: Record
    reason: str | None = None


def made(routes: Sequence[Route], raw: DataFrame) -> DataFrame:
    """RAW to MADE: of each record what the gateway publishes of it, or the record and why it does not."""

    def batches(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        router = Router(routes)
        for batch in given:
            yield made_batch(router, batch)

    return raw.mapInArrow(batches, MADE)


def made_batch(router: Router, batch: pa.RecordBatch) -> pa.RecordBatch:
    places = [batch.column(name).to_pylist() for name in ("topic", "partition", "offset")]
    rows = [
        (*place, nth, *_columns(each))
        for *place, record in zip(*places, records(batch), strict=True)
        for nth, each in enumerate(publications(router, place[0], record))
    ]
    return pa.RecordBatch.from_arrays(arrays(rows, _SCHEMA), schema=_SCHEMA)


def publications(router: Router, topic: str, record: Record) -> list[Made]:
    """What the gateway's own code makes of a record whose key is the sender's."""
    try:
        planned = router.plan(kafka.decode(record), record.key)
    except SenderError as error:
        return [Made(None, None, topic, record, error.code)]
    # a log that waits for fewer replicas is named for its broker (``log_name``)
    return [
        Made(each.route, each.broker.partition("#")[0], each.topic, each.record) for each in planned
    ]


def _columns(made: Made) -> tuple[object, ...]:
    record = made.record
    headers = [{"key": name, "value": value} for name, value in record.headers]
    return made.route, made.broker, made.topic, record.key, record.body, headers, made.reason
