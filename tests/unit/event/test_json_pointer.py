"""A JSON Pointer into the data, wherever JSON is the data (RFC 6901)."""

from __future__ import annotations

import pytest

from app.event.json_pointer import compile_lookup
from app.event.value import CloudEvent, DataForm

DATA = b'{"a": {"b": [1, {"c": "x"}]}, "": 0, "a/b": 1, "m~n": 8, "d": 1, "d": 2, "n": 1.10}'
EVENT = CloudEvent({"id": "1"}, data=DATA, data_form=DataForm.JSON)


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("", DATA),
        ("/a", b'{"b": [1, {"c": "x"}]}'),
        ("/a/b", b'[1, {"c": "x"}]'),
        ("/a/b/0", b"1"),
        ("/a/b/1/c", b'"x"'),
        ("/", b"0"),
        ("/a~1b", b"1"),
        ("/m~0n", b"8"),
        ("/d", b"2"),
        ("/n", b"1.10"),
        ("/x", None),
        ("/a/b/2", None),
        ("/a/b/-", None),
        ("/a/b/00", None),
        ("/n/x", None),
    ],
)
def test_a_pointer_gives_the_text_that_is_there(pointer: str, expected: bytes | None) -> None:
    """As it was written: keys and filters may not change what they look at."""
    assert compile_lookup(pointer)(EVENT) == expected


@pytest.mark.parametrize(
    ("data", "form", "content_type", "found"),
    [
        (b'{"a": 1}', DataForm.OPAQUE, "application/json", True),
        (b'{"a": 1}', DataForm.OPAQUE, "application/vnd.x+json; charset=utf-8", True),
        (b'{"a": 1}', DataForm.OPAQUE, None, True),
        (b'{"a": 1}', DataForm.OPAQUE, "text/plain", False),
        (b'{"a": 1}', DataForm.TEXT, "text/plain", False),
        (b'{"a": ', DataForm.OPAQUE, "application/json", False),
        (b"\xff", DataForm.OPAQUE, "application/json", False),
        (b"", DataForm.OPAQUE, "application/json", False),
        (None, DataForm.OPAQUE, "application/json", False),
        (b"[" * 100_000, DataForm.JSON, None, False),
    ],
)
def test_only_json_is_looked_into(
    data: bytes | None, form: DataForm, content_type: str | None, found: bool
) -> None:
    """What is not JSON has nothing anywhere; nobody is stopped by it."""
    attributes = {"id": "1"} if content_type is None else {"datacontenttype": content_type}
    event = CloudEvent(attributes, data=data, data_form=form)
    assert (compile_lookup("/a")(event) is not None) is found
