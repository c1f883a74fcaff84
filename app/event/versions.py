"""The table of CloudEvents versions. A new version is a new row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from app.event.media_types import parse as parse_media_type
from app.event.types import is_name, is_timestamp, is_uri, is_uri_reference

EXTENSIONS = "extensions/"  # prefix of an extension name, if the version keeps extensions in a separate object


class AttributeRule(msgspec.Struct, frozen=True):
    """The rule of one core attribute.

    Attributes:
        required: True if an event must have the attribute.
        accepts: A function that returns a truthy value for a valid text, and a falsy value for an empty text.
        code: The code of the fault for a text that is not accepted.
        expected: What the text should be, which completes "is not a valid ...".
        clause: The clause of the specification.
    """

    required: bool
    accepts: Callable[[str], object]
    code: str
    expected: str
    clause: str


class Version(msgspec.Struct, frozen=True):
    """A version of CloudEvents, with its core attributes by their names in this version.

    Attributes:
        text: The value of its version attribute.
        attribute: The name of its version attribute.
        rules: The rules of its core attributes, in the order in which faults are listed.
        accepts: The test of each rule, by attribute name.
        is_name: A function that returns True if an extension may have this name.
        newest: The 1.0 name of each core attribute whose name differs; "" if 1.0 has no such attribute.
        own: The name in this version of each core attribute, by 1.0 name.
        reserved: 1.0 names that no extension may get in the 1.0 view.
        content_type: The name of ``datacontenttype`` in this version.
        nested: True if extensions are in one ``extensions`` object, and under ``CE-X-`` in headers.
        quoted: True if a header carries an attribute's JSON value, with strings in double quotes.
        maps: True if attributes may be Maps.
        two_forms: True if binary data has a separate member ``data_base64``.
        encoding: The attribute that declares base64 in ``data`` of a document, or "".
    """

    text: str
    attribute: str
    rules: Mapping[str, AttributeRule]
    accepts: Mapping[str, Callable[[str], object]]
    is_name: Callable[[str], object]
    newest: Mapping[str, str]
    own: Mapping[str, str]
    reserved: frozenset[str]
    content_type: str
    nested: bool = False
    quoted: bool = False
    maps: bool = False
    two_forms: bool = False
    encoding: str = ""


_TEXT = ("bad-value", "non-empty string", "core 1.1")
_REQUIRED_TEXT = AttributeRule(True, len, *_TEXT)
_SUBJECT = AttributeRule(False, len, *_TEXT)
_SOURCE = AttributeRule(
    True, is_uri_reference, "bad-uri-reference", "URI reference (RFC 3986)", "core 1.1"
)
_MEDIA_TYPE = AttributeRule(
    False, parse_media_type, "bad-media-type", "media type (RFC 2046)", "core 1.1"
)
_SCHEMA = AttributeRule(False, is_uri, "bad-uri", "absolute URI (RFC 3986)", "core 1.1")
_SCHEMA_URL = AttributeRule(
    False, is_uri_reference, "bad-uri-reference", "URI reference (RFC 3986)", "V2"
)
_TIME = AttributeRule(False, is_timestamp, "bad-timestamp", "RFC 3339 date and time", "core 1.3")
_ENCODING = AttributeRule(
    False,
    lambda text: text.lower() == "base64",
    "unsupported-encoding",
    "known encoding: base64",
    "V2",
)
_TYPED = "datacontenttype"
_BEGINS_WITH_LETTER = re.compile("[a-z][a-z0-9]*")


def _version(
    text: str,
    rules: Mapping[str, AttributeRule],
    newest: Mapping[str, str],
    *,
    attribute: str = "specversion",
    is_name: Callable[[str], object],
    nested: bool = False,
    quoted: bool = False,
    maps: bool = False,
    two_forms: bool = False,
    encoding: str = "",
) -> Version:
    rules = {attribute: AttributeRule(True, text.__eq__, *_TEXT)} | dict(rules)
    return Version(
        text,
        attribute,
        rules,
        accepts={name: rule.accepts for name, rule in rules.items()},
        is_name=is_name,
        newest=newest,
        own={newest.get(name, name): name for name in rules if newest.get(name, name)},
        reserved=frozenset(_NEWEST_RULES) | {"specversion", "data", *newest.values(), "schemaurl"},
        content_type=next((own for own, name in newest.items() if name == _TYPED), _TYPED),
        nested=nested,
        quoted=quoted,
        maps=maps,
        two_forms=two_forms,
        encoding=encoding,
    )


def _is_old_name(name: str) -> bool:
    return name != "data" and _BEGINS_WITH_LETTER.fullmatch(name) is not None


def _is_entry(name: str) -> bool:
    return name.startswith(EXTENSIONS)


_NEWEST_RULES: Mapping[str, AttributeRule] = {
    "id": _REQUIRED_TEXT,
    "source": _SOURCE,
    "type": _REQUIRED_TEXT,
    "datacontenttype": _MEDIA_TYPE,
    "dataschema": _SCHEMA,
    "subject": _SUBJECT,
    "time": _TIME,
}
_RULES_0_3: Mapping[str, AttributeRule] = {
    "id": _REQUIRED_TEXT,
    "source": _SOURCE,
    "type": _REQUIRED_TEXT,
    "datacontenttype": _MEDIA_TYPE,
    "datacontentencoding": _ENCODING,
    "schemaurl": _SCHEMA_URL,
    "subject": _SUBJECT,
    "time": _TIME,
}
_RULES_0_2: Mapping[str, AttributeRule] = {
    "id": _REQUIRED_TEXT,
    "source": _SOURCE,
    "type": _REQUIRED_TEXT,
    "contenttype": _MEDIA_TYPE,
    "schemaurl": _SCHEMA_URL,
    "time": _TIME,
}
_RULES_0_1: Mapping[str, AttributeRule] = {
    "eventID": _REQUIRED_TEXT,
    "source": _SOURCE,
    "eventType": _REQUIRED_TEXT,
    "eventTypeVersion": _SUBJECT,
    "contentType": _MEDIA_TYPE,
    "schemaURL": _SCHEMA_URL,
    "eventTime": _TIME,
}
_NEWEST_0_3 = {"schemaurl": "dataschema", "datacontentencoding": ""}
_NEWEST_0_2 = {"contenttype": "datacontenttype", "schemaurl": "dataschema"}
_NEWEST_0_1 = {
    "cloudEventsVersion": "specversion", "eventID": "id", "eventType": "type",
    "eventTypeVersion": "eventtypeversion", "contentType": "datacontenttype",
    "schemaURL": "dataschema", "eventTime": "time",
}  # fmt: skip


def _shape_d(text: str) -> Version:
    return _version(text, _NEWEST_RULES, {}, is_name=is_name, two_forms=True)


def _shape_b(text: str) -> Version:
    return _version(text, _RULES_0_2, _NEWEST_0_2, is_name=_is_old_name, quoted=True, maps=True)


VERSIONS: Mapping[str, Version] = {
    "0.1": _version(
        "0.1", _RULES_0_1, _NEWEST_0_1,
        attribute="cloudEventsVersion", is_name=_is_entry, nested=True, quoted=True, maps=True,
    ),
    "0.1-wip": _shape_b("0.1"),  # its version attribute is that of 0.2
    "0.2": _shape_b("0.2"),
    "0.3": _version(
        "0.3", _RULES_0_3, _NEWEST_0_3,
        is_name=_is_old_name, maps=True, encoding="datacontentencoding",
    ),
    "1.0-rc1": _shape_d("1.0-rc1"),
    "1.0": _shape_d("1.0"),
}  # fmt: skip
NEWEST = "1.0"
SUPPORTED = ", ".join(dict.fromkeys(version.text for version in VERSIONS.values()))

_NAMED = {(version.attribute, version.text): name for name, version in VERSIONS.items()}
ATTRIBUTES = tuple(dict.fromkeys(version.attribute for version in VERSIONS.values()))[::-1]
"""The names of the version attribute in all versions. The name in 1.0 is first."""


def version_named(attribute: str, text: str) -> str | None:
    """Return the key in ``VERSIONS`` of the version whose version attribute ``attribute`` has the value
    ``text``. Return None if there is none."""
    return _NAMED.get((attribute, text))
