from __future__ import annotations

import pytest

from app.errors import InvalidEvent, SenderError
from app.formats.json import FAULTS_LISTED, read_batch, write_batch

ONE = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1.10}'
TWO = b'{ "specversion":"1.0", "id":"2", "source":"/s", "type":"t" }'


def test_each_event_comes_with_its_own_slice() -> None:
    """The slice is forwarded untouched, white space inside it included."""
    found = read_batch(b"[ " + ONE + b" ,\n" + TWO + b"]\n")

    assert [slice_ for _, slice_ in found] == [ONE, TWO]
    assert [event.id for event, _ in found] == ["1", "2"]
    assert found[0][0].data == b"1.10"


def test_an_empty_batch_is_legal() -> None:
    """J14."""
    assert read_batch(b"[]") == []
    assert read_batch(b"\xef\xbb\xbf [ ] ") == []


def test_a_written_batch_is_read_again() -> None:
    """J14: an array of documents, as they are."""
    assert write_batch([ONE, TWO]) == b"[" + ONE + b"," + TWO + b"]"
    assert write_batch([]) == b"[]"


def test_faults_carry_index_and_pointer() -> None:
    """A batch names each element at fault, and where in it."""
    with pytest.raises(InvalidEvent) as refusal:
        read_batch(b"[" + ONE + b',5,{"specversion":"1.0","id":"","source":"/s","type":"t"}]')

    assert [(fault.index, fault.at, fault.code) for fault in refusal.value.faults] == [
        (1, "/1", "not-an-object"),
        (2, "/2/id", "empty-attribute"),
    ]


def test_the_number_of_events_is_bounded() -> None:
    """H5: a receiver chooses the greatest batch."""
    assert len(read_batch(write_batch([ONE] * 3), limit=3)) == 3
    with pytest.raises(SenderError) as refusal:
        read_batch(write_batch([ONE] * 4), limit=3)

    assert (refusal.value.status, refusal.value.code) == (413, "batch-too-large")


def test_an_answer_does_not_grow_with_a_batch_of_nonsense() -> None:
    """20 kB of zeros must not cost megabytes: the rest of such a batch is not looked at."""
    with pytest.raises(InvalidEvent) as refusal:
        read_batch(write_batch([b"0"] * 10_000))

    faults = refusal.value.faults
    assert [fault.code for fault in faults] == ["not-an-object"] * FAULTS_LISTED + [
        "too-many-faults"
    ]
    assert faults[-1].index == FAULTS_LISTED - 1
