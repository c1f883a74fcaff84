"""JSON Pointer (RFC 6901) into data."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.event.value import CloudEvent, DataForm
from app.model.subscription import OrderBy
from app.routing.keys import compile_pointer
from app.routing.order import compile_order
from hostile_json import STRINGS, VALUES

MakeEvent = Callable[..., CloudEvent]
RFC = b"""{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\\\j": 5,
 "k\\"l": 6, " ": 7, "m~n": 8}"""


@pytest.mark.parametrize(
    ("pointer", "key"),
    [
        ("/foo/0", b"bar"),
        ("/foo/1", b"baz"),
        ("/", b"0"),
        ("/a~1b", b"1"),
        ("/c%d", b"2"),
        ("/e^f", b"3"),
        ("/g|h", b"4"),
        ("/i\\j", b"5"),
        ('/k"l', b"6"),
        ("/ ", b"7"),
        ("/m~0n", b"8"),
        ("", None),  # the whole object
        ("/foo", None),  # an array
        ("/foo/2", None),
        ("/foo/-", None),
        ("/foo/00", None),
        ("/foo/bar", None),
        ("/foo/0/x", None),
        ("/nothing", None),
    ],
)
def test_the_examples_of_the_rfc(event: MakeEvent, pointer: str, key: bytes | None) -> None:
    """RFC 6901 section 5, and what it says names nothing."""
    assert compile_pointer(pointer)(event(RFC)) == key


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'"text"', b"text"),
        (b'"gr\\u00fcn"', "grün".encode()),
        (b'""', b""),
        (b"1.10", b"1.10"),
        (b"1e400", b"1e400"),
        (b"-0", b"-0"),
        (b"12345678901234567890123", b"12345678901234567890123"),
        (b"true", b"true"),
        (b"false", b"false"),
        (b"null", None),
        (b"{}", None),
        (b"[]", None),
        (
            b'"\\ud800"',
            b'"\\ud800"',
        ),  # half a surrogate pair is no text: its token keeps equal ones in order
        (b"NaN", None),
    ],
)
def test_a_value_is_its_text_or_its_raw_characters(
    event: MakeEvent, value: bytes, key: bytes | None
) -> None:
    """A number read and written again would be another key: 1.10 is not 1.1."""
    assert compile_pointer("/x")(event(b'{ "x" : ' + value + b" }")) == key
    assert compile_pointer("/0")(event(b"[ " + value + b" ]")) == key
    assert compile_pointer("")(event(b" " + value + b"\n")) == key


@pytest.mark.parametrize("pointer", ["/x", "", "/x/0"])
@pytest.mark.parametrize(
    "data",
    [None, b"", b"no json", b'{"x": 1} 2', b'{"x": ', b"\xff", b"[" * 100_000, b'{"x":"\xff"}'],
)
def test_what_is_no_json_has_no_key(event: MakeEvent, data: bytes | None, pointer: str) -> None:
    """A sender must not be able to break the mapper, however wrong its data."""
    assert compile_pointer(pointer)(event(data, DataForm.OPAQUE)) is None


@pytest.mark.parametrize(
    ("form", "content_type", "expected"),
    [
        (DataForm.OPAQUE, "application/json", b"1"),
        (DataForm.OPAQUE, "application/vnd.x+json; charset=utf-8", b"1"),
        (DataForm.OPAQUE, "text/plain", None),
        (DataForm.TEXT, "text/plain", None),
        (DataForm.JSON, "text/plain", b"1"),  # the document itself said that it is JSON
    ],
)
def test_only_json_data_is_looked_into(
    event: MakeEvent, form: DataForm, content_type: str, expected: bytes | None
) -> None:
    """Text that happens to look like JSON is not."""
    sent = event(b'{"x": 1}', form, datacontenttype=content_type)
    assert compile_pointer("/x")(sent) == expected


@given(st.dictionaries(st.text(), st.text(), min_size=1), st.data())
def test_any_member_name_can_be_pointed_at(document: dict[str, str], data: st.DataObject) -> None:
    """~ and / in names are escaped, every other character stands for itself."""
    name = data.draw(st.sampled_from(sorted(document)))
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    sent = CloudEvent({"id": "1"}, json.dumps(document).encode(), DataForm.JSON)
    assert compile_pointer(pointer)(sent) == document[name].encode()


@pytest.mark.parametrize("other", VALUES)
@pytest.mark.parametrize("pointer", ["/k", "/in/k", "/list/1"])
def test_a_member_is_found_whatever_stands_beside_it(
    event: MakeEvent, other: bytes, pointer: str
) -> None:
    """RFC 8259 8.2: an unpaired surrogate elsewhere makes no document of JSON unreadable."""
    data = b'{"a":%b,"\\ud83d":1,"k":"v","in":{"b":%b,"k":"v"},"list":[%b,"v"],"z":%b}' % (
        (other,) * 4
    )
    for form in (DataForm.JSON, DataForm.OPAQUE):
        assert compile_pointer(pointer)(event(data, form)) == b"v"
        assert compile_pointer("/in/nothing")(event(data, form)) is None


@pytest.mark.parametrize("token", STRINGS)
def test_a_string_that_is_no_text_is_in_line_by_its_token(event: MakeEvent, token: bytes) -> None:
    """Equal bytes, equal lane: the order of a key holds."""
    order = compile_order(OrderBy(pointer="/k"))
    assert order is not None
    found = event(b'{"k": %b , "n":1e400}' % token)
    assert compile_pointer("/k")(found) == token
    assert order(found) == token.decode()
    assert order(event(b'{"n":1,"k":%b}' % token)) == token.decode()
    assert compile_pointer("")(event(token)) == token
