"""Whatever an event holds, the shaped request is valid, and no value leaves the place where it was put."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from app.event.json_text import encode_value
from app.event.value import CloudEvent, DataForm
from app.model.outlet import RequestTemplates
from app.outlets.compiled import compile_outlet
from app.outlets.request import ShapedRequest
from app.outlets.values import Unshapeable

HOSTILE = st.sampled_from([
    "", ".", "..", "/", "//", "../..", "%2e%2e", "%2F", "?a=b", "#", "&x=1", "=", "+", " ", "%", "{id}", "{{", "}}",
    '"', "\\", '","admin":true,"x":"', "\r\nHost: evil", "\n", "\x00", "\x7f", "\u2028", "é", "\U0001f600", "<!channel>",
    "@everyone", "null", "1e999", "${env:HOME}", "</script>", "' OR 1=1 --", "a/b;c", "http://x/", "\ud83d",
])  # fmt: skip
TEXTS = (
    HOSTILE
    | st.text(max_size=12)
    | st.builds(str.__add__, HOSTILE, st.text(max_size=4))
    | st.builds(str.__add__, st.text(max_size=4), HOSTILE)
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def event(data: object, **attributes: str) -> CloudEvent:
    known = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}
    return CloudEvent(known, encode_value(data), DataForm.JSON)


def shaped(settings: dict[str, Any], of: CloudEvent) -> ShapedRequest:
    request = RequestTemplates.model_validate(settings)
    return compile_outlet(request, "https://t.example/v2?key=1", str, 1 << 20).shape(of)


@given(JSON)
def test_a_value_alone_is_the_value(value: object) -> None:
    """With its JSON type, in the very characters of its sender."""
    made = shaped({"body": {"a": "{pointer:/v}", "b": 1}}, event({"v": value})).message.body
    assert made == b'{"a":%b,"b":1}' % encode_value(value)


@given(TEXTS, TEXTS, TEXTS)
def test_a_text_in_json_comes_out_as_it_went_in(value: str, before: str, behind: str) -> None:
    """The differential oracle is the parser of the standard library: one string, and nothing beside it."""
    template = (before + "{pointer:/v}" + behind).replace("{", "{{").replace("}", "}}")
    template = (
        template.replace("{{pointer:/v}}", "{pointer:/v}", 1) if "pointer" not in before else ""
    )
    if not template:
        return
    document = {"a": template, "b": "x"}
    made = shaped({"body": document}, event({"v": value})).message.body
    alone = not before and not behind
    assert json.loads(made) == {"a": value if alone else before + value + behind, "b": "x"}


@given(TEXTS)
def test_a_segment_of_a_path_stays_one_segment(value: str) -> None:
    """Empty and dot segments name another resource, and half a character none: these are refused."""
    try:
        target = shaped({"path": "/tickets/{pointer:/v}/notes"}, event({"v": value})).target
    except Unshapeable:
        assert unquote(value) in {"", ".", ".."} or value in {"", ".", ".."} or "\ud83d" in value
        return
    parts = urlsplit("https://t.example" + target)
    assert parts.path.split("/") == ["", "v2", "tickets", quote(value, safe=""), "notes"]
    assert unquote(parts.path.split("/")[3]) == value
    assert parts.query == "key=1"
    assert not parts.fragment


@given(st.dictionaries(st.text("abc&= é", min_size=1, max_size=4), TEXTS, min_size=1, max_size=3))
def test_a_query_and_a_form_are_those_of_the_standard_library(values: dict[str, str]) -> None:
    """Every parameter comes out as it went in, and there are no others."""
    templates = {name: f"{{pointer:/{n}}}" for n, name in enumerate(values)}
    of = event({str(n): value for n, value in enumerate(values.values())})
    try:
        made = shaped({"query": templates, "body": {"form": templates}}, of)
    except Unshapeable:
        assert any("\ud83d" in value for value in values.values())
        return
    query = urlsplit("https://t.example" + made.target).query
    assert parse_qsl(query, keep_blank_values=True)[1:] == [*values.items()]
    assert made.message.body.decode() == urlencode(values)


@given(TEXTS)
def test_a_header_is_one_line(value: str) -> None:
    """A value with a control character is refused; any other comes out without the spaces around it."""
    try:
        made = shaped({"headers": {"x-order": "{pointer:/v}"}}, event({"v": value}))
    except Unshapeable:
        assert any(
            ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 or 0xD800 <= ord(each) < 0xE000
            for each in value
        )
        return
    assert dict(made.message.headers)["x-order"] == value.strip(" \t")
    assert not set(value.strip(" \t")) & {"\r", "\n", "\0"}


@given(TEXTS.filter(lambda text: "\ud83d" not in text))
def test_a_plain_text_is_the_text(value: str) -> None:
    """A text has no syntax: nothing in it is escaped."""
    made = shaped({"body": {"text": "<{pointer:/v}>"}}, event({"v": value})).message
    assert made.body.decode() == f"<{value}>"


@given(JSON, JSON)
def test_different_values_make_different_bodies(one: object, other: object) -> None:
    """Inserting loses nothing: two events that differ in a named value differ in the request."""
    bodies = [
        shaped({"body": {"a": "{pointer:/v}", "b": ["{$data}"]}}, event({"v": value})).message.body
        for value in (one, other)
    ]
    assert (bodies[0] == bodies[1]) == (encode_value(one) == encode_value(other))
