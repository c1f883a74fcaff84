"""Events and bytes for the formats with typed attributes, and the events that decoding must return."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from app.errors import SenderError
from app.event.value import AttributeType, CloudEvent, DataForm

ALL_TYPES = CloudEvent(
    {
        "specversion": "1.0",
        "id": "1",
        "source": "#fragment",
        "type": "t",
        "time": "2026-11-20T10:00:00.5Z",
        "subject": "grün",
        "dataschema": "urn:schema:1",
        "datacontenttype": "application/octet-stream",
        "flag": "false",
        "number": "-2147483648",
        "blob": "/+8=",
    },
    b"\xff\x00",
    DataForm.OPAQUE,
    {"flag": AttributeType.BOOLEAN, "number": AttributeType.INTEGER},
)

mutations = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 255), st.sampled_from(["set", "insert", "drop"])),
    min_size=1,
    max_size=6,
)


def mutated(document: bytes, changes: list[tuple[int, int, str]]) -> bytes:
    text = bytearray(document)
    for place, byte, how in changes:
        at = place % (len(text) + 1)
        if how == "insert":
            text.insert(at, byte)
        elif at < len(text):
            text[at : at + 1] = bytes([byte]) if how == "set" else b""
    return bytes(text)


def read_or_fault(read: Callable[[bytes], object], document: bytes) -> object:
    """Return the result of a reader, or the ``SenderError`` that it raised. Other errors fail the
    test."""
    try:
        return read(document)
    except SenderError as error:
        return error


def outgoing(event: CloudEvent) -> CloudEvent:
    """Return the event that is expected after a conversion to another format: JSON data gets its content type."""
    attributes = dict(event.attributes)
    if event.data_form is DataForm.JSON:
        attributes.setdefault("datacontenttype", "application/json")
    return CloudEvent(attributes, event.data, types=event.types)
