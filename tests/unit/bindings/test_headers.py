from __future__ import annotations

import pytest

from app.bindings.headers import count_joined, malformed, percent_decode, percent_encode

ROUND_TRIPS = {
    "simple": "simple",
    "Euro € 😀": "Euro%20%E2%82%AC%20%F0%9F%98%80",
    'say "hi"': "say%20%22hi%22",
    "100%": "100%25",
    "a+b/c:d,e;f{g}~h": "a+b/c:d,e;f{g}~h",
    "é": "%C3%A9",
    "a\r\nb\x7f": "a%0D%0Ab%7F",
    "!#$&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~": "!#$&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~",
    "": "",
}


@pytest.mark.parametrize(("text", "coded"), ROUND_TRIPS.items())
def test_only_what_must_be_coded_is_coded(text: str, coded: str) -> None:
    """HTTP 3.1.3.2: space, double quote, percent and all outside U+0021 to U+007E; upper-case hex."""
    assert percent_encode(["x", text]) == ["x", coded]
    assert percent_decode(coded.encode()) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"lenient %30%31", "lenient 01"),
        (b"%e2%82%ac", "€"),
        (b"%41%2B+", "A++"),
        (b'"quoted"', "quoted"),
        (b'"a \\"quote\\" and \\\\"', 'a "quote" and \\'),
        (b'"%22"', '"'),
        (b"not \\escaped", "not \\escaped"),
        (b"%2541", "%41"),
        ("raw é€".encode(), "raw é€"),
        (b"raw space", "raw space"),
        (b'""', ""),
        (b" \t padded \t ", "padded"),
        (b'" kept "', " kept "),
    ],
)
def test_what_others_write_is_read(value: bytes, text: str) -> None:
    """HTTP 3.1.3.2: a quoted string first, then exactly one round; needless coding is accepted."""
    assert percent_decode(value) == text
    assert malformed(value) is None


@pytest.mark.parametrize(
    "value",
    [
        b"%C0%A0",
        b"%ED%A0%80",
        b"%ED%B0%80",
        b"%E2",
        b"%E2x",
        b"%82",
        b"%E2%E2",
        b"%FF",
        b"caf\xe9",
        b"%E2%zz",
    ],
)
def test_invalid_utf8_is_always_refused(value: bytes) -> None:
    """HTTP 3.1.3.2: overlong forms, surrogates and cut sequences among it."""
    with pytest.raises(UnicodeDecodeError):
        percent_decode(value)


@pytest.mark.parametrize(
    "value", [b"100%", b"%", b"%0", b"%g0", b"%0g", b"a % b", b'5" disk', b'"open', b'"open \\"']
)
def test_a_malformed_value_is_kept_as_it_is_and_can_be_told(value: bytes) -> None:
    """Senders that do not encode exist; a strict reader refuses them (design: header values)."""
    assert percent_decode(value) == value.decode()
    assert malformed(value) is not None


@pytest.mark.parametrize("end", [b"", b"\\", b'"'])
def test_a_long_value_costs_no_more_than_its_length(end: bytes) -> None:
    """A pattern that starts anew at each quote would take minutes over this one."""
    value = b'"' + b'\\"' * 100_000 + end

    assert len(percent_decode(value)) >= 100_000
    malformed(value)


@pytest.mark.parametrize(
    ("value", "times"),
    [
        (b"1.0", 1),
        (b"1.0, 1.0", 2),
        (b"0.3, 0.3, 0.3", 3),
        (b"1.0, 0.3", 1),
        (b"1.0,1.0", 1),
        (b"1.0, 1.0 ", 1),
    ],
)
def test_only_equal_values_show_that_headers_were_joined(value: bytes, times: int) -> None:
    """RFC 9110 5.3: on a version that differs from itself nothing else is taken apart."""
    assert count_joined(value) == times
