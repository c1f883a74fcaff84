"""The table of event formats by media type. A new format is a new row.

Keys are media types in lower case without parameters. A media type of CloudEvents that is in neither table is
not refused by this module, because such a document may be forwarded unread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from app.event.value import CloudEvent
from app.formats import avro, json, protobuf


class EventFormat(msgspec.Struct, frozen=True):
    """The functions of one event format. All raise FormatNotInstalled (415) if their library is missing.

    Attributes:
        read_event: Return the event of a document. Raises InvalidEvent.
        write_event: Return the document of an event. Raises NotRepresentable.
        peek: Return the members of a document that may be no valid event, by attribute name. Raises
            SenderError or ValueError if it is not a document of this format.
    """

    read_event: Callable[[bytes], CloudEvent]
    write_event: Callable[[CloudEvent], bytes]
    peek: Callable[[bytes], Mapping[str, object]]


class BatchFormat(msgspec.Struct, frozen=True):
    """The batch functions of one event format.

    Attributes:
        read_batch: Return the events of a batch with their slices. The second argument limits their number.
        write_batch: Return a batch that contains these documents, which have the same format.
    """

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
