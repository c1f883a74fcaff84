"""How attributes are named in Kafka headers, and what is read beside the binding's own (K15, 4.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec

from app.bindings.layout import Layout, Spelled, layout_of
from app.bindings.profile import Clauses, Profile, apart_from
from app.bindings.spellings import Spelling, nested, prefixed, spelling
from app.bindings.values import read_string
from app.event.memo import Memo

CONTENT_TYPE = "content-type"
HEADERS = Memo(lambda name: CONTENT_TYPE if name == "datacontenttype" else f"ce_{name}")  # K12, K15


class Leniency(msgspec.Struct, frozen=True):
    """What is read although the binding does not say so. All on: brokers carry what is in use.

    ``any_case``         header names in any case, where the exact one is absent.
    ``datacontenttype``  header ``ce_datacontenttype``, where no content type is given otherwise, as
                         release candidate 1 had it and JavaScript's SDK writes it.
    ``quoted``           values in quotes, in records whose ``ce_specversion`` is in quotes.
    ``repeats``          a header that is repeated with the same value.
    ``nulls``            a header with a null value, for one that is not there.
    ``sniff``            JSON documents that no content type declares as events, as Python's SDK
                         writes them.
    """

    any_case: bool = True
    datacontenttype: bool = True
    quoted: bool = True
    repeats: bool = True
    nulls: bool = True
    sniff: bool = True


LIBERAL = Leniency()
STRICT = Leniency(*[False] * len(Leniency.__struct_fields__))


@cache
def _spellings(leniency: Leniency) -> tuple[Spelling, ...]:
    """K15; 0.1, which knew no Kafka, has the names of its HTTP."""
    fold = leniency.any_case
    return (
        spelling(prefixed("ce_", any_case=fold), lambda name: (f"ce_{name}",)),
        nested(("CE-", "ce_") if fold else ("CE-",), any_case=fold),
    )


@cache
def _content_types(leniency: Leniency) -> tuple[Callable[[str], bool], ...]:
    found: list[Callable[[str], bool]] = [CONTENT_TYPE.__eq__]
    if leniency.any_case:
        found.append(lambda name: name.lower() == CONTENT_TYPE)
    return tuple(found)


FOREIGN = apart_from(_spellings(LIBERAL), _content_types(LIBERAL))


def _attribute(header: str) -> str | None:
    if header.startswith("ce_") and header != "ce_datacontenttype":
        return header.removeprefix("ce_")
    return "" if header[:1] in "cC" else None  # perhaps one of ours in another case


_SPELLED = Spelled(_attribute, CONTENT_TYPE, FOREIGN.read_name)
LAYOUTS: Memo[tuple[str, ...], Layout] = Memo(lambda headers: layout_of(headers, _SPELLED))
"""Of events as we write them."""


@cache
def profile(leniency: Leniency) -> Profile:
    return Profile(
        place="header",
        prefix="ce_",
        spellings=_spellings(leniency),
        content_types=_content_types(leniency),
        typed_at=f"header {CONTENT_TYPE}",
        clauses=Clauses(content_type="K4", document="K17", values="K14", one_type="K12"),
        apart=FOREIGN,
        quoted=read_string if leniency.quoted else None,
        empty_is_none=False,  # K13: no value and an empty one are told apart
        second_type=leniency.datacontenttype,
        repeats=leniency.repeats,
        nulls=leniency.nulls,
        sniff=leniency.sniff,
    )
