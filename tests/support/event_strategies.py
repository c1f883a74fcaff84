"""Hypothesis strategies for events, and for headers and documents that only resemble events."""

from __future__ import annotations

import json
from datetime import UTC
from string import ascii_lowercase, digits

from hypothesis import strategies as st

from app.bindings.record import ContentMode, Decoded
from app.event.convert import as_version
from app.event.value import AttributeType, CloudEvent, DataForm
from app.event.versions import VERSIONS

texts = st.text(
    st.characters(
        codec="utf-8",
        exclude_categories=("Cc", "Cs"),
        exclude_characters=[chr(code) for code in range(0xFDD0, 0xFDF0)]
        + [chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF)],
    ),
    max_size=20,
)
filled_texts = texts.filter(bool)

_taken = {
    *("data", "id", "source", "type", "specversion", "time", "subject"),
    *("dataschema", "datacontenttype"),
}
names = st.one_of(  # a regular expression draws slowly
    st.text(ascii_lowercase + digits, min_size=1, max_size=24).filter(lambda n: n not in _taken),
    st.sampled_from(ascii_lowercase).map(lambda letter: letter * 60),
)
sources = st.sampled_from(["/", "#f", "urn:a:b", "https://example.com/a?b=c", "../x", "a%20b"])
times = st.sampled_from(
    ["2026-11-20T10:00:00Z", "2026-11-20t10:00:00.123456789z", "2026-12-31T23:59:60-00:00"]
)
json_types = ["application/json", "Application/JSON; charset=utf-8", "application/a.b+json"]
text_types = [
    "text/plain",
    "text/csv; charset=iso-8859-1",
    "application/xml",
    "TEXT/html;charset=x-no",
]
other_types = ["application/octet-stream", "image/png", 'a/b; c="d;e"']

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(texts, children, max_size=3),
    max_leaves=8,
)
json_texts = json_values.map(lambda value: json.dumps(value, ensure_ascii=False).encode())
typed = st.one_of(
    st.booleans().map(lambda flag: (str(flag).lower(), AttributeType.BOOLEAN)),
    st.integers(-(2**31), 2**31 - 1).map(lambda number: (str(number), AttributeType.INTEGER)),
    texts.map(lambda text: (text, AttributeType.STRING)),
)


def _is_kept(payload: tuple[str | None, bytes, DataForm]) -> bool:
    """Return True if the payload survives in a document, which drops white space around a JSON
    value.
    """
    return payload[0] not in json_types or payload[1] == payload[1].strip(b" \t\r\n")


_OPAQUE, _JSON, _TEXT = st.just(DataForm.OPAQUE), st.just(DataForm.JSON), st.just(DataForm.TEXT)
_any_type = st.none() | st.sampled_from(json_types + text_types + other_types)
payloads = st.one_of(
    st.tuples(_any_type, st.none(), _OPAQUE),
    st.tuples(_any_type, st.binary(max_size=30) | json_texts, _OPAQUE).filter(_is_kept),
    st.tuples(st.none() | st.sampled_from(json_types), json_texts, _JSON),
    st.tuples(st.just("text/plain"), texts.map(str.encode), _TEXT),
)

extensions = st.dictionaries(names, typed, max_size=4)
Payloads = st.SearchStrategy[tuple[str | None, bytes | None, DataForm]]


@st.composite
def events(
    draw: st.DrawFn,
    words: st.SearchStrategy[str] = filled_texts,
    payloads: Payloads = payloads,
    extensions: st.SearchStrategy[dict[str, tuple[str, AttributeType]]] = extensions,
) -> CloudEvent:
    """Draw a valid event of version 1.0 that could come from the JSON format."""
    core = {"specversion": st.just("1.0"), "id": words, "source": sources, "type": words}
    optional = {"time": times, "subject": words, "dataschema": st.just("urn:schema:1")}
    attributes = draw(st.fixed_dictionaries(core, optional=optional))
    found = draw(extensions)
    attributes |= {name: text for name, (text, _) in found.items()}
    types = {n: kind for n, (_, kind) in found.items() if kind is not AttributeType.STRING}
    content_type, data, form = draw(payloads)
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    return CloudEvent(attributes, data, form, types)


header_names = st.sampled_from(
    [b"ce-id", b"ce-source", b"ce-type", b"ce-specversion", b"ce-time", b"ce-ext", b"ce-datacontenttype",
     b"ce-cloudeventsversion", b"ce-eventid", b"ce-eventtype", b"ce-x-a", b"CE-X-a", b"ce-m-b", b"ce-schemaurl",
     b"ce-", b"ce-a-b", b"ce-data", b"host", b"content-type", b"x"]
)  # fmt: skip
header_values = st.one_of(
    st.binary(max_size=12),
    st.text(alphabet='%"\\a09EDfé \t', max_size=12).map(str.encode),
    st.sampled_from(
        [b"0.1", b'"0.2"', b"0.3", b"1.0-rc1", b'{"a":[1]}', b"5", b"true",
         b"1.0", b"/s", b"application/json", b"application/cloudevents+json", b"text/plain; charset=x",
         b"application/cloudevents-batch+json; charset=utf-16", b"application/cloudevents+avro", b""]
    ),
)  # fmt: skip
_required = [
    [],
    *(
        [(b"ce-specversion", v), (b"ce-id", b"1"), (b"ce-source", b"/"), (b"ce-type", b"t")]
        for v in (b"1.0", b"0.3", b'"0.2"', b"0.1", b"1.0-rc1")
    ),
    [
        (b"ce-cloudeventsversion", b"0.1"), (b"ce-eventid", b"1"), (b"ce-source", b"/"),
        (b"ce-eventtype", b'"t"'),
    ],
]  # fmt: skip
header_pairs = st.builds(
    list.__add__,
    st.lists(st.tuples(header_names, header_values), max_size=8),
    st.sampled_from(_required),
)

old_names = st.builds(
    str.__add__, st.sampled_from(ascii_lowercase), st.text(ascii_lowercase + digits, max_size=12)
)
maps = st.dictionaries(texts | old_names, json_values, max_size=2).map(
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False)
)
_old_values = st.one_of(
    texts.map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.integers(-(2**31), 2**31 - 1).map(str),
    st.sampled_from(["true", "false"]),
)
_own_names = {
    "0.1": ("cloudEventsVersion", "eventID", "eventType", "eventTime", "schemaURL", "contentType"),
    "0.1-wip": ("specversion", "id", "type", "time", "schemaurl", "contenttype"),
    "0.2": ("specversion", "id", "type", "time", "schemaurl", "contenttype"),
    "0.3": ("specversion", "id", "type", "time", "schemaurl", "datacontenttype"),
    "1.0-rc1": ("specversion", "id", "type", "time", "dataschema", "datacontenttype"),
}
_old_payloads = st.one_of(
    st.just((None, "")),
    st.tuples(st.none() | st.sampled_from(json_types), json_values.map(json.dumps)),
    st.tuples(st.sampled_from(["text/plain", "image/png"]), texts.map(json.dumps)),
    st.tuples(st.just("image/png"), st.sampled_from(['"AAE="', '""', '"AAE"'])),
)


@st.composite
def old_documents(draw: st.DrawFn) -> tuple[str, str]:
    """Draw the name of a version before 1.0, and a compact JSON document of this version."""
    version = draw(st.sampled_from(list(_own_names)))
    attribute, id_, type_, time, schema, content_type = _own_names[version]
    schemas = ["urn:schema:1"] if version == "1.0-rc1" else ["urn:schema:1", "/relative"]
    pairs = {
        attribute: json.dumps(version.removesuffix("-wip")),
        id_: json.dumps(draw(filled_texts), ensure_ascii=False),
        "source": json.dumps(draw(sources)),
        type_: json.dumps(draw(filled_texts), ensure_ascii=False),
    }
    optional = {time: times.map(json.dumps), schema: st.sampled_from(schemas).map(json.dumps)}
    pairs |= draw(st.fixed_dictionaries({}, optional=optional))
    values = _old_values | maps if version != "1.0-rc1" else _old_values
    extensions = draw(
        st.dictionaries(filled_texts if version == "0.1" else old_names, values, max_size=4)
    )
    kind, data = draw(_old_payloads)
    if kind is not None:
        pairs[content_type] = json.dumps(kind)
    if version == "0.1":
        entries = ",".join(
            f"{json.dumps(n, ensure_ascii=False)}:{v}" for n, v in extensions.items()
        )
        pairs |= {"extensions": f"{{{entries}}}"} if entries else {}
    else:
        taken = {*pairs, "data", "subject", "datacontentencoding", "datacontenttype", content_type}
        pairs |= {n: v for n, v in extensions.items() if n not in taken}
    if data:
        pairs["data"] = data
    return version, "{" + ",".join(f'"{name}":{value}' for name, value in pairs.items()) + "}"


# Names of headers outside the event, and some that resemble attributes of it.
_foreign_names = st.one_of(
    st.sampled_from(
        ["traceparent", "X-Request-Id", "x", "id", "source", "specversion", "type", "ce", "ce_",
         "ce-id", "ce_id", "CE-Id", "CE-X-ext", "cloudEvents:id", "content-type", "content_type",
         "CE-ContentType", "x-foreign-", "x-foreign-ce_id", "x-foreign-x-foreign-ce-id", "\u00e9"]
    ),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
)  # fmt: skip
_foreign_values = st.none() | st.binary(max_size=8) | texts.map(str.encode)
foreign_headers = st.lists(st.tuples(_foreign_names, _foreign_values), max_size=3).map(tuple)


@st.composite
def decoded_events(draw: st.DrawFn, *, newest_only: bool = False) -> Decoded:
    """Draw an event as a decoder returns it: of any version, with any data and foreign headers."""
    event = draw(events())
    version = "1.0" if newest_only else draw(st.sampled_from(["1.0", "1.0", *VERSIONS]))
    return Decoded(as_version(event, version), ContentMode.BINARY, foreign=draw(foreign_headers))


_PIECES = [
    b"", b'"', b"{", b"}", b"[", b",", b"null", b"1e9", b"\\u0000", b"\\ud800", b"\xff", b'"data":', b'"":"x",',
    b'"data_base64":"A"', b'"id":1', b"0" * 12,
]  # fmt: skip

instructions = st.binary(min_size=4, max_size=16).map(
    lambda drawn: [tuple(drawn[at : at + 4]) for at in range(0, len(drawn) - 3, 4)]
)
"""One to four changes for ``mutated``. A change has four numbers, which are drawn as bytes, because
that costs a tenth of drawing each number."""


def mutated(valid: bytes, changes: list[tuple[int, ...]]) -> bytes:
    """Return a valid document with a few bytes removed, inserted or replaced, or with a part
    repeated.
    """
    text = bytearray(valid)
    for high, low, cut, put in changes:
        start = (high << 8 | low) % (len(text) + 1)
        stop = start + cut % 9
        pieces = [*_PIECES, bytes(text[start : start + 30])]
        text[start:stop] = (
            pieces[put % len(pieces)] if put % 4 else bytes([put, cut])[: 1 + cut % 2]
        )
    return bytes(text)


# What a client of AMQP may give as the value of a header.
_scalars = st.one_of(
    st.booleans(), st.integers(), st.floats(), st.decimals(), st.binary(max_size=6),
    st.binary(max_size=6).map(bytearray), st.datetimes(), st.datetimes(timezones=st.just(UTC)),
)  # fmt: skip
natives = st.one_of(
    _scalars, st.lists(_scalars, max_size=2), st.dictionaries(texts, _scalars, max_size=2)
)
