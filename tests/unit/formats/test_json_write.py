from __future__ import annotations

import json

import pytest

from app.event.value import AttributeType, CloudEvent, DataForm
from app.formats.json import read_event, write_event

GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def data_member(
    data: bytes | None, content_type: str | None, form: DataForm = DataForm.OPAQUE
) -> str:
    attributes = GOOD | ({"datacontenttype": content_type} if content_type else {})
    text = write_event(CloudEvent(attributes, data, form))
    head = json.dumps(attributes, separators=(",", ":")).encode()[:-1]
    assert text.startswith(head)
    return text[len(head) : -1].decode()


@pytest.mark.parametrize(
    "data",
    [
        b"1.10",
        b"1e400",
        b'{"a":1,"a":2}',
        b'"x"',
        b'{"\\ud800":["\\udead\\ud83d"]}',
        b"null",
        b"[ 1 ]",
        '"é"'.encode(),
    ],
)
def test_json_bytes_are_embedded_as_they_are(data: bytes) -> None:
    """J6: the JSON value itself, and its text unchanged (trap 6)."""
    assert data_member(data, "application/json") == ',"data":' + data.decode()


@pytest.mark.parametrize(
    "data",
    [
        b"", b" ", b"\xef\xbb\xbf1", b"\x0b1", b"1\xc2\xa0", b'"\xff"', b"{", b"NaN", b"1 2", b"[" * 9000,
        b"\xff", b"{}x",
    ],
)  # fmt: skip
def test_bytes_that_are_not_exactly_one_json_value_go_as_base64(data: bytes) -> None:
    """Only so do the very same bytes come back (design: values)."""
    assert data_member(data, "application/json").startswith(',"data_base64":"')


@pytest.mark.parametrize(
    ("data", "value"),
    [(b'{"a":1}\n', '{"a":1}'), (b" \t\r\n[ 1 , 2 ]\r\n", "[ 1 , 2 ]"), (b' " x " ', '" x "')],
)
def test_white_space_around_one_json_value_is_no_part_of_it(data: bytes, value: str) -> None:
    """RFC 8259 2: as Go's encoder and jq write it. White space inside of the value stays."""
    assert data_member(data, "application/json") == f',"data":{value}'


@pytest.mark.parametrize(
    "content_type", ["text/plain", "TEXT/Plain ; CharSet=UTF-8", "application/xml", "image/svg+xml"]
)
def test_text_types_go_as_a_string(content_type: str) -> None:
    """Spec 2.3: where decoding and encoding gives the same bytes."""
    assert data_member('é"\n'.encode(), content_type) == ',"data":"é\\"\\n"'


def test_text_goes_through_its_declared_charset() -> None:
    """J7: encoded per datacontenttype."""
    assert data_member("é".encode("latin-1"), "text/plain; charset=ISO-8859-1") == ',"data":"é"'


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (b"\xe9", "text/plain"), (b"a", "text/plain; charset=x-none"), (b"a", "application/octet-stream"),
        (b"{}", "application/x-yaml"), (b"\xfe\xff\x00a", "text/plain; charset=utf-16"), (b"\xff\xfea", "text/plain; charset=utf-16"), (b"{}", None),
    ],
)  # fmt: skip
def test_everything_else_goes_as_base64(data: bytes, content_type: str | None) -> None:
    """J5: and no datacontenttype is added where there was none."""
    assert data_member(data, content_type).startswith(',"data_base64":"')


def test_a_string_of_any_type_stays_a_string() -> None:
    """J7: what arrived as a string under a type that is not JSON leaves as one."""
    assert data_member(b"a", "application/octet-stream", DataForm.TEXT) == ',"data":"a"'


def test_data_that_arrived_as_json_leaves_as_json_without_a_type() -> None:
    """J6: where no datacontenttype is declared, none is needed."""
    assert data_member(b"1.10", None, DataForm.JSON) == ',"data":1.10'


def test_no_data_is_no_member() -> None:
    """Absent is neither null nor empty (trap 3)."""
    assert data_member(None, "application/json") == ""
    assert data_member(b"", "text/plain") == ',"data":""'


def test_integers_and_booleans_are_written_as_such() -> None:
    """J1: a value that arrived as a number leaves as a number, text ``5`` as text."""
    types = {"n": AttributeType.INTEGER, "b": AttributeType.BOOLEAN}
    event = CloudEvent(GOOD | {"n": "5", "b": "true", "s": "5"}, types=types)

    assert write_event(event).endswith(b'"n":5,"b":true,"s":"5"}')
    assert read_event(write_event(event)) == event
