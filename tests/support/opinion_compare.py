"""Is the event that somebody read or wrote the expected one? What differs, by name."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from opinion_ours import text_of

_FRACTION = re.compile(r"\.(\d+)")
_CHARSET = re.compile(r"charset=\"?([\w-]+)", re.IGNORECASE)
_UNREADABLE = object()


class Expected(msgspec.Struct, frozen=True):
    """``attributes`` under their names of 1.0, ``specversion`` as it arrived; ``json``: data is JSON."""

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
    """What is not as it should be: ``name``, ``+name`` for one too many, ``-name`` for one lost.

    ``invented``       attributes that this reader is known to add, and that are not counted.
    ``exact_absence``  no data and empty data are two things (K13); an SDK's view cannot tell them.
    """
    wanted = dict(expected.attributes)
    found = _newest_names(seen["attributes"], wanted)
    added = found.keys() - wanted.keys() - invented
    if (
        expected.json
        and expected.data is not None
        and found.get("datacontenttype", "").startswith(_JSON)
    ):
        added -= {"datacontenttype"}  # J13: the implied type may be made explicit
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
    """The attributes under the names that are wanted, which are those of 1.0, as canonical texts."""
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
    """RFC 3339 text as whole seconds in UTC and an exact fraction; the year 0, which Python has not,
    by a flag and a year like it.
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
    if not exact and not wanted:  # no data, or empty data
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
    """The JSON value with its numbers exact, so that a large integer which was rounded shows."""
    try:
        return json.loads(document, parse_float=Decimal)
    except ValueError:
        return _UNREADABLE
