"""How attributes are named in Pulsar properties, and what is read beside the binding's own (P5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec

from app.bindings.headers import header_names
from app.bindings.layout import Layout, Spelled, layout_of
from app.bindings.profile import Clauses, Profile, apart_from
from app.bindings.pulsar_properties import KEY_ENCODING
from app.bindings.spellings import Spelling, bare, nested, nested_name, prefixed, spelling
from app.bindings.values import read_json
from app.event.memo import Memo
from app.event.versions import NEWEST, VERSIONS

CORE = VERSIONS[NEWEST].rules
CONTENT_TYPE = "CE-ContentType"
_CONTENT_TYPE = CONTENT_TYPE.lower()


class Leniency(msgspec.Struct, frozen=True):
    """What is read although the binding does not say so. All on: brokers carry what is in use.

    ``any_case``         property names in any case, where the exact one is absent: ``ce-id``.
    ``kafka_names``      prefix ``ce_``, and ``content-type``.
    ``unprefixed``       bare names, and ``content_type``.
    ``datacontenttype``  ``CE-Datacontenttype``, where no content type is given otherwise.
    ``quoted``           values as JSON, in messages whose ``specversion`` is in quotes.
    ``repeats``          a property that is repeated with the same value, as in a record of others.
    ``sniff``            JSON documents that no content type declares as events.

    Not a leniency: ``CE-Myext`` and ``CE-X-Id`` are read however strictly. The binding shows names by
    examples only, and who writes them cannot know which attributes the reader's version holds for core;
    where both are there, the one that we would write counts.
    """

    any_case: bool = True
    kafka_names: bool = True
    unprefixed: bool = True
    datacontenttype: bool = True
    quoted: bool = True
    repeats: bool = True
    sniff: bool = True


LIBERAL = Leniency()
STRICT = Leniency(*[False] * len(Leniency.__struct_fields__))


def pulsar_name(name: str, *, core: bool) -> str:
    """P5: a capital after the prefix, as in all its examples."""
    return nested_name("CE-" if core else "CE-X-", name)


def _pulsar_attribute(header: str, *, any_case: bool) -> str | None:
    """``CE-ContentType`` is none: it is the data's type or the document's, as the mode has it."""
    lower = header.lower()
    if not lower.startswith("ce-") or lower == _CONTENT_TYPE:
        return None
    name = lower.removeprefix("ce-").removeprefix("x-")
    spelled = (pulsar_name(name, core=True), pulsar_name(name, core=False))
    return name if any_case or header in spelled else None


NAMES: Memo[str, str] = Memo(
    lambda name: CONTENT_TYPE if name == "datacontenttype" else pulsar_name(name, core=name in CORE)
)
KAFKA_NAMES = header_names("ce_")
_EXACT: Memo[str, str] = Memo(lambda header: _pulsar_attribute(header, any_case=False) or "")


@cache
def _spellings(leniency: Leniency) -> tuple[Spelling, ...]:
    """In the order of 4.6: the binding's own, then the others that are let in. The binding was written
    for 0.1: its names of that version's attributes are the seed's, ``schemaURI`` among them.
    """
    fold = leniency.any_case
    found = [
        spelling(lambda name: _pulsar_attribute(name, any_case=fold), lambda name: (NAMES[name],))
    ]
    if leniency.kafka_names:
        found.append(spelling(prefixed("ce_", any_case=fold), lambda name: (KAFKA_NAMES[name],)))
    found.append(
        nested(
            ("CE-",),
            any_case=fold,
            others={"schemauri": "schemaURL"},
            apart=_CONTENT_TYPE,
            capitals=True,
        )
    )
    if leniency.unprefixed:
        found.append(bare(any_case=fold))
    return tuple(found)


@cache
def _content_types(leniency: Leniency) -> tuple[Callable[[str], bool], ...]:
    found: list[Callable[[str], bool]] = [CONTENT_TYPE.__eq__]
    if leniency.any_case:
        found.append(lambda name: name.lower() == _CONTENT_TYPE)
    if leniency.kafka_names:
        found.append(lambda name: name.lower() == "content-type")
    if leniency.unprefixed:
        found.append(lambda name: name.lower() == "content_type")
    return tuple(found)


FOREIGN = apart_from(_spellings(LIBERAL), _content_types(LIBERAL), frozenset({KEY_ENCODING}))


def _attribute(header: str) -> str | None:
    if header[:1] not in "cC":
        return None
    name = _EXACT[header]
    return "" if name == "datacontenttype" else name


_SPELLED = Spelled(_attribute, CONTENT_TYPE, FOREIGN.read_name)
LAYOUTS: Memo[tuple[str, ...], Layout] = Memo(lambda headers: layout_of(headers, _SPELLED))
"""Of events as we write them."""


@cache
def profile(leniency: Leniency) -> Profile:
    return Profile(
        place="property",
        prefix="CE-",
        spellings=_spellings(leniency),
        content_types=_content_types(leniency),
        typed_at=f"property {CONTENT_TYPE}",
        clauses=Clauses(content_type="P3", document="P4", values="P6", one_type="P3"),
        apart=FOREIGN,
        quoted=read_json if leniency.quoted else None,
        second_type=leniency.datacontenttype,
        repeats=leniency.repeats,
        sniff=leniency.sniff,
    )
