"""JSON: its grammar against Python's parser, and the fast readers of events against the general one."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, NoReturn

from app.bindings.record import ContentMode, Decoded
from app.errors import InvalidEvent, SenderError
from app.event import json_text
from app.formats.json import read_batch, read_event, write_batch, write_event
from fuzz.target import Target
from reading_checks import answered
from valid_wire import DOCUMENTS

_TOKENS = [
    b'"specversion"', b'"1.0"', b'"0.3"', b'"data"', b'"data_base64"', b'"datacontenttype"', b'"application/json"',
    b"\\ud83d", b"\\ude00", b"\\\\", b"1e999", b"-0", b"\xff", b"\xef\xbb\xbf", b"null", b"true", b"[[", b"}}", b'":',
]  # fmt: skip
_TEXTS = [
    b'{"a":[1.10,null,"\\u00e9\\ud83d"],"\\ud83d":{}}',
    b'[1e400,{"a":"b"},"\\\\ud83d"]',
    b' "x" ',
]
_DOCUMENTS = [each for each in DOCUMENTS if each.lstrip()[:1] in {b"{", b"["}]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _opinion(text: bytes) -> tuple[bool, Any]:
    """Return whether Python's parser accepts the text as JSON, and what it reads. Numbers become floats."""
    if text.startswith(b"\xef\xbb\xbf"):
        return False, None
    try:
        return True, json.loads(
            text.decode(), parse_int=float, parse_float=float, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        return False, None


def check_text(data: bytes) -> None:
    """Accept what Python accepts, and return each value as its text."""
    is_json, meant = _opinion(data)
    try:
        value = json_text.single_value(data)
    except json_text.NOT_JSON:
        assert not is_json or data.count(b"[") + data.count(b"{") > 500, "JSON is refused"
        return
    assert is_json or not json_text.is_utf8(data) or _is_deep(data), "no JSON is accepted"
    if not is_json:
        return
    assert _opinion(json_text.compact(value)) == (True, meant)
    json_text.decode_value(data)
    json_text.encode_value(json_text.decode_lossless(data))
    if isinstance(meant, dict):
        found = json_text.members(value)
        assert {name: _opinion(bytes(raw)) for name, raw in found.items()} == {
            name: (True, each) for name, each in meant.items()
        }
    elif isinstance(meant, list):
        assert [_opinion(bytes(raw)) for raw in json_text.items(value)] == [
            (True, each) for each in meant
        ]
    elif isinstance(meant, str):
        assert json_text.string(value) == meant


def _is_deep(data: bytes) -> bool:
    """Return True if Python's parser may refuse the depth of the text."""
    return data.count(b"[") + data.count(b"{") > 500


def check_event(data: bytes) -> None:
    """Read a document, write it again, and read the same event."""
    answered(lambda: [Decoded(read_event(data), ContentMode.STRUCTURED)])
    try:
        event = read_event(data)
    except SenderError:
        return
    again = read_event(write_event(event))
    if again.version == event.version:
        assert again == event
    if event.data is not None and b'"data_base64"' not in data:
        spaced = read_event(b" \n" + data.removeprefix(b"\xef\xbb\xbf") + b" ")
        assert spaced == event


def check_batch(data: bytes) -> None:
    """Read the events of a batch as if each came alone."""
    answered(lambda: [Decoded(event, ContentMode.BATCH) for event, _ in read_batch(data, 100)])
    try:
        found = list(read_batch(data))
    except SenderError:
        return
    for event, document in found:
        assert read_event(document) == event
    assert list(read_batch(write_batch([document for _, document in found]))) == found
    versions = {event.version for event, _ in found}
    assert len(versions) <= 1
    for (one, _), (other, _) in pairwise(found):
        alone = write_batch([write_event(one), write_event(other)])
        try:
            assert [each.id for each, _ in read_batch(alone)] == [one.id, other.id]
        except InvalidEvent:  # one of them is written in a newer version
            assert one.version != "1.0"


TARGETS = (
    Target("json-text", check_text, _TEXTS, _TOKENS),
    Target("json-event", check_event, _DOCUMENTS, _TOKENS),
    Target(
        "json-batch",
        check_batch,
        [*_DOCUMENTS, write_batch(_DOCUMENTS[:1] * 6), write_batch([b" " + each for each in _DOCUMENTS[:2]] * 3)],
        _TOKENS,
    ),
)  # fmt: skip
