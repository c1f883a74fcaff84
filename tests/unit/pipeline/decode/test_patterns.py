"""What the native way takes for clear is taken by ``app.event`` too: at least as strict (ADR 0021)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.event.media_types import parse
from app.event.types import (
    binary,
    forbidden_character,
    is_integer,
    is_timestamp,
    is_uri,
    is_uri_reference,
)
from app.event.versions import VERSIONS
from app.pipeline.decode import json_patterns, patterns
from bad_attributes import BAD_TIMES
from example_counts import examples


def in_python(pattern: str) -> re.Pattern[str]:
    """Java's dialect as Python has it; both know possessive repetition."""
    text = re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: f"\\U{int(m[1], 16):08x}", pattern)
    return re.compile(text.replace(r"\z", r"\Z"))


URIS = st.text("ab1:/?#@[]%2F.-_~!$&'()*+,;= \u00e9\"", max_size=14)
DIGITS = st.from_regex(r"[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,3})?([Zz]|[+-][0-2][0-9]:[0-6][0-9])?", fullmatch=True)  # fmt: skip
TYPES = st.text('ab/;= +*"\\.,charset', max_size=16)
BASE64 = st.text("AQgw09+/=_-", max_size=9)

RULES = [
    (patterns.URI, is_uri, URIS),
    (patterns.URI_REFERENCE, is_uri_reference, URIS),
    (patterns.TIMESTAMP, is_timestamp, DIGITS),
    (patterns.MEDIA_TYPE, parse, TYPES),
    (patterns.INTEGER, is_integer, st.integers(-(2**33), 2**33).map(str) | st.text("-01", max_size=4)),
    (patterns.BASE64, lambda text: binary(text) is not None, BASE64),
    (patterns.PRINTABLE, lambda text: forbidden_character(text) is None, st.text(max_size=4)),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "accepts", "texts"), RULES)
def test_what_is_clear_is_valid(
    pattern: str, accepts: object, texts: st.SearchStrategy[str]
) -> None:
    clear = in_python(pattern)

    @examples(500)
    @given(texts)
    def check(text: str) -> None:
        if clear.fullmatch(text):
            assert accepts(text), text  # type: ignore[operator]

    check()


GOOD_URIS = ["/", "#f", "urn:a:b", "https://example.com/a?b=c", "../x", "a%20b", "//h/x", "https://h:80", "a/b:c"]  # fmt: skip
GOOD_TIMES = ["2026-11-20T10:00:00Z", "2024-02-29t10:00:00.123456789z", "2026-12-31T23:59:60-00:00"]


@pytest.mark.parametrize("text", GOOD_URIS)
def test_usual_references_are_clear(text: str) -> None:
    assert in_python(patterns.URI_REFERENCE).fullmatch(text)


@pytest.mark.parametrize("text", GOOD_TIMES)
def test_usual_times_are_clear(text: str) -> None:
    assert in_python(patterns.TIMESTAMP).fullmatch(text)


@pytest.mark.parametrize("text", BAD_TIMES)
def test_bad_times_are_not(text: str) -> None:
    assert not in_python(patterns.TIMESTAMP).fullmatch(text)


def test_every_rule_of_every_version_has_a_pattern() -> None:
    """A further row in the table of versions must not be passed without being looked at."""
    for version in VERSIONS.values():
        for rule in version.rules.values():
            assert patterns.value_pattern(rule)


ENVELOPE = in_python(json_patterns.ENVELOPE)
PLAIN = ['{"id":"1","data":""}', ' { "id" : "1" , "n":5,"b":true, "data":"" } ', '{"data_base64":"","id":"1"}', '{"extensions":{"a":1,"B":"x"}}', '{"id":"a\\"b"}']  # fmt: skip
NOT_PLAIN = ['{"id":5}', '{"id":"1",}', '{"data":"x"}', '{"data" : ""}', '{"id":null}', '{"extensions":{}}', '{"extensions":{"data":""}}', '{"x\\"data":""}', "{}x", '{"a":1.5}', '{"id":"\ufffd"}']  # fmt: skip


@pytest.mark.parametrize("text", PLAIN)
def test_plain_envelopes(text: str) -> None:
    assert ENVELOPE.match(text)


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_other_envelopes_are_in_doubt(text: str) -> None:
    assert not ENVELOPE.match(text)


TAIL = in_python(json_patterns.TAIL)


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        ('{"a":1},"id":"1"', ',"id":"1"'),
        ('{"a":1,"id":"1"}', None),
        ('"x" , "n" : 5 , "b":true', ', "n" : 5 , "b":true'),
        ('{},"extensions":{"a":"b"}', ',"extensions":{"a":"b"}'),
        ('{},"data":"2"', None),
        ('{},"id":1.5', None),
        ('{},"a":"b",', None),
    ],
)
def test_the_members_that_follow_the_data(text: str, tail: str | None) -> None:
    found = TAIL.search(text)
    assert (found and found[0]) == tail
