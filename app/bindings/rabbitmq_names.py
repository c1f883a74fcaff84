"""How attributes are named in RabbitMQ headers, and what is read beside the binding's own (R8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import msgspec

from app.bindings.amqp_table import KEY_HEADER
from app.bindings.headers import header_names
from app.bindings.layout import Layout, Spelled, layout_of
from app.bindings.profile import Clauses, Profile, apart_from
from app.bindings.spellings import Spelling, bare, nested, prefixed, spelling
from app.event.memo import Memo

HEADERS = header_names("ce-")  # R8


class Leniency(msgspec.Struct, frozen=True):
    """What is read although the binding does not say so. All on: brokers carry what is in use.

    ``datacontenttype``  header ``ce-datacontenttype``, where the property is missing.
    ``content_type``     header ``content-type``, where the property is missing.
    ``natives``          header values that are no strings (R9).
    ``any_case``         header names in any case, where the exact one is absent.
    ``cloud_events``     prefixes ``cloudEvents:`` and ``cloudEvents_``, as AMQP 1.0 producers write.
    ``unprefixed``       bare names, as Knative's broker writes, ``x-`` headers aside.
    ``repeats``          a header that is repeated with the same value.
    ``nulls``            a header with a null value, for one that is not there.
    ``sniff``            JSON documents that no content type declares as events.
    """

    datacontenttype: bool = True
    content_type: bool = True
    natives: bool = True
    any_case: bool = True
    cloud_events: bool = True
    unprefixed: bool = True
    repeats: bool = True
    nulls: bool = True
    sniff: bool = True


LIBERAL = Leniency()
STRICT = Leniency(*[False] * len(Leniency.__struct_fields__))


@cache
def _spellings(leniency: Leniency) -> tuple[Spelling, ...]:
    """In the order of 4.6: the binding's prefix, then the others that are let in."""
    fold = leniency.any_case
    found = [spelling(prefixed("ce-", any_case=fold), lambda name: (HEADERS[name],))]
    if leniency.cloud_events:
        found.append(spelling(_cloud_events(any_case=fold), _cloud_events_headers))
    found.append(nested(("CE-",), any_case=fold))
    if leniency.unprefixed:
        found.append(bare(any_case=False))
    return tuple(found)


def _cloud_events(*, any_case: bool) -> Callable[[str], str | None]:
    """Both separators of the AMQP 1.0 binding; they are one spelling, so that they must agree."""
    prefix = "cloudevents" if any_case else "cloudEvents"
    colon = prefixed(f"{prefix}:", any_case=any_case)
    underscore = prefixed(f"{prefix}_", any_case=any_case)

    def attribute(header: str) -> str | None:
        name = colon(header)
        return underscore(header) if name is None else name

    return attribute


def _cloud_events_headers(name: str) -> Sequence[str]:
    return (f"cloudEvents:{name}", f"cloudEvents_{name}")


def _content_types(leniency: Leniency) -> tuple[Callable[[str], bool], ...]:
    return (lambda name: name.lower() == "content-type",) if leniency.content_type else ()


FOREIGN = apart_from(_spellings(LIBERAL), _content_types(LIBERAL), frozenset({KEY_HEADER}))


def _attribute(header: str) -> str | None:
    if header.startswith("ce-") and header != "ce-datacontenttype":
        return header.removeprefix("ce-")
    return "" if header[:1] in "cC" else None  # perhaps one of ours in another spelling


_SPELLED = Spelled(_attribute, None, FOREIGN.read_name)
LAYOUTS: Memo[tuple[str, ...], Layout] = Memo(lambda headers: layout_of(headers, _SPELLED))
"""Of events as we write them: the content type is a property."""


@cache
def profile(leniency: Leniency) -> Profile:
    return Profile(
        place="header",
        prefix="ce-",
        spellings=_spellings(leniency),
        content_types=_content_types(leniency),
        typed_at="property content_type",
        clauses=Clauses(content_type="R3", document="R5", values="R9", one_type="R6"),
        apart=FOREIGN,
        second_type=leniency.datacontenttype,
        natives=leniency.natives,
        repeats=leniency.repeats,
        nulls=leniency.nulls,
        sniff=leniency.sniff,
    )
