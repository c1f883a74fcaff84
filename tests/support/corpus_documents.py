"""Check cases of documents (json, protobuf, avro), which are read by the format of their media
type.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.errors import InvalidEvent
from app.event.value import CloudEvent
from app.formats.registry import BATCH_FORMATS, FORMATS
from app.formats.typed import NotRepresentable
from corpus import Case, assert_faults, assert_form, assert_is, assert_same, octets


def document_of(case: Case) -> bytes:
    document = octets(case.message["document"])
    assert document is not None
    return document


def is_batch(case: Case) -> bool:
    return case.message["media_type"] in BATCH_FORMATS


def read(case: Case) -> list[CloudEvent]:
    """Return the events of a case's document."""
    document, media_type = document_of(case), case.message["media_type"]
    if is_batch(case):
        return [event for event, _ in BATCH_FORMATS[media_type].read_batch(document, None)]
    return [FORMATS[media_type].read_event(document)]


def read_again(case: Case, events: list[CloudEvent]) -> list[CloudEvent]:
    """Write the events in the format of the case, read them back and return them."""
    media_type = case.message["media_type"]
    single = FORMATS[media_type.replace("-batch", "")]
    documents = [single.write_event(event) for event in events]
    if not is_batch(case):
        return [single.read_event(documents[0])]
    batch = BATCH_FORMATS[media_type]
    return [event for event, _ in batch.read_batch(batch.write_batch(documents), None)]


def assert_read(case: Case) -> list[CloudEvent]:
    """Assert that the document has exactly the expected events, and return them."""
    events, expected = read(case), case.expect["events"]
    assert len(events) == len(expected)
    for event, one in zip(events, expected, strict=True):
        assert_is(event, one)
        assert_form(event, one)
    return events


def assert_written_again(case: Case) -> None:
    """Assert that the events survive writing and reading, except for what the case declares as
    lost in its format.
    """
    events, changed = read(case), case.expect.get("again", {})
    if changed == "refused":
        with pytest.raises(NotRepresentable):
            read_again(case, events)
        return
    for event, again in zip(events, read_again(case, events), strict=True):
        assert_same(replace(event, attributes={**event.attributes, **changed}), again)


def assert_refused(case: Case) -> None:
    """Assert that the document is refused with exactly the expected faults."""
    with pytest.raises(InvalidEvent) as refusal:
        read(case)
    assert_faults(refusal.value.faults, case.expect["faults"])


def assert_slices(case: Case) -> None:
    """Assert that the slice of the batch given with each event is the document of that event
    alone.
    """
    media_type = case.message["media_type"]
    single = FORMATS[media_type.replace("-batch", "")]
    for event, document in BATCH_FORMATS[media_type].read_batch(document_of(case), None):
        assert single.read_event(document) == event
