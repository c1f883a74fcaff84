"""Templates of a request: what each placeholder gives in each place, and what is refused when it is compiled."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.errors import SetupError
from app.event.value import AttributeType, CloudEvent, DataForm
from app.model.secret import HIDDEN, FileSecret, FileText, MixedText
from app.outlets.values import Unshapeable
from outlets import BARE, DATA, SETTING, compiled_outlet, shaped_request


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{id}", '"e1"'),
        ("{count}", "3"),
        ("n {count}", '"n 3"'),
        ("{pointer:/total}", "199.90"),
        ("{pointer:/order}", '{"id": "o/1", "n": 0}'),
        ("{pointer:/tags/1}", "1"),
        ("{pointer:/none}", "null"),
        ("Order {pointer:/order/id} of {pointer:/tags}", '"Order o/1 of [\\"a\\", 1]"'),
        ("{pointer:/nowhere ?? none}", '"none"'),
        ("{time:%Y-%m-%d %H:%M:%S}", '"2026-11-26 23:02:03"'),
        ("{time:%j %s}", '"330 1795734123"'),
        ("{{id}}", '"{id}"'),
        ("{$data}", DATA.decode()),
    ],
)
def test_a_string_of_a_body(template: str, text: str) -> None:
    """A string that is one placeholder keeps the JSON type and the characters of the value."""
    assert shaped_request({"body": {"v": template}}).message.body.decode() == f'{{"v":{text}}}'


def test_all_attributes_are_an_object() -> None:
    """``{$attributes}`` keeps the order of arrival and the types."""
    event = CloudEvent({"id": "1", "source": "/s", "n": "7"}, types={"n": AttributeType.INTEGER})
    made = shaped_request({"body": "{$attributes}"}, event).message.body
    assert made == b'{"id":"1","source":"/s","n":7}'


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (CloudEvent({"id": "1"}, b"plain \xc3\xa9"), '"plain é"'),
        (CloudEvent({"id": "1"}, b"caf\xe9", DataForm.TEXT), None),
        (CloudEvent({"id": "1", "datacontenttype": "application/json"}, b"{"), None),
        (CloudEvent({"id": "1"}), None),
    ],
)
def test_data_that_is_not_json(event: CloudEvent, text: str | None) -> None:
    """UTF-8 text is a string; other bytes cannot be inserted."""
    if text is None:
        with pytest.raises(Unshapeable):
            shaped_request({"body": ["{$data}"]}, event)
    else:
        assert shaped_request({"body": ["{$data}"]}, event).message.body.decode() == f"[{text}]"


def test_each_part_of_a_request() -> None:
    """The path goes behind the path of the sink, the query behind its query."""
    settings = {
        "method": "PUT",
        "path": "/tickets/{pointer:/order/id}",
        "query": {"origin": "{source}", "a b": "c&d"},
        "headers": {"x-order": "{pointer:/order/id}"},
        "body": {"form": {"total": "{pointer:/total} EUR"}},
    }
    made = shaped_request(settings, sink="https://t.example/v2/?key=1")
    assert made.method == "PUT"
    assert made.target == "/v2/tickets/o%2F1?key=1&origin=%2Fshop&a%20b=c%26d"
    assert made.message.headers == (
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("x-order", "o/1"),
    )
    assert made.message.body == b"total=199.90+EUR"


@pytest.mark.parametrize(
    ("body", "content_type", "written"),
    [
        ({"text": "a {id}"}, "text/plain; charset=utf-8", b"a e1"),
        ({"text": "a"}, "text/plain; charset=utf-8", b"a"),
        ({"json": {"text": "a {id}"}}, "application/json", b'{"text":"a e1"}'),
        ({"data": {}}, "application/json", DATA),
        ({"data": {"pointer": "/order"}}, "application/json", b'{"id": "o/1", "n": 0}'),
        (None, "application/json", DATA),
        (["{id}", 1, None, True], "application/json", b'["e1",1,null,true]'),
        ({"text": "a", "more": 1}, "application/json", b'{"text":"a","more":1}'),
    ],
)
def test_the_forms_of_a_body(body: object, content_type: str, written: bytes) -> None:
    """A mapping with the name of a form alone is that form; any other value is a JSON document."""
    made = shaped_request({} if body is None else {"body": body}).message
    assert dict(made.headers) == {"Content-Type": content_type}
    assert made.body == written


def test_delete_has_no_body() -> None:
    """Unless one is set."""
    assert shaped_request({"method": "DELETE"}).message.body == b""


def test_a_content_type_can_be_set() -> None:
    """The header replaces the one that goes with the form of the body."""
    made = shaped_request(
        {"headers": {"content-type": "application/xml"}, "body": {"text": "<a/>"}}
    )
    assert made.message.headers == (("content-type", "application/xml"),)


def test_what_is_missing_is_listed_at_once() -> None:
    """Each value that the event lacks is a fault with its setting."""
    settings = {
        "path": "/{subject}",
        "body": {"a": "{pointer:/x}", "b": "{id}", "c": {"d": "{time}"}},
    }
    with pytest.raises(Unshapeable) as refused:
        shaped_request(settings, BARE)
    assert [(fault.code, fault.at) for fault in refused.value.faults] == [
        ("missing-value", "request.path"),
        ("missing-value", "request.body.a"),
        ("missing-value", "request.body.c.d"),
    ]


def test_what_is_missing_can_be_left_out() -> None:
    """``omit`` leaves out the member, the item, the parameter, the header; not the path."""
    settings = {
        "missing": "omit",
        "query": {"a": "{subject}", "b": "{id}"},
        "headers": {"x-a": "{subject}", "x-b": "{id}"},
        "body": {
            "a": "{subject}",
            "b": ["{subject}", "{id}"],
            "c": {"d": "{time}"},
            "e": "x {time}",
            "f": 1,
        },
    }
    made = shaped_request(settings, BARE)
    assert made.target == "/v2?b=e2"
    assert made.message.headers == (("Content-Type", "application/json"), ("x-b", "e2"))
    assert made.message.body == b'{"b":["e2"],"c":{},"f":1}'
    with pytest.raises(Unshapeable):
        shaped_request({"missing": "omit", "path": "/{subject}"}, BARE)


def test_data_that_is_not_utf_8_spoils_no_document() -> None:
    """The parser of JSON does not look at it (RFC 8259 8.1); the request does."""
    event = CloudEvent({"id": "1"}, b'{"a":"\xff"}', DataForm.JSON)
    for body in (
        {"v": "{pointer:/a}"},
        {"v": "x {pointer:/a}"},
        {"data": {"pointer": "/a"}},
        "{$data}",
    ):
        with pytest.raises(Unshapeable):
            shaped_request({"body": body}, event)


def test_a_request_has_a_bound() -> None:
    """The size counts path, query, headers and body."""
    with pytest.raises(Unshapeable, match=r"would have \d+ bytes; the most is 100"):
        shaped_request({"body": ["{$data}", "{$data}"]}, limit=100)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"body": {"a": "{pointer:nowhere}"}}, "request.body.a"),
        ({"body": ["{data}"]}, "request.body[0]"),
        ({"body": "{header:x}"}, "request.body"),
        ({"body": "{"}, "request.body"),
        ({"body": "{time:%Q}"}, "request.body"),
        ({"path": "tickets"}, "request.path"),
        ({"path": "/a b"}, "request.path"),
        ({"path": "/a/../b"}, "request.path"),
        ({"path": "/%2e%2E/b"}, "request.path"),
        ({"path": "/a?b=1"}, "request.path"),
        ({"headers": {"x-a": "a\nb"}}, "request.headers.x-a"),
        ({"body": ["{id}"] * 65}, "request.body[64]"),
    ],
)
def test_a_template_that_cannot_be_compiled(settings: dict[str, Any], setting: str) -> None:
    """The error names the setting and a cure."""
    with pytest.raises(SetupError) as refused:
        compiled_outlet(settings)
    assert refused.value.setting == setting
    assert refused.value.cure


@pytest.mark.parametrize(
    "name",
    ["host", "content-length", "transfer-encoding", "connection", "webhook-id", "authorization", "cookie", "ce-id",
     "content-encoding", "X-Big", "proxy-authorization", "te", "upgrade", "expect"],
)  # fmt: skip
def test_a_header_that_cannot_be_set(name: str) -> None:
    """Framing, connection, signature and credentials have settings of their own."""
    with pytest.raises(ValidationError):
        SETTING.validate_python({"headers": {name: "x"}})


def test_a_secret_is_no_template_and_is_hidden() -> None:
    """In each form, in each place: braces in it are text, and a request that is shown has asterisks."""
    settings = {
        "path": MixedText(("/", FileSecret("a/{id}"))),
        "headers": {"x-key": {"secret": "k{id}"}},
        "body": {
            "key": MixedText((FileSecret("s{id}"),)),
            "file": FileText("f{id}", "/run/key", None),
            "mixed": MixedText(("Key ", FileSecret("m{id}"), " of {id}")),
        },
    }
    made = shaped_request(settings)
    assert made.target == "/v2/a%2F%7Bid%7D"
    assert dict(made.message.headers)["x-key"] == "k{id}"
    assert made.message.body == b'{"key":"s{id}","file":"f{id}","mixed":"Key m{id} of e1"}'
    shown = shaped_request(settings, hidden=True)
    assert "{id}" not in str(shown)
    assert shown.message.body.decode() == (
        f'{{"key":"{HIDDEN}","file":"{HIDDEN}","mixed":"Key {HIDDEN} of e1"}}'
    )
