"""Documents of versions before 1.0, each as its own specification has them (spec.md 3)."""

from __future__ import annotations

import pytest

from app.errors import InvalidEvent
from app.event.convert import as_version
from app.event.value import AttributeType, CloudEvent, DataForm
from app.formats.json import read_batch, read_event, write_event

A = b'"cloudEventsVersion":"0.1","eventID":"1","source":"/s","eventType":"t"'
B = b'"specversion":"0.2","id":"1","source":"/s","type":"t"'
C = b'"specversion":"0.3","id":"1","source":"/s","type":"t"'


def document(*parts: bytes) -> bytes:
    return b"{" + b",".join(parts) + b"}"


def codes(text: bytes) -> list[tuple[str, str]]:
    with pytest.raises(InvalidEvent) as refusal:
        read_event(text)
    return [(fault.code, fault.at) for fault in refusal.value.faults]


@pytest.mark.parametrize("value", [b'"x"', b'""', b"null", b"1", b"{}"])
@pytest.mark.parametrize("head", [B, C, B.replace(b"0.2", b"0.1")])
def test_a_member_without_a_name_is_the_senders_fault(head: bytes, value: bytes) -> None:
    """core 1.2; null is unset. A version without an encoding attribute has none that is called ""."""
    text = document(head, b'"":' + value)
    if value == b"null":
        assert read_event(text).id == "1"
    else:
        assert codes(text) == [("bad-attribute-name", "/")]


def test_white_space_in_a_name_hides_no_repeat() -> None:
    """core 1.1: names of 0.1's extensions may be any text, and none of them counts for another."""
    bag = b'"extensions":{"k      ":1,"a":1,"a":2}'

    assert codes(document(A, bag)) == [("duplicate-member", "/extensions/a")]


@pytest.mark.parametrize(
    ("head", "version"),
    [
        (A, "0.1"),
        (B.replace(b"0.2", b"0.1"), "0.1-wip"),
        (B, "0.2"),
        (C, "0.3"),
        (C.replace(b"0.3", b"1.0-rc1"), "1.0-rc1"),
        (C.replace(b"0.3", b"1.0"), "1.0"),
    ],
)
def test_each_shape_is_recognised_and_read_as_1_0(head: bytes, version: str) -> None:
    """3.1: by the name of the version attribute, then by its value; all give the same view."""
    event = read_event(document(head))

    assert event.version == version
    assert event.attributes == {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    assert write_event(event) == document(head)


def test_the_example_of_the_working_draft_is_read() -> None:
    """3.3 B: contenttype is renamed, a Map becomes compact text, text/xml is text."""
    event = read_event(
        b"""{
    "specversion" : "0.1", "type" : "com.example.pull.create", "id" : "A234",
    "source" : "https://example.com/spec/pull/123", "time" : "2018-04-05T17:31:00Z",
    "first" : "value", "second" : { "othervalue": 5 },
    "contenttype" : "text/xml", "data" : "<much wow=\\"xml\\"/>"
}"""
    )

    assert event.attributes["datacontenttype"] == "text/xml"
    assert event.attributes["second"] == '{"othervalue":5}'
    assert (event.data, event.data_form) == (b'<much wow="xml"/>', DataForm.TEXT)


def test_the_attributes_of_0_1_get_their_names_of_today() -> None:
    """3.3 A: renamed; extensions to the top, lower case, and a suffix where a name is taken."""
    event = read_event(
        document(
            A,
            b'"eventTypeVersion":"2","eventTime":"2018-04-05T17:31:00Z","schemaURL":"urn:a"',
            b'"contentType":"application/json"',
            b'"extensions":{"MyExt":5,"my-ext":"5","id":"u","--":"v","m":{"a": [1.10]}},"data":[1.10]',
        )
    )

    assert event.attributes == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "eventtypeversion": "2",
        "time": "2018-04-05T17:31:00Z", "dataschema": "urn:a",
        "datacontenttype": "application/json", "myext": "5", "myextx": "5", "idx": "u", "x": "v",
        "m": '{"a":[1.10]}',
    }  # fmt: skip
    assert event.types == {"myext": AttributeType.INTEGER}
    assert event.data == b"[1.10]"


@pytest.mark.parametrize(
    "text",
    [
        document(A, b'"extensions":{"MyExt":5,"my-ext":"5","id":"u","ID":{"a":[1.10]}}'),
        document(A, b'"schemaURL":"/relative","extensions":{"schemaurl":"x","subject":""}'),
        document(A, b'"contentType":"image/png","data":"AAE="'),
        document(B, b'"n":5,"s":"5","m":{"x":{"y":null}},"dataschema":"x","subject":"z"'),
        document(B, b'"schemaurl":"/relative","subject":5'),
        document(C, b'"n":5,"b":true,"schemaurl":"urn:a","subject":"z"'),
        document(C, b'"datacontentencoding":"base64","data":"AAE="'),
        document(C, b'"datacontenttype":"text/plain","datacontentencoding":"base64","data":"/w=="'),
        document(C, b'"datacontenttype":"image/png","data":"no base64"'),
        document(C, b'"data":null'),
        document(C.replace(b"0.3", b"1.0-rc1"), b'"data_base64":"AAE="'),
    ],
)
def test_an_event_is_written_in_its_version_as_it_arrived(text: bytes) -> None:
    """3.3: names, types, texts, nesting and suffixed collisions all go back to what they were."""
    assert write_event(read_event(text)) == text


def test_base64_is_told_from_text_by_the_content_type() -> None:
    """3.2: a string under a type that is neither JSON nor known text is base64, if it is that."""
    for head, name in ((A, b"contentType"), (B, b"contenttype"), (C, b"datacontenttype")):
        for kind, data, expected in (
            (b"image/png", b'"AAE="', b"\0\1"),
            (b"image/png", b'"AAE"', b"AAE"),
            (b"text/plain", b'"AAE="', b"AAE="),
            (b"application/xhtml+xml", b'"AAE="', b"AAE="),
            (b"application/x-yaml", b'"AAE="', b"AAE="),
            (b"application/a; charset=utf-8", b'"AAE="', b"AAE="),
            (b"application/json", b'"AAE="', b'"AAE="'),
        ):
            typed = b'"%b":"%b","data":%b' % (name, kind, data)
            assert read_event(document(head, typed)).data == expected


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3"])
def test_text_that_would_be_read_as_base64_is_written_as_base64(version: str) -> None:
    """3.2: under a type that is not known for text, or else the data came back as other bytes."""
    base = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    event = CloudEvent(base | {"datacontenttype": "image/png"}, b"AAE=", DataForm.TEXT)
    written = write_event(as_version(event, version))

    assert b"QUFFPQ==" in written
    assert read_event(written).data == b"AAE="


def test_what_0_2_cannot_hold_goes_as_1_0() -> None:
    """3.4: bytes under a text type are no text, and 0.2 has no other way: whole, not maimed."""
    event = read_event(document(B, b'"contenttype":"text/plain","data":"a"'))
    broken = type(event)(
        event.attributes, b"\xff", DataForm.OPAQUE, event.types, event.version, event.arrived
    )
    again = read_event(write_event(broken))

    assert (again.version, again.data) == ("1.0", b"\xff")
    assert again.attributes == event.attributes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (document(A, b'"other":1'), [("bad-attribute-name", "/other")]),
        (document(A, b'"extensions":{}'), [("empty-attribute", "/extensions")]),
        (document(A, b'"extensions":5'), [("not-an-object", "/extensions")]),
        (document(A, b'"extensions":{"a":1,"a":2}'), [("duplicate-member", "/extensions/a")]),
        (document(A, b'"extensions/a":1,"extensions":{"a":2}'), [("bad-attribute-name", "/extensions~1a")]),
        (document(A, b'"extensions/a":1'), [("bad-attribute-name", "/extensions~1a")]),
        (document(A, b'"extensions":{"a/b":1.5}'), [("wrong-type", "/extensions/a~1b")]),
        (b'{"cloudEventsVersion":"0.1","eventID":""}', [
            ("empty-attribute", "/eventID"), ("missing-attribute", "/source"),
            ("missing-attribute", "/eventType"),
        ]),
        (document(B, b'"m":{"a":"\\ud800"}'), [("forbidden-character", "/m")]),
        (document(C, b'"m":{"\\ud800":1}'), [("forbidden-character", "/m")]),
        (document(B, b'"contenttype":"x"'), [("bad-media-type", "/contenttype")]),
        (document(B, b'"Ext":"x","1a":"x","a":[1]'), [
            ("wrong-type", "/a"), ("bad-attribute-name", "/Ext"), ("bad-attribute-name", "/1a"),
        ]),
        (document(B, b'"data_base64":"AA=="'), [("bad-attribute-name", "/data_base64")]),
        (document(C, b'"datacontentencoding":"gzip","data":"x"'), [
            ("unsupported-encoding", "/datacontentencoding"),
        ]),
        (document(C, b'"datacontentencoding":"base64","data":{}'), [("wrong-type", "/data")]),
        (document(C, b'"datacontenttype":"image/png","data":{}'), [("data-not-text", "/data")]),
        (document(C, b'"id":"2"'), [("duplicate-member", "/id")]),
        (document(C, b'"time":"noon"'), [("bad-timestamp", "/time")]),
        (b'{"cloudEventsVersion":"0.2"}', [("unsupported-specversion", "/cloudEventsVersion")]),
        (b'{"specversion":"0.4-wip"}', [("unsupported-specversion", "/specversion")]),
    ],
)  # fmt: skip
def test_each_version_is_judged_by_its_own_rules(
    text: bytes, expected: list[tuple[str, str]]
) -> None:
    """3.2: every fault at once, under the names that the sender used."""
    assert codes(text) == expected


def test_an_unknown_version_names_those_that_are_known() -> None:
    """3.1: 0.4-wip existed, and nobody speaks it; the sender learns what to send instead."""
    with pytest.raises(InvalidEvent) as refusal:
        read_event(b'{"cloudEventsVersion":"0.4-wip"}')

    assert "supported: 0.1, 0.2, 0.3, 1.0-rc1, 1.0." in refusal.value.faults[0].detail


def test_a_batch_is_of_one_version() -> None:
    """I6: also where both call themselves 0.1 and mean different things."""
    with pytest.raises(InvalidEvent) as refusal:
        read_batch(b"[" + document(A) + b"," + document(B.replace(b"0.2", b"0.1")) + b"]")

    assert [fault.code for fault in refusal.value.faults] == ["mixed-specversions"]


def test_an_empty_subject_of_0_2_is_an_extension_under_another_name() -> None:
    """V3: 1.0 knows no empty subject, and the event must stay one that can be written as 1.0."""
    event = read_event(b'{"specversion":"0.2","id":"1","source":"/s","type":"t","subject":""}')

    assert "subject" not in event.attributes
    assert event.attributes["subjectx"] == ""


def test_extensions_that_all_become_one_name_are_bounded() -> None:
    """Rule 8: looking for a free name must not grow with the square of what was sent."""
    entries = b",".join(b'"a%b":1' % (b"-" * n) for n in range(1000))
    with pytest.raises(InvalidEvent) as refusal:
        read_event(document(A, b'"extensions":{%b}' % entries))

    assert [fault.code for fault in refusal.value.faults] == ["colliding-extensions"]
