"""Requests with faults in the body: JSON, types, data, batches, event formats and charsets."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bad_request import (
    BATCH,
    GOOD,
    OPTIONAL,
    REQUIRED,
    STRUCTURED,
    BadRequest,
    batch,
    document,
    raw,
    refused,
    structured,
)

NOT_JSON_VALUES = (
    b"NaN", b"Infinity", b"-Infinity", b"nan", b"undefined", b"True", b"'x'", b"01", b"1.", b".5",
    b"+1", b"0x10", b"1e", b"-", b"--1", b'"\\x41"', b'"\\u12"', b'"a\nb"', b'"a\x00b"', b'"open',
    b"[1,]", b'{"a":1,}', b"[1 2]", b"{1:2}", b"/* c */ 1",
)  # fmt: skip

NOT_JSON_DOCUMENTS = {
    "white space": b"  \n", "a cut": b'{"id":"1"', "two documents": b"{}{}",
    "a word": b"hello", "a byte order mark alone": b"\xef\xbb\xbf",
    "two byte order marks": b"\xef\xbb\xbf\xef\xbb\xbf{}", "XML": b"<event/>",
}  # fmt: skip


def pills() -> Iterator[BadRequest]:
    """Yield documents that make some JSON readers fail, or that two JSON readers understand
    differently.
    """
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
    for name in NOT_JSON_VALUES:
        yield raw(f"with data {name.decode()!a}", b'"data":' + name, "bad-json")
    for name in (b'"\\ud800"', b'"\\udc00"', b'"\\ud800\\ud800"', b'"a\\udfffb"'):
        yield raw(f"with {name.decode()} in subject", b'"subject":' + name, "forbidden-character")
        text = b'"datacontenttype":"text/plain","data":' + name
        yield raw(f"with {name.decode()} in text", text, "data-not-encodable")
    good = json.dumps(GOOD, separators=(",", ":")).encode()[:-1]
    for end in (b',"data":12', b',"data":1x', b',"data":1}x', b',"data":1]', b',"data":', b","):
        yield document(f"that ends in {end.decode()}", good + end, "bad-json")
    yield raw("with a lone surrogate for a name", b'"\\ud800":"x"', "bad-attribute-name")
    for name, text in NOT_JSON_DOCUMENTS.items():
        yield document(f"of {name}", text, "bad-json")
    yield document("of nothing", b"", "no-document")
    for text in (b"null", b"1", b'"x"', b"true", b"[]", b"[{}]"):
        yield document(f"of {text.decode()}", text, "not-an-object")


BAD_INTEGERS = {
    "2^31": b"2147483648", "-2^31-1": b"-2147483649", "of 40 digits": b"1" * 40,
    "of 5,000 digits": b"1" * 5000, "of 5,000 digits below zero": b"-" + b"9" * 5000,
}  # fmt: skip


def types() -> Iterator[BadRequest]:
    for name in REQUIRED + OPTIONAL:
        for value in (1, True, {"a": 1}, ["a"]):
            yield structured(f"with {name} {json.dumps(value)}", "wrong-type", **{name: value})
    for value in (b"1.5", b"5.0", b"1e3", b"-0.0", b"1e400", b"{}", b"[]", b'["a"]'):
        yield raw(f"with an extension {value.decode()}", b'"ext":' + value, "wrong-type")
    for name, value in BAD_INTEGERS.items():
        yield raw(f"with an integer {name}", b'"ext":' + value, "integer-out-of-range")
    yield raw("with two wrong extensions", b'"a":1.5,"b":[]', *["wrong-type"] * 2)


BAD_BASE64 = (
    "A", "AA", "AAA", "AA=", "AAAA=", "AA==AA==", "AA==\n", " AA==", "A A=", "AA-_", "_w==",
    "\u00e9A==", "====", "AA\\==",
)  # fmt: skip


def data() -> Iterator[BadRequest]:
    yield raw("with data and data_base64", b'"data":1,"data_base64":"AA=="', "data-and-data-base64")
    yield raw(
        "with data null and data_base64",
        b'"data":null,"data_base64":"AA=="',
        "data-and-data-base64",
    )
    for text in BAD_BASE64:
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


def batches() -> Iterator[BadRequest]:
    good, old = dict(GOOD), GOOD | {"specversion": "0.3"}
    unknown = GOOD | {"specversion": "0.4-wip"}
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
    yield batch("of mixed versions", [good, old], (1, "mixed-specversions"))
    yield batch("of mixed versions, the old one first", [old, good], (1, "mixed-specversions"))
    yield batch(
        "of an unknown version",
        [unknown, unknown],
        (0, "unsupported-specversion"),
        (1, "unsupported-specversion"),
    )
    yield batch(
        "of mixed versions, one unknown",
        [good, unknown],
        (1, "unsupported-specversion"),
        (1, "mixed-specversions"),
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


UNKNOWN_FORMATS = (
    b"+xml", b"+cbor", b"2", b"2+json", b"-foo", b"+jsonx", b"+",
    b"-batch+avro", b"-batch2", b"+CBOR; x=y", b"+json x",
)  # fmt: skip

BAD_CHARSETS = {
    b"utf-16": b"{", b"us-ascii": b'{"id":"\xc3\xa9"}', b"shift_jis": b"\x80{",
}  # fmt: skip


def media_types() -> Iterator[BadRequest]:
    for suffix in UNKNOWN_FORMATS:
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
    for charset, body in BAD_CHARSETS.items():
        content_type = STRUCTURED + b"; charset=" + charset
        yield document(f"not in {charset.decode()}", body, "bad-charset", content_type=content_type)
