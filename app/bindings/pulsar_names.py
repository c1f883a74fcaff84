"""How attributes are named in Pulsar properties, and what is read beside the binding's own (P5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec

from app.bindings.headers import header_names
from app.bindings.spellings import Spelling, prefixed, spelling
from app.event.memo import Memo
from app.event.types import is_name
from app.event.versions import NEWEST, VERSIONS

CORE = VERSIONS[NEWEST].rules
CONTENT_TYPE = "CE-ContentType"
_VERSION_0_1 = "ce-cloudeventsversion"


class Leniency(msgspec.Struct, frozen=True):
    """What is read although the binding does not say so. All on: brokers carry what is in use.

    ``any_case``         property names in any case, where the exact one is absent: ``ce-id``.
    ``kafka_names``      prefix ``ce_``, and ``content-type``.
    ``unprefixed``       bare names, and ``content_type``.
    ``datacontenttype``  ``CE-Datacontenttype``, where no content type is given otherwise.
    ``quoted``           values as JSON, in messages whose ``specversion`` is in quotes.
    ``sniff``            JSON documents that no content type declares as events.
    """

    any_case: bool = True
    kafka_names: bool = True
    unprefixed: bool = True
    datacontenttype: bool = True
    quoted: bool = True
    sniff: bool = True


LIBERAL = Leniency()
STRICT = Leniency(*[False] * len(Leniency.__struct_fields__))


def _pulsar_name(name: str) -> str:
    """P5: a capital after the prefix, as in all its examples."""
    if name == "datacontenttype":
        return CONTENT_TYPE
    capitalised = name[:1].upper() + name[1:]
    return f"CE-{capitalised}" if name in CORE else f"CE-X-{capitalised}"


def _pulsar_attribute(header: str, *, any_case: bool) -> str | None:
    """``CE-ContentType`` is none: it is the data's type or the document's, as the mode has it."""
    lower = header.lower()
    if not lower.startswith("ce-") or lower == CONTENT_TYPE.lower():
        return None
    if lower == _VERSION_0_1:  # so that the version is refused by its name
        return "specversion"
    name = lower.removeprefix("ce-").removeprefix("x-")
    return name if any_case or header in (NAMES[name], f"CE-{name.capitalize()}") else None


NAMES = Memo(_pulsar_name)
KAFKA_NAMES = header_names("ce_")
EXACT: Memo[str, str] = Memo(lambda header: _pulsar_attribute(header, any_case=False) or "")


@cache
def spellings(leniency: Leniency) -> tuple[Spelling, ...]:
    """In the order of 4.6: the binding's own, then the others that are let in."""
    fold = leniency.any_case
    found = [
        spelling(
            lambda header: _pulsar_attribute(header, any_case=fold), lambda name: (NAMES[name],)
        )
    ]
    if leniency.kafka_names:
        found.append(spelling(prefixed("ce_", any_case=fold), lambda name: (KAFKA_NAMES[name],)))
    if leniency.unprefixed:
        found.append(
            spelling(_bare_in_any_case if fold else _bare, lambda name: (name,), claims=False)
        )
    return tuple(found)


def _bare(header: str) -> str | None:
    """A name without prefix claims nothing: what cannot be an attribute is foreign."""
    return header if is_name(header) else None


def _bare_in_any_case(header: str) -> str | None:
    return _bare(header.lower())


@cache
def content_types(leniency: Leniency) -> tuple[Callable[[str], bool], ...]:
    found: list[Callable[[str], bool]] = [CONTENT_TYPE.__eq__]
    if leniency.any_case:
        found.append(lambda name: name.lower() == "ce-contenttype")
    if leniency.kafka_names:
        found.append(lambda name: name.lower() == "content-type")
    if leniency.unprefixed:
        found.append(lambda name: name.lower() == "content_type")
    return tuple(found)
