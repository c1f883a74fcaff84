"""The Protobuf messages of package io.cloudevents.v1, described by field number and type without generated code.

The bytes are the same as with the published description. Where the published description would hide a fault,
this description permits more, and the reader checks the values.

- Attributes are repeated entries, which have the same bytes as a map. So a repeated name can be detected.
- Alternatives are optional fields outside a oneof. So two values at once can be detected.
- Integers have 64 bits. So a value beyond 32 bits is detected instead of being cut.
- The events of a batch are bytes. So each event keeps its slice of the batch.

If a field that is not repeated occurs several times, the last value counts, as for all readers of Protobuf.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from app.formats.typed import FormatNotInstalled

_PACKAGE = "io.cloudevents.v1"
_FIELDS = {
    "CloudEvent": (
        "id 1 string", "source 2 string", "spec_version 3 string", "type 4 string",
        "attributes 5 repeated Attribute",
        "binary_data 6 optional bytes", "text_data 7 optional string", "proto_data 8 Any",
    ),
    "Attribute": ("key 1 string", "value 2 AttributeValue"),
    "AttributeValue": (
        "ce_boolean 1 optional bool", "ce_integer 2 optional int64", "ce_string 3 optional string",
        "ce_bytes 4 optional bytes", "ce_uri 5 optional string", "ce_uri_ref 6 optional string",
        "ce_timestamp 7 Timestamp",
    ),
    "Timestamp": ("seconds 1 int64", "nanos 2 int64"),
    "Any": ("type_url 1 string", "value 2 bytes"),
    "CloudEventBatch": ("events 1 repeated bytes",),
}  # fmt: skip


class Messages(NamedTuple):
    """The message classes of the library, and the error that it raises for malformed bytes."""

    event: Any
    batch: Any
    unreadable: type[Exception]


@cache
def messages() -> Messages:
    """Return the message classes, created at first use in a separate descriptor pool. Raises FormatNotInstalled."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message  # noqa: PLC0415
        from google.protobuf.message_factory import GetMessageClass  # noqa: PLC0415
    except ImportError:
        raise FormatNotInstalled("Protobuf") from None
    file = descriptor_pb2.FileDescriptorProto(
        name="cloudevents.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _FIELDS.items():
        _describe(file.message_type.add(name=name), fields)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    event, batch = (
        GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in ("CloudEvent", "CloudEventBatch")
    )
    return Messages(event, batch, message.DecodeError)


def _describe(message: Any, fields: tuple[str, ...]) -> None:
    for text in fields:
        name, number, *label, kind = text.split()
        field = message.field.add(name=name, number=int(number))
        field.label = field.LABEL_REPEATED if label == ["repeated"] else field.LABEL_OPTIONAL
        if kind in _FIELDS:
            field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
        else:
            field.type = getattr(field, f"TYPE_{kind.upper()}")
        if label == ["optional"]:  # proto3 needs a oneof per optional field to record its presence
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
