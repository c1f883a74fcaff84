"""Requests that must be refused, as data: each with its exact status, problem code and fault codes.

Rows not marked ``listener_only`` can be given to ``app.bindings.http.decode`` as they are; all rows
can be sent over a socket (header values hold no byte that an HTTP parser itself refuses). None may
publish anything, none may be answered 5xx.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

Headers = tuple[tuple[bytes, bytes], ...]

STRUCTURED = b"application/cloudevents+json"
BATCH = b"application/cloudevents-batch+json"
GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


@dataclass(frozen=True)
class BadRequest:
    """``faults`` are the fault codes in order; ``indexes`` their places in a batch, () outside one.

    ``listener_only``  only the listener can refuse it: a bound, a route, a key.
    """

    id: str
    headers: Headers
    body: bytes
    status: int
    code: str
    faults: tuple[str, ...] = ()
    indexes: tuple[int, ...] = ()
    method: str = "POST"
    target: str = "/events"
    listener_only: bool = False


def binary(
    name: str, *faults: str, drop: str = "", add: Headers = (), **headers: str | bytes
) -> BadRequest:
    """A good binary request with ``headers`` replaced (by attribute name), dropped or added."""
    values = {f"ce-{key}": value for key, value in GOOD.items()} | {
        "content-type": "application/json"
    }
    for key, value in headers.items():
        values["content-type" if key == "datacontenttype" else f"ce-{key}"] = value
    for key in drop.split():
        values.pop("content-type" if key == "datacontenttype" else f"ce-{key}")
    pairs = tuple((key.encode(), _bytes(value)) for key, value in values.items())
    return BadRequest(f"binary {name}", pairs + add, b"{}", 400, "invalid-event", faults)


def document(name: str, body: bytes, *faults: str, content_type: bytes = STRUCTURED) -> BadRequest:
    """A structured request with this document."""
    headers = ((b"content-type", content_type),)
    return BadRequest(f"structured {name}", headers, body, 400, "invalid-event", faults)


def structured(name: str, *faults: str, drop: str = "", **members: object) -> BadRequest:
    """A good document with ``members`` replaced, dropped or added."""
    event = {key: value for key, value in (GOOD | members).items() if key not in drop.split()}
    return document(name, json.dumps(event).encode(), *faults)


def raw(name: str, members: bytes, *faults: str) -> BadRequest:
    """A good document with the raw text of further members at its end."""
    return document(name, json.dumps(GOOD).encode()[:-1] + b"," + members + b"}", *faults)


def batch(name: str, elements: list[object], *faults: tuple[int, str]) -> BadRequest:
    """A batch of these elements; each fault with its index."""
    return BadRequest(
        f"batch {name}",
        ((b"content-type", BATCH),),
        json.dumps(elements).encode(),
        400,
        "invalid-event",
        tuple(code for _, code in faults),
        tuple(index for index, _ in faults),
    )


def refused(
    name: str,
    status: int,
    code: str,
    *faults: str,
    content_type: bytes = b"",
    body: bytes = b"{}",
    headers: Headers = (),
) -> BadRequest:
    """A request that is refused as a whole."""
    pairs = ((b"content-type", content_type), *headers) if content_type else headers
    return BadRequest(name, pairs, body, status, code, faults)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


REQUIRED = ("specversion", "id", "source", "type")
OPTIONAL = ("datacontenttype", "dataschema", "subject", "time")


def missing() -> Iterator[BadRequest]:
    for name in REQUIRED:
        yield binary(f"without {name}", "missing-attribute", drop=name)
        yield structured(f"without {name}", "missing-attribute", drop=name)
        yield structured(f"with {name} null", "missing-attribute", **{name: None})  # J2
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


def names() -> Iterator[BadRequest]:
    for name in (
        "my-ext",
        "my_ext",
        "my.ext",
        "",
        "data",
        "data_base64",
        "data-base64",
        "a+b",
        "~",
        "a'b",
    ):
        yield binary(
            f"with header ce-{name}", "bad-attribute-name", add=((b"ce-" + name.encode(), b"x"),)
        )
    for name in (
        "myExt",
        "MYEXT",
        "my-ext",
        "my_ext",
        "my ext",
        "",
        "my.ext",
        "\u00e9t\u00e9",
        "a/b",
        "a~b",
        "\u0661",
        "ext\n",
        "Time",
        "ID",
    ):
        yield structured(f"with member {name!a}", "bad-attribute-name", **{name: "x"})
    yield structured("with an extensions object of 0.1", "wrong-type", extensions={"a": "b"})  # J3


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
    """Escaped where JSON says so, raw where it allows."""
    escaped = json.dumps(character) if character < " " else f'"{character}"'
    return b'"ext":' + escaped.encode()


BAD_CODES = (
    "%C0%A0", "%ED%A0%80", "%ED%B0%80", "%ED%A0%80%ED%B0%80", "%E2", "%E2%", "%E2%82", "%E2x",
    "%E2%E2", "%82", "%FF", "%FE%FF", "%F5%80%80%80", "%F4%90%80%80", "%F0%80%80%80", "%E0%80%80",
    "%E2%zz", "100%%E2", "%e2%8", "%C3%28",
)  # fmt: skip


def encodings() -> Iterator[BadRequest]:
    for code in BAD_CODES:
        yield binary(f"with {code} in subject", "bad-utf8", subject=code)
    for name, value in {
        "latin-1": b"caf\xe9",
        "0xFF": b"\xff",
        "a cut sequence": b"\xe2\x82",
        "an overlong": b"\xc0\x80",
        "a surrogate": b"\xed\xa0\x80",
    }.items():
        yield binary(f"with raw {name} in subject", "bad-utf8", subject=value)
        yield binary(f"with raw {name} in id", "bad-utf8", id=value)
        yield raw(f"with raw {name} in subject", b'"subject":"' + value + b'"', "bad-utf8")
        yield raw(f"with raw {name} in data", b'"data":{"a":"' + value + b'"}', "bad-utf8")
        yield raw(f"with raw {name} in a name", b'"a' + value + b'":1', "bad-utf8")
    utf16 = json.dumps(GOOD).encode("utf-16")
    yield document("in UTF-16 that is not declared", utf16, "bad-utf8")


def pills() -> Iterator[BadRequest]:
    """Reliability 4.1: what makes one JSON reader or another fail, or disagree with its neighbour."""
    deep = 100_000
    yield raw("with a repeated member", b'"id":"2"', "duplicate-member")
    yield raw("with a repeated equal member", b'"id":"1"', "duplicate-member")
    yield raw("with a member repeated through an escape", b'"\\u0069d":"2"', "duplicate-member")
    yield raw("with two data", b'"data":1,"data":2', "duplicate-member")
    yield raw("with two members repeated", b'"id":"2","type":"u"', *["duplicate-member"] * 2)
    yield raw("with a repeated null extension", b'"ext":null,"ext":null', "duplicate-member")
    yield raw("with arrays too deep", b'"data":' + b"[" * deep + b"]" * deep, "json-too-deep")
    yield raw(
        "with objects too deep", b'"data":' + b'{"a":' * deep + b"1" + b"}" * deep, "json-too-deep"
    )
    yield raw("with arrays opened only", b'"data":' + b"[" * deep, "json-too-deep")
    for name in (
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"nan",
        b"undefined",
        b"True",
        b"'x'",
        b"01",
        b"1.",
        b".5",
        b"+1",
        b"0x10",
        b"1e",
        b"-",
        b"--1",
        b'"\\x41"',
        b'"\\u12"',
        b'"a\nb"',
        b'"a\x00b"',
        b'"open',
        b"[1,]",
        b'{"a":1,}',
        b"[1 2]",
        b"{1:2}",
        b"/* c */ 1",
    ):
        yield raw(f"with data {name.decode()!a}", b'"data":' + name, "bad-json")
    for name in (b'"\\ud800"', b'"\\udc00"', b'"\\ud800\\ud800"', b'"a\\udfffb"'):
        yield raw(f"with {name.decode()} in data", b'"data":' + name, "bad-json")
        yield raw(f"with {name.decode()} in subject", b'"subject":' + name, "bad-json")
    yield raw("with a lone surrogate for a name", b'"\\ud800":"x"', "bad-json")
    for name, text in {
        "nothing": b"",
        "white space": b"  \n",
        "a cut": b'{"id":"1"',
        "two documents": b"{}{}",
        "a word": b"hello",
        "a byte order mark alone": b"\xef\xbb\xbf",
        "two byte order marks": b"\xef\xbb\xbf\xef\xbb\xbf{}",
        "XML": b"<event/>",
    }.items():
        yield document(f"of {name}", text, "bad-json")
    for text in (b"null", b"1", b'"x"', b"true", b"[]", b"[{}]"):
        yield document(f"of {text.decode()}", text, "not-an-object")


def types() -> Iterator[BadRequest]:
    for name in REQUIRED + OPTIONAL:
        for value in (1, True, {"a": 1}, ["a"]):
            yield structured(f"with {name} {json.dumps(value)}", "wrong-type", **{name: value})
    for value in (b"1.5", b"5.0", b"1e3", b"-0.0", b"1e400", b"{}", b"[]", b'["a"]'):
        yield raw(f"with an extension {value.decode()}", b'"ext":' + value, "wrong-type")
    for name, value in {
        "2^31": b"2147483648",
        "-2^31-1": b"-2147483649",
        "of 40 digits": b"1" * 40,
        "of 5,000 digits": b"1" * 5000,
        "of 5,000 digits below zero": b"-" + b"9" * 5000,
    }.items():
        yield raw(f"with an integer {name}", b'"ext":' + value, "integer-out-of-range")
    yield raw("with two wrong extensions", b'"a":1.5,"b":[]', *["wrong-type"] * 2)


def data() -> Iterator[BadRequest]:
    yield raw("with data and data_base64", b'"data":1,"data_base64":"AA=="', "data-and-data-base64")
    yield raw(
        "with data null and data_base64",
        b'"data":null,"data_base64":"AA=="',
        "data-and-data-base64",
    )
    for text in (
        "A",
        "AA",
        "AAA",
        "AA=",
        "AAAA=",
        "AA==AA==",
        "AA==\n",
        " AA==",
        "A A=",
        "AA-_",
        "_w==",
        "\u00e9A==",
        "====",
        "AA\\==",
    ):
        yield structured(f"with data_base64 {text!a}", "bad-base64", data_base64=text)
    for value in (1, True, {}, ["AA=="]):
        yield structured(f"with data_base64 {json.dumps(value)}", "wrong-type", data_base64=value)
    for media_type in (
        "text/plain",
        "application/xml",
        "application/octet-stream",
        "application/jsonx",
    ):
        for value in (1, {"a": 1}, None):
            yield structured(
                f"with {media_type} data {json.dumps(value)}",
                "data-not-text",
                datacontenttype=media_type,
                data=value,
            )
    yield structured(
        "with text beyond its charset",
        "data-not-encodable",
        datacontenttype="text/plain; charset=iso-8859-1",
        data="\u20ac",
    )
    yield structured(
        "with text in an unknown charset",
        "data-not-encodable",
        datacontenttype="text/plain; charset=x-none",
        data="a",
    )


def references() -> Iterator[BadRequest]:
    for source in (
        "a b",
        "<s>",
        "a|b",
        "a\\b",
        "^",
        "`",
        "{s}",
        "a#b#c",
        "/%zz",
        "/%4",
        "caf\u00e9",
        '"s"',
    ):
        coded = "".join(f"%{byte:02X}" for byte in source.encode())
        yield binary(f"with source {source!a}", "bad-uri-reference", source=coded)
        yield structured(f"with source {source!a}", "bad-uri-reference", source=source)
    for schema in (
        "/schema",
        "schema.json",
        "//host/schema?q",
        "#s",
        "?q",
        "1http://h",
        "http//h",
        ":x",
        "http://h/a b",
    ):
        yield binary(f"with dataschema {schema}", "bad-uri", dataschema=schema.replace(" ", "%20"))
        yield structured(f"with dataschema {schema}", "bad-uri", dataschema=schema)
    for media_type in (
        "xyz",
        "application/",
        "/json",
        "application json",
        "a/b/c",
        "text/plain; charset",
        "text/plain; =x",
        "text/plain charset=x",
        "text/pl\u00e4in",
        'text/plain; a="b',
        "*",
        ",",
    ):
        yield binary(
            f"with content type {media_type!a}", "bad-media-type", datacontenttype=media_type
        )
        yield structured(
            f"with datacontenttype {media_type!a}",
            "bad-media-type",
            datacontenttype=media_type,
            data="x",
        )
    for version in (
        "0.1",
        "0.2",
        "0.3",
        "0.4-wip",
        "0.9",
        "1.0-rc1",
        "1",
        "1.1",
        "1.0.2",
        "2.0",
        "v1.0",
        "\u0661.0",
    ):
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


def batches() -> Iterator[BadRequest]:
    good, old = dict(GOOD), GOOD | {"specversion": "0.3"}
    yield batch(
        "with an element without id",
        [good, {k: v for k, v in GOOD.items() if k != "id"}],
        (1, "missing-attribute"),
    )
    yield batch(
        "with a bad time in the last", [good] * 9 + [GOOD | {"time": "noon"}], (9, "bad-timestamp")
    )
    yield batch(
        "with faults in two",
        [GOOD | {"id": ""}, good, GOOD | {"source": "a b"}],
        (0, "empty-attribute"),
        (2, "bad-uri-reference"),
    )
    yield batch(
        "with two faults in one",
        [good, GOOD | {"id": "", "Ext": "1"}],
        (1, "empty-attribute"),
        (1, "bad-attribute-name"),
    )
    yield batch(
        "of mixed versions", [good, old], (1, "unsupported-specversion"), (1, "mixed-specversions")
    )
    yield batch(
        "of mixed versions, the old one first",
        [old, good],
        (0, "unsupported-specversion"),
        (1, "mixed-specversions"),
    )
    yield batch(
        "of an old version",
        [old, old],
        (0, "unsupported-specversion"),
        (1, "unsupported-specversion"),
    )
    for value in (None, 1, "x", True, [], [good]):
        yield batch(f"with an element {json.dumps(value)[:8]}", [good, value], (1, "not-an-object"))
    yield batch(
        "with data twice",
        [good, GOOD | {"data": 1, "data_base64": "AA=="}],
        (1, "data-and-data-base64"),
    )
    yield batch("of empty objects", [{}], *[(0, "missing-attribute")] * 4)
    for text in (b"{}", b"null", b"1", json.dumps(GOOD).encode()):
        yield _whole_batch(f"of {text.decode()[:20]}", text, "not-an-array")
    for text in (b"", b"[", b"[{}", b"[{},]", b"[{} {}]", b"[]]", b"[NaN]"):
        yield _whole_batch(f"of {text.decode() or 'nothing'}", text, "bad-json")
    yield _whole_batch("of arrays too deep", b"[" * 100_000, "json-too-deep")
    yield _whole_batch("with bad UTF-8", b'["\xff"]', "bad-utf8")
    one = json.dumps(GOOD).encode()
    twice = one[:-1] + b',"id":"2"}'
    yield BadRequest(
        "batch with a repeated member",
        ((b"content-type", BATCH),),
        b"[" + one + b"," + twice + b"]",
        400,
        "invalid-event",
        ("duplicate-member",),
        (1,),
    )
    too_many = b"[" + b",".join([one] * 10_001) + b"]"
    yield refused("batch of too many", 413, "batch-too-large", content_type=BATCH, body=too_many)


def _whole_batch(name: str, body: bytes, *faults: str) -> BadRequest:
    return BadRequest(
        f"batch {name}", ((b"content-type", BATCH),), body, 400, "invalid-event", faults
    )


def media_types() -> Iterator[BadRequest]:
    for suffix in (
        b"+avro",
        b"+protobuf",
        b"+xml",
        b"+cbor",
        b"2",
        b"2+json",
        b"-foo",
        b"+jsonx",
        b"+",
        b"-batch+avro",
        b"-batch+protobuf",
        b"-batch2",
        b"+AVRO; x=y",
        b"+json x",
    ):
        content_type = b"application/cloudevents" + suffix
        yield refused(
            f"format {content_type.decode()}", 415, "unsupported-format", content_type=content_type
        )
    for charset in (b"x-unknown", b"zip", b"punycode", b"utf-7", b'"none"', b"base64"):
        yield refused(
            f"charset {charset.decode()}",
            415,
            "unsupported-charset",
            content_type=STRUCTURED + b"; charset=" + charset,
        )
    for parameters in (b"; charset", b"; =x", b'; a="b', b"; charset=\xff"):
        content_type = STRUCTURED + parameters
        yield document(f"as {content_type!r}", b"{}", "bad-media-type", content_type=content_type)
    for charset, body in {
        b"utf-16": b"{",
        b"us-ascii": b'{"id":"\xc3\xa9"}',
        b"shift_jis": b"\x80{",
    }.items():
        content_type = STRUCTURED + b"; charset=" + charset
        yield document(f"not in {charset.decode()}", body, "bad-charset", content_type=content_type)


def foreign() -> Iterator[BadRequest]:
    four = ["missing-attribute"] * 4
    for content_type in (
        b"application/json",
        b"text/plain",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data; boundary=x",
        b"application/xml",
        b"application/cloudevent+json",
    ):
        yield refused(
            f"foreign {content_type.decode()}",
            400,
            "not-a-cloudevent",
            *four,
            content_type=content_type,
        )
    yield refused("foreign without anything", 400, "not-a-cloudevent", *four, body=b"")
    yield refused("foreign without content type", 400, "not-a-cloudevent", *four)
    document_as_json = json.dumps(GOOD).encode()
    yield refused(
        "foreign document as plain JSON",
        400,
        "not-a-cloudevent",
        *four,
        content_type=b"application/json",
        body=document_as_json,
    )
    yield refused(
        "foreign with an extension only",
        400,
        "not-a-cloudevent",
        *four,
        headers=((b"ce-ext", b"x"),),
    )
    yield refused(
        "foreign prefix",
        400,
        "not-a-cloudevent",
        *four,
        headers=tuple((f"x-{k}".encode(), v.encode()) for k, v in GOOD.items()),
    )


def listener() -> Iterator[BadRequest]:
    """``/events/keyed`` stands for a route of that name whose key policy says ``missing: reject``."""
    good = tuple((f"ce-{key}".encode(), value.encode()) for key, value in GOOD.items())
    for method in ("POST", "PUT"):
        yield BadRequest(
            f"{method} to an unknown route",
            good,
            b"",
            404,
            "unknown-route",
            method=method,
            target="/events/nosuch",
            listener_only=True,
        )
        yield BadRequest(
            f"{method} without the key",
            good,
            b"",
            400,
            "missing-key",
            ("missing-key",),
            method=method,
            target="/events/keyed",
            listener_only=True,
        )
    yield BadRequest(
        "structured to an unknown route",
        ((b"content-type", STRUCTURED),),
        json.dumps(GOOD).encode(),
        404,
        "unknown-route",
        target="/events/nosuch",
        listener_only=True,
    )


def oversize(body_bytes: int, header_bytes: int, header_fields: int) -> list[BadRequest]:
    """Requests beyond the listener's bounds, one byte or field over each."""
    good = tuple((f"ce-{key}".encode(), value.encode()) for key, value in GOOD.items())
    wide = (*good, (b"ce-ext", b"x" * header_bytes))
    many = good + tuple((b"x-%d" % number, b"x") for number in range(header_fields - len(good) + 1))
    event = json.dumps(GOOD).encode()
    return [
        BadRequest(
            "binary body too large",
            good,
            b"x" * (body_bytes + 1),
            413,
            "body-too-large",
            listener_only=True,
        ),
        BadRequest(
            "document too large",
            ((b"content-type", STRUCTURED),),
            event + b" " * body_bytes,
            413,
            "body-too-large",
            listener_only=True,
        ),
        BadRequest(
            "batch too large",
            ((b"content-type", BATCH),),
            b"[" + event + b"]" + b" " * body_bytes,
            413,
            "body-too-large",
            listener_only=True,
        ),
        BadRequest(
            "header block too large", wide, b"", 431, "headers-too-large", listener_only=True
        ),
        BadRequest(
            "too many header fields", many, b"", 431, "headers-too-large", listener_only=True
        ),
    ]


BAD_REQUESTS: tuple[BadRequest, ...] = tuple(
    row
    for rows in (
        missing, empty, names, times, characters, encodings, pills, types, data, references,
        repeats, batches, media_types, foreign, listener,
    )
    for row in rows()
)  # fmt: skip
