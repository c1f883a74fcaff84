"""The table of formats: each row reads what it writes."""

from __future__ import annotations

import pytest

from app.formats.registry import BATCH_FORMATS, FORMATS
from typed_events import ALL_TYPES


@pytest.mark.parametrize("media_type", list(FORMATS))
def test_each_format_reads_what_it_writes(media_type: str) -> None:
    """A row whose halves are of two formats would corrupt every event."""
    row = FORMATS[media_type]
    back = row.read_event(row.write_event(ALL_TYPES))
    assert (dict(back.attributes), back.data) == (dict(ALL_TYPES.attributes), ALL_TYPES.data)


@pytest.mark.parametrize("media_type", list(BATCH_FORMATS))
def test_each_batch_format_reads_what_it_writes(media_type: str) -> None:
    """Documents of the format of the same name, each with its own bytes."""
    document = FORMATS[media_type.replace("-batch", "")].write_event(ALL_TYPES)
    row = BATCH_FORMATS[media_type]
    read = row.read_batch(row.write_batch([document, document]), 2)
    assert [each for _, each in read] == [document, document]


def test_media_types_are_essences() -> None:
    """A key with a capital or a parameter would never be found (core 1.1)."""
    assert all(name == name.lower() and ";" not in name for name in [*FORMATS, *BATCH_FORMATS])
    assert all(name.startswith("application/cloudevents+") for name in FORMATS)
    assert all(name.startswith("application/cloudevents-batch+") for name in BATCH_FORMATS)
