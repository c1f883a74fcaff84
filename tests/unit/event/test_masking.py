"""Masks over data of events: what is named is hidden, all else stays as it was written."""

from __future__ import annotations

import pytest

from app.event.masking import compile_mask, is_mask
from app.event.value import CloudEvent, DataForm

ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def event(data: bytes | None, form: DataForm = DataForm.JSON, **attributes: str) -> CloudEvent:
    return CloudEvent({**ATTRIBUTES, **attributes}, data, form)


@pytest.mark.parametrize(
    ("pointers", "data", "shown"),
    [
        (["/a"], b'{"a": 1, "b": 1.10}', b'{"a":"***","b":1.10}'),
        (["/a/b"], b'{"a": {"b": {"c": 1}, "d": 1e400}}', b'{"a":{"b":"***","d":1e400}}'),
        (["/a/b", "/a"], b'{"a": {"b": 1}}', b'{"a":"***"}'),
        (["/a", "/a/b"], b'{"a": {"b": 1}}', b'{"a":"***"}'),
        (["/a/b", "/a/c"], b'{"a":{"b":1,"c":2,"d":3}}', b'{"a":{"b":"***","c":"***","d":3}}'),
        (["/a/*/b"], b'{"a": [{"b": 1}, {"b": 2, "c": 3}, 4]}',
         b'{"a":[{"b":"***"},{"b":"***","c":3},4]}'),
        (["/a/1"], b'{"a": [1, 2]}', b'{"a":[1,"***"]}'),
        (["/*/b"], b'{"x": {"b": 1}, "y": {"b": 2}}', b'{"x":{"b":"***"},"y":{"b":"***"}}'),
        (["/*/b", "/x/c"], b'{"x": {"b": 1, "c": 2}}', b'{"x":{"b":"***","c":"***"}}'),
        (["/~1~0"], b'{"/~": 1}', b'{"/~":"***"}'),
        (["/a"], b'{"a": "old", "a": "new"}', b'{"a":"***"}'),
        (["/a"], b"[1,  2]", b"[1,2]"),
        (["/a"], b'{"\\u0061": 1}', b'{"a":"***"}'),
        (["/"], b'{"": 1}', b'{"":"***"}'),
        (["/a"], rb'{"a": "\ud83d", "b": "\uD83D", "c": [1e400]}', rb'{"a":"***","b":"\uD83D","c":[1e400]}'),
        (["/a/b"], rb'{"\ud83d": {"b": 1}, "a": {"b": "\ud83d", "\udead":2}}',
         rb'{"\ud83d":{"b": 1},"a":{"b":"***","\udead":2}}'),
        (["/0/a"], rb'[{"a": 1}, "\ud83d"]', rb'[{"a":"***"},"\ud83d"]'),
    ],
)  # fmt: skip
def test_only_named_values_are_hidden(pointers, data, shown):
    masked = compile_mask(pointers)(event(data))
    assert masked is not None
    assert masked.data == shown


@pytest.mark.parametrize(
    "unreadable",
    [
        event(b"a,b", DataForm.OPAQUE, datacontenttype="text/csv"),
        event(b"{", DataForm.OPAQUE, datacontenttype="application/json"),
        event(b'{"a":\xff}', DataForm.OPAQUE, datacontenttype="application/json"),
        event(b"[" * 100_000, DataForm.OPAQUE, datacontenttype="application/json"),
        event(b"ana@shop.example", DataForm.OPAQUE, datacontenttype="application/json"),
        event(b'{"a": 1} and more', DataForm.OPAQUE, datacontenttype="application/json"),
        event(b' "ana@shop.example"'),
        event(b"hello", DataForm.TEXT, datacontenttype="text/plain"),
    ],
)
def test_data_that_is_not_json_is_not_shown(unreadable):
    """Nobody can tell where in it the customer's name stands."""
    assert compile_mask(["/a"])(unreadable) is None


def test_without_a_mask_no_data_is_shown():
    assert compile_mask([])(event(b'{"a": 1}')) is None


def test_no_data_is_no_secret():
    empty = event(None)
    assert compile_mask([])(empty) is empty


@pytest.mark.parametrize(
    ("text", "fits"),
    [("/a", True), ("/a/*/b~0~1", True), ("/", True), ("", False), ("a", False), ("/a~2", False)],
)
def test_a_mask_is_a_pointer_into_the_data(text, fits):
    assert is_mask(text) is fits
