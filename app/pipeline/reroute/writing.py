"""Records as ``app.bindings.kafka.encode`` writes them, to the byte, as columns over ``decode.native``.

Each gives headers and value, and whether they are certain; where they are not, the exact way writes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from app.bindings.documents import JSON_DOCUMENT
from app.bindings.forwarding import APART
from app.bindings.kafka import CONTENT_TYPE
from app.bindings.transcode import Writing
from app.event.versions import NEWEST
from app.pipeline.decode.json_value import is_one_value

_PREFIX: Final = "ce_"
_ODD: Final = rf"(?i)\A(?:ce[_-]|{CONTENT_TYPE}\z|{APART})"
_FAMILY: Final = r"(?i)\A\s*application/cloudevents"
_DATA_MEMBERS: Final = ("data", "data_base64")
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9a-z-]+"  # noqa: S105 - of a media type
_UTF_8: Final = r'(?: *; *charset="?utf-?8"?)? *'
_JSON_TYPE: Final = rf"(?i)\A *{_TOKEN}/(?:json|{_TOKEN}\+json){_UTF_8}\z"
_TEXT_TYPE: Final = rf"(?i)\A *(?:text/{_TOKEN}|{_TOKEN}/(?:xml|{_TOKEN}\+xml)){_UTF_8}\z"
_OTHER_TYPE: Final = rf"(?i)\A *{_TOKEN}/{_TOKEN} *\z"  # where it is neither of them
_ESCAPES: Final = (("\\", "\\\\"), ('"', '\\"'), ("\b", "\\b"), ("\t", "\\t"), ("\n", "\\n"), ("\f", "\\f"),
                    ("\r", "\\r"))  # fmt: skip
_DEEPEST: Final = (
    400  # arrays and objects: the gateway gives up sooner than a decoder that stands alone
)
_SPACED: Final = r"\A[ \t\r\n]|[ \t\r\n]\z"
"""What would be trimmed."""
_BY_NUMBER: Final = r"[\x00-\x07\x0b\x0e-\x1f]"
"""What JSON escapes by its number: such texts are in doubt."""


class Written(NamedTuple):
    headers: Column
    value: Column
    certain: Column


KEPT: Final = ("value", "headers", "_names", "_texts")
"""What ``decode.native`` has to keep: the record, and names and texts of the attributes as they came in order."""


def as_columns(writing: Writing) -> Written:
    """A clear record of version 1.0 in columns, binary or a JSON document, as ``writing`` says."""
    document = F.col("content_mode") == "structured"
    if writing.mode == "structured":
        ways = _document_as_it_came(), _document()
    elif writing.mode == "as_received":
        ways = _document_as_it_came(), _binary(writing)
    else:
        ways = _document_in_headers(writing), _binary(writing)
    headers, value, certain = (
        F.when(document, of_document).otherwise(of_headers)
        for of_document, of_headers in zip(*ways, strict=True)
    )
    return Written(headers, value, (F.col("origin_version") == NEWEST) & certain & _plain())


def why_exact(writing: Writing) -> str:
    """Why no record can be written so in columns; empty when some can."""
    if writing.version not in {"as_received", NEWEST}:
        return f"it writes version {writing.version}"
    if writing.mode != "binary" and writing.format not in {"as_received", "json"}:
        return f"it writes documents of {writing.format}"
    return ""


def _plain() -> Column:
    """No header is named like the event's own in another case, or like one that was kept apart (I3)."""
    odd = F.exists(
        "headers", lambda header: header["key"].rlike(_ODD) & ~_is_own(header) & ~_is_type(header)
    )
    return ~odd


def _is_own(header: Column) -> Column:
    return header["key"].startswith(_PREFIX)


def _is_type(header: Column) -> Column:
    return header["key"] == CONTENT_TYPE


def _own() -> Column:
    """Without those that a null unsets."""
    return F.filter("headers", lambda header: _is_own(header) & header["value"].isNotNull())


def _typed() -> Column:
    return F.filter("headers", lambda header: _is_type(header) & header["value"].isNotNull())


def _foreign() -> Column:
    """Behind the event's own (I3), with repeats and nulls."""
    return F.filter("headers", lambda header: ~_is_own(header) & ~_is_type(header))


def _binary(writing: Writing) -> Written:
    """The attributes in the order in which they came, the content type behind them (K14)."""
    headers = F.concat(_own(), _typed(), _foreign())
    return Written(headers, _body(F.col("value"), writing), F.lit(True))


def _body(value: Column, writing: Writing) -> Column:
    return F.coalesce(value, F.lit(b"")) if writing.empty_body == "empty" else value


def _mirrors() -> Column:
    return F.exists("headers", _is_own)


def _document_as_it_came() -> Written:
    """Untouched, under the content type that it came with (K16)."""
    certain = F.exists("headers", _is_type) & ~_mirrors()
    return Written(F.concat(_typed(), _foreign()), F.col("value"), certain)


def _document_in_headers(writing: Writing) -> Written:
    """The members in their order (K14), and the type of JSON data made explicit (J13, I4)."""
    members = F.arrays_zip("_names", "_texts")
    given = F.filter(
        members, lambda each: each["_texts"].isNotNull() & ~each["_names"].isin(*_DATA_MEMBERS)
    )
    implied = (F.col("data_form") == "json") & F.col("datacontenttype").isNull()
    told = F.when(implied, F.array(_header(b"application/json"))).otherwise(
        F.filter(_typed(), lambda _header: F.lit(False))
    )
    value = F.coalesce(F.col("data").cast("binary"), F.col("data_bytes"))
    certain = ~_mirrors() & ~F.coalesce(F.col("datacontenttype").rlike(_FAMILY), F.lit(False))
    headers = F.concat(F.transform(given, _as_header), told, _foreign())
    return Written(headers, _body(value, writing), certain)


def _as_header(member: Column) -> Column:
    name = member["_names"]
    key = F.when(name == "datacontenttype", CONTENT_TYPE).otherwise(F.concat(F.lit(_PREFIX), name))
    return F.struct(key.alias("key"), member["_texts"].cast("binary").alias("value"))


def _header(content_type: bytes) -> Column:
    return F.struct(F.lit(CONTENT_TYPE).alias("key"), F.lit(content_type).alias("value"))


def _document() -> Written:
    """The JSON format (J1, J5-J7, J13): members in the order of the attributes, the data behind them."""
    members = F.transform(_own(), _member)
    typed = F.when(
        F.col("datacontenttype").isNotNull(),
        F.concat(F.lit('"datacontenttype":'), _quoted(F.col("datacontenttype"))),
    )
    data, certain = _data()
    # array_join leaves out what is null
    whole = F.array_join(F.concat(members, F.array(typed, data)), ",")
    value = F.concat(F.lit("{"), whole, F.lit("}")).cast("binary")
    header = _header(JSON_DOCUMENT.encode())
    return Written(F.concat(F.array(header), _foreign()), value, certain)


def _member(header: Column) -> Column:
    name = F.substring(header["key"], len(_PREFIX) + 1, 2**31 - 1)
    text = _quoted(header["value"].cast("string"))
    return F.concat(F.lit('"'), name, F.lit('":'), text)


def _quoted(text: Column) -> Column:
    """A JSON string as msgspec writes it."""
    for character, escape in _ESCAPES:
        text = F.replace(text, F.lit(character), F.lit(escape))
    return F.concat(F.lit('"'), text, F.lit('"'))


def _data() -> tuple[Column, Column]:
    """The member that carries the payload, null for none; and whether it is certain."""
    value, kind, text = F.col("value"), F.col("datacontenttype"), F.col("data")
    is_json, is_text = kind.rlike(_JSON_TYPE), kind.rlike(_TEXT_TYPE)
    is_other = kind.isNull() | kind.rlike(_OTHER_TYPE)
    as_text = F.concat(F.lit('"data":'), _quoted(text))
    coded = F.concat(F.lit('"data_base64":"'), F.base64(value), F.lit('"'))
    member = (
        F.when(value.isNull(), F.lit(None))
        .when(is_json, F.concat(F.lit('"data":'), text))
        .when(is_text, as_text)
        .otherwise(coded)
    )
    certain = (
        F.when(value.isNull(), F.lit(True))
        .when(is_json, ~text.rlike(_SPACED) & F.expr(is_one_value("data", _DEEPEST)))
        .when(is_text, text.isNotNull() & ~text.rlike(_BY_NUMBER))
        .otherwise(is_other)
    )
    return member, F.coalesce(certain, F.lit(False))
