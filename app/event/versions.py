"""The attributes of each version of CloudEvents, as one table: a further version is a further row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter

import msgspec

from app.event.media_types import parse as parse_media_type
from app.event.types import is_timestamp, is_uri, is_uri_reference


class Rule(msgspec.Struct, frozen=True):
    """What one core attribute must be.

    ``accepts``   truthy for a good value, falsy for an empty one.
    ``code``      of the fault when it does not accept; ``expected`` completes "is no ...".
    ``clause``    where the specification says so.
    """

    required: bool
    accepts: Callable[[str], object]
    code: str
    expected: str
    clause: str


class Version(msgspec.Struct, frozen=True):
    """One ``specversion``: its core attributes by name, in the order that faults are listed.

    ``accepts`` and ``required`` are columns of the same table, for the hot path; ``required`` picks
    the required attributes and raises KeyError when one is missing.
    """

    rules: Mapping[str, Rule]
    accepts: Mapping[str, Callable[[str], object]]
    required: Callable[[Mapping[str, str]], object]


def _version(rules: Mapping[str, Rule]) -> Version:
    return Version(
        rules,
        accepts={name: rule.accepts for name, rule in rules.items()},
        required=itemgetter(*(name for name, rule in rules.items() if rule.required)),
    )


_ANY_TEXT = ("bad-value", "non-empty string", "core 1.1")

VERSIONS: Mapping[str, Version] = {
    "1.0": _version(
        {
            "specversion": Rule(True, len, *_ANY_TEXT),
            "id": Rule(True, len, *_ANY_TEXT),
            "source": Rule(
                True, is_uri_reference, "bad-uri-reference", "URI reference (RFC 3986)", "core 1.1"
            ),
            "type": Rule(True, len, *_ANY_TEXT),
            "datacontenttype": Rule(
                False, parse_media_type, "bad-media-type", "media type (RFC 2046)", "core 1.1"
            ),
            "dataschema": Rule(False, is_uri, "bad-uri", "absolute URI (RFC 3986)", "core 1.1"),
            "subject": Rule(False, len, *_ANY_TEXT),
            "time": Rule(
                False, is_timestamp, "bad-timestamp", "RFC 3339 date and time", "core 1.3"
            ),
        }
    ),
}
NEWEST = "1.0"
