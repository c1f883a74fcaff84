from __future__ import annotations

import pytest

from app.event.media_types import declares_json, parse


@pytest.mark.parametrize(
    "text",
    [
        "application/json", "Application/JSON", "text/json", "application/vnd.a_b+json", "model/x+json",
        "application/json;charset=utf-8", "application/json ; charset=utf-8", " application/json ;",
        'application/json; a="x; y/z"', "application/problem+JSON; a=b; c=d",
    ],
)  # fmt: skip
def test_json_types_are_recognised_in_any_spelling(text: str) -> None:
    """J6: any top-level type, any case, with parameters and odd spaces (trap 4)."""
    assert declares_json(text)


@pytest.mark.parametrize(
    "text",
    ["text/plain", "application/jsonx", "application/x-json", "json", "application/json5", ""],
)
def test_other_types_are_not_json(text: str) -> None:
    """J6: neither ``/json`` nor ``+json`` at the end."""
    assert not declares_json(text)


def test_no_type_means_json() -> None:
    """J6: in the JSON format, absence of datacontenttype declares JSON."""
    assert declares_json(None)


@pytest.mark.parametrize(
    ("text", "charset"),
    [
        ("text/plain; CharSet=UTF-8", "utf-8"),
        ('text/plain; charset="ISO-8859-1"', "iso-8859-1"),
        ("text/plain", None),
    ],
)
def test_the_charset_is_found_in_any_case(text: str, charset: str | None) -> None:
    """Parameter names are compared without regard to case (core 1.1)."""
    media_type = parse(text)

    assert media_type is not None
    assert media_type.charset == charset


def test_only_real_charsets_are_decoded() -> None:
    """Python's registry also holds codecs that are none, some of them slow: we have our own table."""
    for charset in ("zip", "base64", "punycode", "idna", "unicode_escape", "utf-7", "nosuch"):
        media_type = parse(f"text/plain; charset={charset}")
        assert media_type is not None
        with pytest.raises(UnicodeError, match="unknown charset"):
            media_type.decode(b"a")


def test_a_long_list_of_parameters_is_read_in_no_time() -> None:
    """A pattern that backtracks would take years over this one."""
    assert parse("a/b" + "; a=b" * 10_000 + "; c=") is None
    assert parse("a/b" + " " * 100_000 + "x") is None
    assert parse('a/b; c="' + "\\a" * 50_000) is None
