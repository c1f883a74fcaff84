"""Which format has which media type: a further format is a further row.

Keys are essences: lower case, without parameters. A media type that begins like one of CloudEvents
and stands in neither table is not refused here: it may pass as it is (H6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from app.event.value import CloudEvent
from app.formats import avro, json, protobuf


class EventFormat(msgspec.Struct, frozen=True):
    """One event, one document. All raise FormatNotInstalled (415) where a library is missing.

    ``peek``  the members of a document that may be no valid event, by the names of attributes. Raises SenderError
              and ValueError for what is no document at all.
    """

    read_event: Callable[[bytes], CloudEvent]
    write_event: Callable[[CloudEvent], bytes]
    peek: Callable[[bytes], Mapping[str, object]]


class BatchFormat(msgspec.Struct, frozen=True):
    """Several events with their own slices, at most ``limit``; documents of the same format."""

    read_batch: Callable[[bytes, int | None], Sequence[tuple[CloudEvent, bytes]]]
    write_batch: Callable[[Sequence[bytes]], bytes]


FORMATS: Mapping[str, EventFormat] = {
    json.MEDIA_TYPE: EventFormat(json.read_event, json.write_event, json.peek),
    protobuf.MEDIA_TYPE: EventFormat(protobuf.read_event, protobuf.write_event, protobuf.peek),
    avro.MEDIA_TYPE: EventFormat(avro.read_event, avro.write_event, avro.peek),
}
BATCH_FORMATS: Mapping[str, BatchFormat] = {
    json.BATCH_MEDIA_TYPE: BatchFormat(json.read_batch, json.write_batch),
    protobuf.BATCH_MEDIA_TYPE: BatchFormat(protobuf.read_batch, protobuf.write_batch),
}
