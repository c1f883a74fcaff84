"""What is JSON by its grammar is taken, and data goes on byte for byte; Python's parser is the second opinion."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from hypothesis import given
from hypothesis import strategies as st

from app.bindings import http, kafka
from app.bindings.transcode import EncodeOptions
from app.event import json_text
from app.event.value import CloudEvent, DataForm
from app.formats.json import read_batch, read_event, write_event
from app.routing.keys import compile_pointer
from event_strategies import instructions, mutated
from example_counts import READERS, examples
from hostile_json import strings, values

HEAD = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"'
BINARY, STRUCTURED = EncodeOptions(mode="binary"), EncodeOptions(mode="structured")
TYPED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "application/json"}  # fmt: skip


def no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def opinion(text: bytes) -> tuple[bool, Any]:
    """Whether Python takes it for JSON, without NaN and Infinity, which are none; and what it reads."""
    if text.startswith(b"\xef\xbb\xbf"):
        return False, None
    try:
        found = json.loads(
            text.decode(), parse_int=float, parse_float=float, parse_constant=no_constant
        )
    except (ValueError, RecursionError):
        return False, None
    return True, found


def taken(text: bytes) -> bool:
    try:
        json_text.single_value(text)
    except json_text.NOT_JSON:
        return False
    return json_text.is_utf8(text)


@examples(READERS)
@given(values)
def test_values_are_taken_and_taken_apart_as_they_were_written(text: bytes) -> None:
    is_json, meant = opinion(text)
    assert is_json
    assert json_text.single_value(b" \n%b\t" % text) == text
    if isinstance(meant, dict):
        found = json_text.members(text)
        assert list(found) == list(meant)
        for name, raw in found.items():
            assert bytes(raw) in text
            assert opinion(bytes(raw)) == (True, meant[name])
    elif isinstance(meant, list):
        inner = list(map(bytes, json_text.items(text)))
        assert [opinion(each) for each in inner] == [(True, each) for each in meant]
    elif isinstance(meant, str):
        assert json_text.string(text) == meant
        assert json_text.is_unpaired(text) == any("\ud800" <= each <= "\udfff" for each in meant)


@examples(READERS)
@given(st.builds(mutated, values, instructions))
def test_python_takes_what_is_taken_and_nothing_else(text: bytes) -> None:
    assert taken(text) == opinion(text)[0]


@examples(READERS)
@given(values)
def test_data_goes_on_byte_for_byte_in_every_form(data: bytes) -> None:
    """Structured, batched, binary, and from each mode to the other; on HTTP and on a broker."""
    document = HEAD + b',"data" : ' + data + b',"ext":"x"}'
    assert read_event(document).data == data
    (event, slice_), *_ = read_batch(b"[" + b",".join([document] * 6) + b"]")
    assert (event.data, slice_) == (data, document)
    assert read_event(write_event(event)).data == data
    (arrived,) = http.decode([(b"content-type", b"application/cloudevents+json")], document)
    as_binary = kafka.decode(kafka.encode(arrived, BINARY, None))
    assert as_binary.event.data == data
    back = kafka.decode(kafka.encode(as_binary, STRUCTURED, None))
    assert (back.event.data, back.event.data_form) == (data, DataForm.JSON)


@examples(READERS)
@given(strings, strings)
def test_equal_tokens_have_equal_keys_and_every_text_has_one(one: bytes, other: bytes) -> None:
    find = compile_pointer("/k")
    keys = [
        find(CloudEvent(TYPED, rb'{"\ud83d":[1e400],"k": %b}' % each, DataForm.OPAQUE))
        for each in (one, one, other)
    ]
    assert keys[0] == keys[1] is not None
    if json.loads(one) != json.loads(other):
        assert keys[0] != keys[2] or json_text.is_unpaired(one) != json_text.is_unpaired(other)


@examples(READERS)
@given(values)
def test_what_is_shown_again_is_what_came(text: bytes) -> None:
    """The command line reads answers and writes them again."""
    assert opinion(json_text.encode_value(json_text.decode_lossless(text))) == opinion(text)
