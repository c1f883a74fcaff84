"""The schema of the Avro event format, and the library that reads and writes by it.

Its record for JSON values holds itself without end, and the library follows it on the machine's
stack: half a megabyte of brackets would end the process. So the record is written out to a depth.
Names and depth leave no trace in Avro's binary encoding; what is nested more deeply is refused.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import Any

from app.formats.typed import FormatNotInstalled

DEPTH = 64  # records within records

READS = 65_536  # of the stream, one to three a value: bytes of data are one (rule 8)

_NEVER = 2**31 - 1  # bytes: no document has so many, so reading them always fails


class UnreadableAvro(ValueError):
    """The message completes "the document ..."."""

    def __init__(
        self, why: str = f"is no such record, or is nested more than {DEPTH} deep"
    ) -> None:
        super().__init__(why)


class _Exact(BytesIO):
    """A negative length would mean "all that is left" to a stream; on the wire it means nothing.

    ``left``: a value may be one byte, and hundreds in memory, so the number of reads is bounded.
    """

    left = READS

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            raise UnreadableAvro
        self.left -= 1
        if self.left < 0:
            raise UnreadableAvro("has too many values")
        return super().read(size)


def read_record(document: bytes) -> dict[str, Any]:
    """The whole of ``document`` as one record. Raises Unreadable, FormatNotInstalled."""
    schema, library = _schema()
    stream = _Exact(document)
    try:
        record: dict[str, Any] = library.schemaless_reader(stream, schema, None)
    except UnreadableAvro:
        raise
    except Exception:  # noqa: BLE001 - the library raises what it stumbles over, of many classes
        raise UnreadableAvro from None
    if stream.tell() != len(document):
        raise UnreadableAvro
    return record


def write_record(record: dict[str, Any]) -> bytes:
    """Raises FormatNotInstalled. A value of a union is a pair of the branch's name and the value."""
    schema, library = _schema()
    stream = BytesIO()
    library.schemaless_writer(stream, schema, record)
    return stream.getvalue()


@cache
def _schema() -> tuple[Any, Any]:
    try:
        import fastavro  # noqa: PLC0415 - an extra, needed by those who use the format
    except ImportError:
        raise FormatNotInstalled("Avro") from None
    return fastavro.parse_schema(_described()), fastavro


def _described() -> dict[str, Any]:
    """Field by field as published, in the published order: positions in a union are on the wire.

    The attributes are a list of entries, which a map is on the wire: a name that is there twice shows.
    """
    outermost = _value(0)
    members = ["null", "boolean", outermost, "double", "string"]
    data = [
        "bytes", "null", "boolean", _map(members), _array(outermost["name"]), "double", "string",
    ]  # fmt: skip
    attribute = ["null", "boolean", "int", "string", "bytes"]
    pair = [{"name": "name", "type": "string"}, {"name": "value", "type": attribute}]
    entry = {"type": "record", "name": "Attribute", "fields": pair}
    fields = [{"name": "attribute", "type": _array(entry)}, {"name": "data", "type": data}]
    return {"type": "record", "name": "io.cloudevents.CloudEvent", "fields": fields}


def _value(depth: int) -> dict[str, Any]:
    """A JSON object at a depth; in its deepest form it can hold no object and no array."""
    if depth == DEPTH:
        inner = [{"type": "fixed", "name": f"Deeper{kind}", "size": _NEVER} for kind in ("Map", "Array")]  # fmt: skip
    else:
        below = _value(depth + 1)
        inner = [_map(below), _array(below["name"])]
    members = ["null", "boolean", *inner, "double", "string"]
    return {
        "type": "record",
        "name": f"CloudEventData{depth}",
        "fields": [{"name": "value", "type": _map(members)}],
    }


def _map(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}
