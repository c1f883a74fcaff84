"""Requests with faults in attributes, which are missing, empty, wrongly named, malformed or
repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bad_request import (
    GOOD,
    OPTIONAL,
    REQUIRED,
    STRUCTURED,
    BadRequest,
    binary,
    document,
    raw,
    structured,
)


def missing() -> Iterator[BadRequest]:
    for name in REQUIRED:
        yield binary(f"without {name}", "missing-attribute", drop=name)
        yield structured(f"without {name}", "missing-attribute", drop=name)
        yield structured(f"with {name} null", "missing-attribute", **{name: None})
    yield binary("without id and type", *["missing-attribute"] * 2, drop="id type")
    yield structured("without id and type", *["missing-attribute"] * 2, drop="id type")
    yield structured("with nothing at all", *["missing-attribute"] * 4, drop=" ".join(REQUIRED))
    yield binary(
        "with four faults at once",
        "bad-attribute-name", "missing-attribute", "empty-attribute", "bad-timestamp",
        drop="id", type="", time="noon", my_ext="1",
    )  # fmt: skip


def empty() -> Iterator[BadRequest]:
    for name in REQUIRED + OPTIONAL:
        yield binary(f"with {name} empty", "empty-attribute", **{name: ""})
        yield structured(f"with {name} empty", "empty-attribute", **{name: ""})


BAD_HEADER_NAMES = (
    "my-ext", "my_ext", "my.ext", "", "data", "data_base64", "data-base64", "a+b", "~", "a'b",
)  # fmt: skip

BAD_MEMBER_NAMES = (
    "myExt", "MYEXT", "my-ext", "my_ext", "my ext", "", "my.ext", "\u00e9t\u00e9", "a/b", "a~b",
    "\u0661", "ext\n", "Time", "ID",
)  # fmt: skip


def names() -> Iterator[BadRequest]:
    for name in BAD_HEADER_NAMES:
        yield binary(
            f"with header ce-{name}", "bad-attribute-name", add=((b"ce-" + name.encode(), b"x"),)
        )
    for name in BAD_MEMBER_NAMES:
        yield structured(f"with member {name!a}", "bad-attribute-name", **{name: "x"})
    yield structured("with an extensions object of 0.1", "wrong-type", extensions={"a": "b"})


BAD_TIMES = (
    "noon", "2026-11-20", "10:00:00Z", "2026-11-20T10:00Z", "2026-11-20T10Z", "2026-11-20T10:00:00",
    "2026-11-20T10:00:00+05", "2026-11-20T10:00:00+0500", "2026-11-20T10:00:00+5:00",
    "2026-11-20T24:00:00Z", "2026-11-20T10:60:00Z", "2026-11-20T10:00:61Z", "2026-13-01T10:00:00Z",
    "2026-00-01T10:00:00Z", "2026-11-00T10:00:00Z", "2026-11-31T10:00:00Z", "2026-02-29T10:00:00Z",
    "1900-02-29T10:00:00Z", "2026-W47-5T10:00:00Z", "2026-324T10:00:00Z", "20261120T100000Z",
    "2026-11-20_10:00:00Z", "2026-11-20T10:00:00.Z", "2026-11-20T10:00:00,5Z",
    "2026-11-20T10:00:00+24:00", "2026-11-20T10:00:00+05:60", "2026-11-20T10:00:00ZZ",
    "2026-11-20T10:00:00 Z", "+2026-11-20T10:00:00Z", "26-11-20T10:00:00Z", "1763632800",
    "2026-1-2T10:00:00Z", "2026-11-20T1:00:00Z", "Fri, 20 Nov 2026 10:00:00 GMT",
)  # fmt: skip


def times() -> Iterator[BadRequest]:
    for time in BAD_TIMES:
        yield binary(f"with time {time}", "bad-timestamp", time=time.replace(" ", "%20"))
        yield structured(f"with time {time}", "bad-timestamp", time=time)
    yield structured(
        "with time in Arabic digits", "bad-timestamp", time="\u0662026-11-20T10:00:00Z"
    )


FORBIDDEN = {
    "U+0000": "\0", "U+0001": "\x01", "a tab": "\t", "a line feed": "\n", "a carriage return": "\r",
    "U+001F": "\x1f", "U+007F": "\x7f", "U+0080": "\x80", "U+009F": "\x9f", "U+FDD0": "\ufdd0",
    "U+FDEF": "\ufdef", "U+FFFE": "\ufffe", "U+FFFF": "\uffff", "U+1FFFE": "\U0001fffe",
    "U+10FFFF": "\U0010ffff",
}  # fmt: skip


def characters() -> Iterator[BadRequest]:
    for name, character in FORBIDDEN.items():
        coded = "".join(f"%{byte:02X}" for byte in character.encode())
        yield binary(f"with {name} in id", "forbidden-character", id=f"a{coded}b")
        yield binary(f"with {name} in an extension", "forbidden-character", ext=f"{coded}")
        yield structured(f"with {name} in subject", "forbidden-character", subject=f"a{character}b")
        yield raw(
            f"with raw or escaped {name} in an extension", _string(character), "forbidden-character"
        )
    yield binary("with a raw tab in subject", "forbidden-character", subject="a\tb")


def _string(character: str) -> bytes:
    """Return a JSON member whose text is this character, escaped where JSON requires it and raw
    elsewhere.
    """
    escaped = json.dumps(character) if character < " " else f'"{character}"'
    return b'"ext":' + escaped.encode()


BAD_CODES = (
    "%C0%A0", "%ED%A0%80", "%ED%B0%80", "%ED%A0%80%ED%B0%80", "%E2", "%E2%", "%E2%82", "%E2x",
    "%E2%E2", "%82", "%FF", "%FE%FF", "%F5%80%80%80", "%F4%90%80%80", "%F0%80%80%80", "%E0%80%80",
    "%E2%zz", "100%%E2", "%e2%8", "%C3%28",
)  # fmt: skip


BAD_BYTES = {
    "latin-1": b"caf\xe9", "0xFF": b"\xff", "a cut sequence": b"\xe2\x82",
    "an overlong": b"\xc0\x80", "a surrogate": b"\xed\xa0\x80",
}  # fmt: skip


def encodings() -> Iterator[BadRequest]:
    for code in BAD_CODES:
        yield binary(f"with {code} in subject", "bad-utf8", subject=code)
    for name, value in BAD_BYTES.items():
        yield binary(f"with raw {name} in subject", "bad-utf8", subject=value)
        yield binary(f"with raw {name} in id", "bad-utf8", id=value)
        yield raw(f"with raw {name} in subject", b'"subject":"' + value + b'"', "bad-utf8")
        yield raw(f"with raw {name} in data", b'"data":{"a":"' + value + b'"}', "bad-utf8")
        yield raw(f"with raw {name} in a name", b'"a' + value + b'":1', "bad-utf8")
    utf16 = json.dumps(GOOD).encode("utf-16")
    yield document("in UTF-16 that is not declared", utf16, "bad-utf8")


BAD_REFERENCES = (
    "a b", "<s>", "a|b", "a\\b", "^", "`", "{s}", "a#b#c", "/%zz", "/%4", "caf\u00e9", '"s"',
)  # fmt: skip

BAD_SCHEMAS = (
    "/schema", "schema.json", "//host/schema?q", "#s", "?q", "1http://h", "http//h", ":x",
    "http://h/a b",
)  # fmt: skip

BAD_MEDIA_TYPES = (
    "xyz", "application/", "/json", "application json", "a/b/c", "text/plain; charset",
    "text/plain; =x", "text/plain charset=x", "text/pl\u00e4in", 'text/plain; a="b', "*", ",",
)  # fmt: skip

BAD_VERSIONS = (
    "0.1-wip", "0.2.0", "0.4-wip", "0.9", "1.0-rc2", "1.0-RC1", "1", "1.1", "1.0.2", "2.0", "v1.0",
    "\u0661.0",
)  # fmt: skip


def references() -> Iterator[BadRequest]:
    for source in BAD_REFERENCES:
        coded = "".join(f"%{byte:02X}" for byte in source.encode())
        yield binary(f"with source {source!a}", "bad-uri-reference", source=coded)
        yield structured(f"with source {source!a}", "bad-uri-reference", source=source)
    for schema in BAD_SCHEMAS:
        yield binary(f"with dataschema {schema}", "bad-uri", dataschema=schema.replace(" ", "%20"))
        yield structured(f"with dataschema {schema}", "bad-uri", dataschema=schema)
    for media_type in BAD_MEDIA_TYPES:
        yield binary(
            f"with content type {media_type!a}", "bad-media-type", datacontenttype=media_type
        )
        yield structured(
            f"with datacontenttype {media_type!a}",
            "bad-media-type",
            datacontenttype=media_type,
            data="x",
        )
    for version in BAD_VERSIONS:
        coded = version if version.isascii() else "%D9%A1.0"
        yield binary(f"with specversion {version!a}", "unsupported-specversion", specversion=coded)
        yield structured(
            f"with specversion {version!a}", "unsupported-specversion", specversion=version
        )


def repeats() -> Iterator[BadRequest]:
    for name in (*REQUIRED, "subject", "ext"):
        pair = ((f"ce-{name}".encode(), b"other"),)
        first = {} if name in REQUIRED else {name: "x"}
        yield binary(f"with ce-{name} twice", "repeated-attribute", add=pair, **first)
    yield binary(
        "with content-type twice", "repeated-attribute", add=((b"content-type", b"text/plain"),)
    )
    yield binary(
        "that is structured as well", "repeated-attribute", add=((b"content-type", STRUCTURED),)
    )
    other = ((b"ce-datacontenttype", b"text/plain"),)
    yield binary("with another ce-datacontenttype", "unexpected-datacontenttype", add=other)
    yield binary(
        "with ce-datacontenttype alone",
        "unexpected-datacontenttype",
        add=other,
        drop="datacontenttype",
    )
