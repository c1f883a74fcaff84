from __future__ import annotations

from calendar import isleap

import pytest

from app.event.types import (
    binary,
    forbidden_character,
    is_integer,
    is_name,
    is_timestamp,
    is_uri,
    is_uri_reference,
)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20T10:00:00Z", "2026-11-20t10:00:00z", "2026-11-20T10:00:00.1Z",
        "2026-11-20T10:00:00.123456789Z", "2026-11-20T10:00:00.1234567890123456789+05:30",
        "2026-11-20T10:00:00-00:00", "2026-12-31T23:59:60Z", "2024-02-29T00:00:00Z",
        "2000-02-29T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59+23:59",
        "2026-04-30T00:00:00Z", "2026-01-31T00:00:00Z",
    ],
)  # fmt: skip
def test_every_rfc_3339_timestamp_is_taken(text: str) -> None:
    """Nanoseconds, lower case, leap seconds and -00:00 are legal (core 1.3, trap 10)."""
    assert is_timestamp(text)


@pytest.mark.parametrize("month", range(1, 13))
def test_a_month_ends_when_the_calendar_says_so(month: int) -> None:
    """The 31st of a short month is no date (core 1.3)."""
    days = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month]

    assert is_timestamp(f"2026-{month:02}-{days}T00:00:00Z")
    assert not is_timestamp(f"2026-{month:02}-{days + 1}T00:00:00Z")


def test_every_leap_year_has_a_29th_of_february_and_no_other() -> None:
    """Also the years of a century, and the year 0 (core 1.3)."""
    leap = [year for year in range(10_000) if is_timestamp(f"{year:04}-02-29T00:00:00Z")]

    assert leap == [year for year in range(10_000) if isleap(year)]
    assert not any(is_timestamp(f"{year:04}-02-30T00:00:00Z") for year in leap)


@pytest.mark.parametrize("text", ["0", "-1", "2147483647", "-2147483648", "-0"])
def test_a_32_bit_integer_is_an_integer(text: str) -> None:
    """Core 1.3: the range of the type, both ends included."""
    assert is_integer(text)


@pytest.mark.parametrize(
    "text", ["", "+1", "01", "1.0", "1e3", "2147483648", "-2147483649", "9" * 5000, "1 ", "٣", "-"]
)
def test_anything_else_is_no_integer(text: str) -> None:
    """Core 1.3: no plus, no leading zero, no fraction, and 5,000 digits cost nothing."""
    assert not is_integer(text)


@pytest.mark.parametrize(
    "text",
    [
        "/", "#fragment", "?query", "urn:a:b", "https://example.com/a?b=c#d", "../a", "//host/path",
        "mailto:a@b.c", "urn:uuid:0-1", "http://[::1]:80/", "a%20b", "/a(b)*!$&',;=",
        "./12:34", "a/b:c", "?a:b", "https://github.com/o/r",
    ],
)  # fmt: skip
def test_every_uri_reference_is_taken(text: str) -> None:
    """Relative references and fragments alone are legal sources (core 1.1)."""
    assert is_uri_reference(text)


@pytest.mark.parametrize(
    "text", ["", "a b", "a\n", "é", "a#b#c", "%", "%4", "%zz", "<a>", '"', "a\\b", "12:34", "a_b:c"]
)
def test_what_rfc_3986_does_not_allow_is_no_uri_reference(text: str) -> None:
    """Core 1.3: URI-reference as RFC 3986 4.1 has it."""
    assert not is_uri_reference(text)


def test_a_uri_needs_a_scheme() -> None:
    """``dataschema`` is absolute (core 1.1); a fragment is let pass."""
    assert is_uri("https://example.com/schema#part")
    assert is_uri("urn:schema:1")
    assert not is_uri("//example.com/schema")
    assert not is_uri("schema.json")


@pytest.mark.parametrize("name", ["a", "0", "com1", "a" * 21, "a" * 1000])
def test_names_of_any_length_are_names(name: str) -> None:
    """20 characters are advice, never a reason to refuse (core 1.2, trap 14)."""
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "A", "a-b", "a_b", "data", "é", "a\n", "٣"])
def test_other_names_are_none(name: str) -> None:
    """Core 1.2."""
    assert not is_name(name)


@pytest.mark.parametrize(
    "character",
    ["\x00", "\x1f", "\x7f", "\x80", "\x9f", "\ud800", "\udfff", "\ufdd0", "\ufdef"]
    + [chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF)],
    ids=ascii,
)
def test_a_forbidden_character_is_found_where_it_stands(character: str) -> None:
    """Core 1.3: controls, surrogates and all 66 noncharacters."""
    assert forbidden_character(f"né{character}") == 2


@pytest.mark.parametrize(
    "text", ["", " ~", "\xa0", "é€😀", "\ufdcf\ufdf0\ufffd", "\U0001fffd", "\u200b"]
)
def test_every_other_character_is_allowed(text: str) -> None:
    """Core 1.3: all Unicode but those."""
    assert forbidden_character(text) is None


@pytest.mark.parametrize(
    ("text", "data"), [("", b""), ("AA==", b"\0"), ("AAA=", b"\0\0"), ("+/+/", b"\xfb\xff\xbf")]
)
def test_canonical_base64_is_decoded(text: str, data: bytes) -> None:
    """Core 1.3: Binary."""
    assert binary(text) == data


@pytest.mark.parametrize(
    "text", ["A", "AA", "AAAA=", "AAAA====", "AA=A", "A\nAAA", "AA-_", "é===", "AA==AA=="]
)
def test_other_base64_is_refused(text: str) -> None:
    """Python's decoder skips what it does not know, and even its strict mode lets ``AAAA=`` pass."""
    assert binary(text) is None
