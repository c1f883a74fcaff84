"""How attributes are named in RabbitMQ headers, and what is read beside the binding's own (R8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import msgspec

from app.bindings.headers import header_names
from app.bindings.spellings import Spelling, prefixed, spelling
from app.event.types import is_name

HEADERS = header_names("ce-")  # R8


class Leniency(msgspec.Struct, frozen=True):
    """What is read although the binding does not say so. All on: brokers carry what is in use.

    ``datacontenttype``  header ``ce-datacontenttype``, where the property is missing.
    ``content_type``     header ``content-type``, where the property is missing.
    ``natives``          header values that are no strings (R9).
    ``any_case``         header names in any case, where the exact one is absent.
    ``cloud_events``     prefixes ``cloudEvents:`` and ``cloudEvents_``, as AMQP 1.0 producers write.
    ``unprefixed``       bare names, as Knative's broker writes, ``x-`` headers aside.
    ``sniff``            JSON documents that no content type declares as events.
    """

    datacontenttype: bool = True
    content_type: bool = True
    natives: bool = True
    any_case: bool = True
    cloud_events: bool = True
    unprefixed: bool = True
    sniff: bool = True


LIBERAL = Leniency()
STRICT = Leniency(*[False] * len(Leniency.__struct_fields__))


@cache
def spellings(leniency: Leniency) -> tuple[Spelling, ...]:
    """In the order of 4.6: the binding's prefix, then the others that are let in."""
    fold = leniency.any_case
    found = [spelling(prefixed("ce-", any_case=fold), lambda name: (HEADERS[name],))]
    if leniency.cloud_events:
        found.append(spelling(_cloud_events(any_case=fold), _cloud_events_headers))
    if leniency.unprefixed:
        found.append(spelling(_bare, lambda name: (name,), claims=False))
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


def _bare(header: str) -> str | None:
    """A name without prefix claims nothing: what cannot be an attribute (``x-death``) is foreign."""
    return header if is_name(header) else None
