"""The native way: projections upon each other, each naming what the next ones need, so that Spark works
out every expensive expression once. No Python runs here.

Binary and structured records meet early, as two arrays: names, and texts. From there on one set of
expressions, made from the table of versions, finds the attributes, and judges them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.pipeline.decode import attributes, documents, headers, payload
from app.pipeline.decode.sql import Columns, literal
from app.pipeline.pulsar.options import SCHEME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEPT = ("broker", "topic", "partition", "offset", "record_time", "key")
_SENT = ("value", "headers")

STEPS: tuple[Columns, ...] = (
    headers.LISTED,
    headers.DECLARED,
    headers.CARRIED,
    documents.FOUND,
    documents.NAMED,
    documents.AIMED,
    documents.CUT,
    documents.AFTER,
    documents.SHUT,
    documents.LAST,
    documents.REST,
    documents.FOLLOWED,
    documents.BODY,
    documents.READ,
    attributes.MET,
    attributes.SAID,
    attributes.SAID_NESTED,
    attributes.VERSIONED,
    attributes.KIND,
    {**attributes.PICKED, **documents.BAGGED},
    attributes.BARE,
    {**attributes.OTHERS, **payload.FORMED},
    {**attributes.OWN, **payload.INNER},
    {**attributes.EXTENDED, **payload.CODED},
    payload.TAKEN,
)
"""What each projection adds. Each costs: a row with everything that the later ones need is written anew."""


def decoded(raw: DataFrame, *, kept: tuple[str, ...] = ()) -> DataFrame:
    """DECODED, ``doubt`` and the columns ``kept`` of the record."""
    frame = raw.selectExpr(f"struct({', '.join(_KEPT)}) AS _record", *_SENT)
    for step in STEPS:
        frame = frame.selectExpr(
            "*", *(f"{expression} AS {name}" for name, expression in step.items())
        )
    return frame.selectExpr(
        *(f"_record.{name}" for name in _KEPT),
        "IF(_version IS NULL, NULL, '1.0') AS specversion",
        *attributes.COLUMNS,
        f"{attributes.time('_instant')} AS time",
        f"{attributes.EXTENSIONS} AS extensions",
        f"{attributes.TYPES} AS types",
        "_text AS data",
        "IF(_text IS NULL, _bytes, NULL) AS data_bytes",
        "_form AS data_form",
        "IF(_structured, 'structured', 'binary') AS content_mode",
        "_version AS origin_version",
        f"NOT coalesce({_clear()}, false) AS doubt",
        *kept,
    )


def _clear() -> str:
    read = f"IF(_structured, {documents.CLEAR}, {headers.CLEAR})"
    of_kafka = f"NOT startswith(_record.topic, {literal(SCHEME)})"  # Pulsar's properties have names of their own
    return f"_carried AND {of_kafka} AND ({read}) AND ({attributes.CLEAR}) AND ({payload.CLEAR})"
