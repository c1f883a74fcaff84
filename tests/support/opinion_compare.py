"""Compare the event that an SDK read or wrote with the expected event, and name the differences."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from opinion_skybridge import text_of

_FRACTION = re.compile(r"\.(\d+)")
_CHARSET = re.compile(r"charset=\"?([\w-]+)", re.IGNORECASE)
_UNREADABLE = object()


class Expected(msgspec.Struct, frozen=True):
    """The event that an SDK is expected to read.

    Attributes:
        attributes: The attributes under their names of version 1.0; ``specversion`` as it arrived.
        data: The bytes of the data.
        json: Whether the data is JSON.
    """

    attributes: Mapping[str, str]
    data: bytes | None
    json: bool


def differences(
    expected: Expected,
    seen: Mapping[str, Any],
    invented: frozenset[str] = frozenset(),
    *,
    exact_absence: bool = False,
) -> list[str]:
    """Return the attributes that differ: ``name`` if changed, ``+name`` if added, ``-name`` if
    lost.

    Args:
        expected: The event as it should be.
        seen: The event as the SDK read it.
        invented: Attributes that this reader is known to add. They are not counted.
        exact_absence: Whether to distinguish absent from empty data. No SDK distinguishes them.
    """
    wanted = dict(expected.attributes)
    found = _newest_names(seen["attributes"], wanted)
    added = found.keys() - wanted.keys() - invented
    if (
        expected.json
        and expected.data is not None
        and found.get("datacontenttype", "").startswith(_JSON)
    ):
        added -= {
            "datacontenttype"
        }  # an SDK may state the content type that JSON implies (JSON format 3.1)
    named = [f"+{name}" for name in sorted(added)]
    named += [f"-{name}" for name in sorted(wanted.keys() - found.keys())]
    named += [
        name
        for name, text in wanted.items()
        if name in found and not _same_text(name, text, found[name])
    ]
    if not _same_data(expected, seen["data"], exact_absence):
        named.append("data")
    return named


_JSON = "application/json"


def _newest_names(attributes: Mapping[str, Any], wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes as canonical texts, under the names that ``wanted`` uses."""
    found = {name: text_of(value) for name, value in attributes.items() if value is not None}
    if found.get("specversion") == "0.3":
        found.pop("datacontentencoding", None)
        own, newest = (
            ("dataschema", "schemaurl") if "schemaurl" in wanted else ("schemaurl", "dataschema")
        )
        if own in found:
            found[newest] = found.pop(own)
    return found


def _same_text(name: str, wanted: str, found: str) -> bool:
    if wanted == found:
        return True
    if name != "time":
        return False
    try:
        return _instant(wanted) == _instant(found)
    except ValueError:
        return False


def _instant(text: str) -> tuple[bool, datetime, Decimal]:
    """Return an RFC 3339 time as a flag for the year 0, whole seconds in UTC and the exact
    fraction.

    Python has no year 0, so another leap year replaces it.
    """
    year_zero = text.startswith("0000")
    fraction = _FRACTION.search(text)
    whole = _FRACTION.sub("", text.upper())
    moment = datetime.fromisoformat("2000" + whole[4:] if year_zero else whole)
    offset = moment.utcoffset() or timedelta()
    part = Decimal(f"0.{fraction[1]}") if fraction else Decimal(0)
    return year_zero, moment.replace(tzinfo=None) - offset, part


def _same_data(expected: Expected, found: Mapping[str, str] | None, exact: bool) -> bool:
    wanted = expected.data
    if not exact and not wanted:  # no data and empty data are the same here
        return found is None or not next(iter(found.values()))
    if wanted is None or found is None:
        return wanted is found is None
    ((form, text),) = found.items()
    if form == "base64":
        plain = b64decode(text)
        return plain == wanted or (expected.json and _value(plain) == _value(wanted))
    if form == "json":
        return _value(text.encode()) == _value(wanted)
    charset = _CHARSET.search(expected.attributes.get("datacontenttype", ""))
    return text in (
        wanted.decode(charset[1] if charset else "utf-8", "replace"),
        _value(wanted) if expected.json else None,
    )


def _value(document: bytes) -> Any:
    """Return the value of a JSON document with exact numbers, so that a rounded large integer
    shows."""
    try:
        return json.loads(document, parse_float=Decimal)
    except ValueError:
        return _UNREADABLE
