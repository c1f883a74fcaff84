from __future__ import annotations

import json
from itertools import product

import pytest

from app.errors import InvalidEvent
from app.event.value import AttributeType, DataForm
from app.formats.json import read_event
from app.formats.json_members import MEMBERS
from row_checks import check_every

HEAD = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"'


def document(members: bytes = b"") -> bytes:
    return HEAD + (b"," + members if members else b"") + b"}"


DATA = (
    b"1.10", b"1e400", b"-0", b"12345678901234567890123456789.10", b"9" * 5000, b'"I\'m text"',
    b'{"b":1,"a":2}', b'{"a":1,"a":2}', b'{ "a" : [ 1 , 2 ] }', b'"\\u00e9\\/"', '"é€"'.encode(),
    b"null", b"true", b"[]", b'"\\u0000"', b'{"data":{"data":1}}', b'{"x":",\\"data\\":"}',
)  # fmt: skip
CONTENT_TYPES = (b"", b',"datacontenttype":"application/x+json"')
AFTER = (b"", b',"ext":"x"', b',"ext":5')
SPACE = (b"", b" ", b"\n\t")


def test_the_text_of_data_survives_byte_for_byte() -> None:
    """Numbers, order, escapes and repeats inside data are the payload's own affair (J6, trap 6)."""
    check_every(product(DATA, CONTENT_TYPES, AFTER, SPACE), assert_survives)


def assert_survives(row: tuple[bytes, bytes, bytes, bytes]) -> None:
    data, content_type, after, space = row
    text = HEAD + content_type + b"," + space + b'"data"' + space + b":" + space + data + space
    event = read_event(text + after + b"}" + space)

    assert event.data == data
    assert event.data_form is DataForm.JSON


def test_a_json_string_keeps_its_quotes() -> None:
    """J11: it is a JSON String, and never parsed again."""
    assert read_event(document(b'"data":"{\\"a\\":1}"')).data == b'"{\\"a\\":1}"'


def test_null_data_is_a_payload_and_absent_data_is_none() -> None:
    """J9: an explicit null is distinct from nothing."""
    assert read_event(document(b'"data":null')).data == b"null"
    assert read_event(document()).data is None
    assert read_event(document(b'"data_base64":null')).data is None
    assert read_event(document(b'"data_base64":""')).data == b""


def test_base64_data_is_bytes_of_whatever_type() -> None:
    """J10: an absent datacontenttype is not guessed, and none is added (J5)."""
    event = read_event(document(b'"data_base64":"eyJhIjoxfQ=="'))

    assert event.data == b'{"a":1}'
    assert event.data_form is DataForm.OPAQUE
    assert event.datacontenttype is None


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("text/plain", "é€".encode()),
        ("text/plain; charset=utf-16le", "é€".encode("utf-16-le")),
        ("application/xml", "é€".encode()),
        ("application/octet-stream", "é€".encode()),
    ],
)
def test_a_string_under_another_type_is_encoded_as_the_type_says(
    content_type: str, data: bytes
) -> None:
    """J7: data is a string, encoded per datacontenttype."""
    event = read_event(
        document(b'"datacontenttype":"%b","data":"\\u00e9\\u20ac"' % content_type.encode())
    )

    assert event.data == data
    assert event.data_form is DataForm.TEXT


def test_null_attributes_are_unset() -> None:
    """J2: any attribute, extensions too."""
    event = read_event(
        document(b'"time":null,"subject":null,"datacontenttype":null,"ext":null,"data":1')
    )

    assert list(event.attributes) == ["specversion", "id", "source", "type"]


def test_integers_and_booleans_become_canonical_text_and_keep_their_type() -> None:
    """Core 1.3: ``true`` and not ``True``; J1 on the way back."""
    event = read_event(document(b'"yes":true,"no":false,"n":-2147483648,"text":"5"'))

    assert {name: event.attributes[name] for name in ("yes", "no", "n", "text")} == {
        "yes": "true", "no": "false", "n": "-2147483648", "text": "5",
    }  # fmt: skip
    assert event.types == {
        "yes": AttributeType.BOOLEAN, "no": AttributeType.BOOLEAN, "n": AttributeType.INTEGER,
    }  # fmt: skip


def test_a_byte_order_mark_is_tolerated() -> None:
    """Spec 2.3: on read only."""
    assert read_event(b"\xef\xbb\xbf" + document()).id == "1"


def test_nothing_is_invented_and_nothing_is_normalised() -> None:
    """I7, trap 14: no time, no id, and every string as it came."""
    event = read_event(document(b'"time":"2026-11-20t10:00:00.000000000-00:00","ext":" a  "'))

    assert event.attributes == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t",
        "time": "2026-11-20t10:00:00.000000000-00:00", "ext": " a  ",
    }  # fmt: skip


def test_a_fault_is_located_by_json_pointer() -> None:
    """RFC 6901, escapes included."""
    with pytest.raises(InvalidEvent) as refusal:
        read_event(document(b'"time":"noon","a/b~c":"x","n":1.5'))

    assert [fault.at for fault in refusal.value.faults] == ["/n", "/time", "/a~1b~0c"]


def test_faults_of_reading_and_of_validation_come_together() -> None:
    """One answer lists all, and what could not be read is not called missing as well."""
    members = {"specversion": "1.0", "id": 5, "source": "", "x": 1.5, "data": 1, "data_base64": ""}
    with pytest.raises(InvalidEvent) as refusal:
        read_event(json.dumps(members).encode())

    assert [fault.code for fault in refusal.value.faults] == [
        "wrong-type", "wrong-type", "empty-attribute", "missing-attribute", "data-and-data-base64",
    ]  # fmt: skip


def test_a_long_name_does_not_make_a_long_answer() -> None:
    """An answer must not grow with what was sent."""
    with pytest.raises(InvalidEvent) as refusal:
        read_event(document(b'"%b":1.5,"%b":"x"' % (b"A" * 10_000, b"B" * 10_000)))

    assert all(len(fault.at) < 80 and len(fault.detail) < 250 for fault in refusal.value.faults)


def test_the_members_of_an_event_are_bounded() -> None:
    """A bound for documents as there is one for headers (rule 8)."""
    extensions = [b'"a%d":"x"' % number for number in range(MEMBERS - 4)]

    assert len(read_event(document(b",".join(extensions))).attributes) == MEMBERS
    for more in (b'"b":"x"', b'"b":1'):
        with pytest.raises(InvalidEvent) as refusal:
            read_event(document(b",".join([*extensions, more])))
        assert [fault.code for fault in refusal.value.faults] == ["too-many-members"]
