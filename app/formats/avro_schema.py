"""The schema of the Avro event format, and the library that reads and writes with it.

The schema's record for JSON values is recursive, and the library follows it on the machine's stack. Half a
megabyte of brackets would overflow the stack and crash the process. So in this schema the record is not
recursive, but repeated to a fixed depth. Documents stay compatible, because record names and depth are not
part of Avro's binary encoding. A document with deeper nesting is refused.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import Any

from app.formats.typed import FormatNotInstalled

DEPTH = 64  # records within records

READS = 65_536  # the most reads of the stream, one to three per value; bytes of data are one

_NEVER = 2**31 - 1  # bytes: no document is so long, so reading them always fails


class UnreadableAvro(ValueError):
    """The error for a document that is not an Avro event. The message completes the sentence "the document
    ..."."""

    def __init__(
        self, why: str = f"is no such record, or is nested more than {DEPTH} deep"
    ) -> None:
        super().__init__(why)


class _BoundedStream(BytesIO):
    """A stream that refuses negative lengths and limits the number of reads.

    For ``BytesIO``, a negative length means "read all". ``left`` limits the reads, because a value of one
    byte in the document may take hundreds of bytes in memory.
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
    """Return the whole document as one record. Raises UnreadableAvro or FormatNotInstalled."""
    schema, library = _schema()
    stream = _BoundedStream(document)
    try:
        record: dict[str, Any] = library.schemaless_reader(stream, schema, None)
    except UnreadableAvro:
        raise
    except Exception:  # noqa: BLE001 - the library raises many classes of errors
        raise UnreadableAvro from None
    if stream.tell() != len(document):
        raise UnreadableAvro
    return record


def write_record(record: dict[str, Any]) -> bytes:
    """Return the record in Avro. A value of a union is a pair of branch name and value. Raises FormatNotInstalled."""
    schema, library = _schema()
    stream = BytesIO()
    library.schemaless_writer(stream, schema, record)
    return stream.getvalue()


@cache
def _schema() -> tuple[Any, Any]:
    try:
        import fastavro  # noqa: PLC0415 - an extra, which only users of this format install
    except ImportError:
        raise FormatNotInstalled("Avro") from None
    return fastavro.parse_schema(_described()), fastavro


def _described() -> dict[str, Any]:
    """Return the published schema. Fields and union branches have the published order, because their order
    determines the bytes.

    The attributes are declared as an array of entries instead of a map. Both have the same bytes, but in an
    array a repeated name can be detected.
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
    """Return the schema of a JSON object at a depth. At the greatest depth, the object cannot contain objects
    or arrays."""
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
