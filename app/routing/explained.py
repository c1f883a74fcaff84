"""Explain which key an event would get, and why, for people who ask why two events are delivered in
order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from app.event.value import CloudEvent
from app.model.route import KeyPolicy
from app.routing.keys import NO_MAPPERS, MissingKey, PlainMapper, compile_key
from app.routing.templates import demanded


class ExplainedKey(msgspec.Struct, frozen=True):
    """The record key of an event, with its reason.

    Attributes:
        mapper: The key mapper of the route.
        key: The record key; None for none.
        why: The source of the key, or why there is none, in one clause.
        refused: True if the route demands a key, so that the event would be refused with 400.
    """

    mapper: str
    key: bytes | None
    why: str
    refused: bool = False


def explain(
    policy: KeyPolicy,
    event: CloudEvent,
    request_key: bytes | None = None,
    *,
    own: Mapping[str, PlainMapper] = NO_MAPPERS,
) -> ExplainedKey:
    """Return the key of an event under a policy, with its reason.

    Raises what the key mapper raises, but not MissingKey.

    Args:
        policy: The setting ``key`` of a route.
        event: The event.
        request_key: The key that the request gives.
        own: The operator's key mappers, by name.
    """
    try:
        key, refused = compile_key(policy, own=own)(event, request_key), False
    except MissingKey:
        key, refused = None, True
    reason = _REASONS.get(policy.mapper, _own)
    if policy.missing != "from_request":
        return ExplainedKey(policy.mapper, key, reason(policy, event, key is not None), refused)
    own_key = compile_key(policy.model_copy(update={"missing": "none"}), own=own)(event, None)
    why = reason(policy, event, own_key is not None)
    if own_key is None:
        why += f"; {_from_request(policy, event, key is not None)}"
    return ExplainedKey(policy.mapper, key, why)


_Reason = Callable[[KeyPolicy, CloudEvent, bool], str]
"""A function from policy, event and whether there is a key to the reason in one clause."""


def _from_request(_policy: KeyPolicy, _event: CloudEvent, found: bool) -> str:
    return "the request has it" if found else "the request has none"


def _partitionkey(_policy: KeyPolicy, _event: CloudEvent, found: bool) -> str:
    return _of_attribute("partitionkey", found) + (", or an empty one" if not found else "")


def _attribute(policy: KeyPolicy, _event: CloudEvent, found: bool) -> str:
    return _of_attribute(policy.attribute or "", found)


def _of_attribute(name: str, found: bool) -> str:
    return f"it is the attribute {name}" if found else f"the event has no attribute {name}"


def _template(policy: KeyPolicy, event: CloudEvent, found: bool) -> str:
    if found:
        return f"it is computed from {policy.template}"
    return f"{policy.template} needs {_absent(demanded(policy.template or ''), event)}"


def _pointer(policy: KeyPolicy, _event: CloudEvent, found: bool) -> str:
    if found:
        return f"it is the value at {policy.pointer!r} in data"
    return f"data has no text, number or boolean at {policy.pointer!r}"


def _hash(policy: KeyPolicy, event: CloudEvent, found: bool) -> str:
    names = policy.attributes or ()
    absent = _absent(names, event)
    if not found:
        return f"the event has none of {absent}"
    return f"it is the digest of {', '.join(names)}" + (f"; absent: {absent}" if absent else "")


def _none(_policy: KeyPolicy, _event: CloudEvent, _found: bool) -> str:
    return "the route wants none"


def _own(policy: KeyPolicy, _event: CloudEvent, found: bool) -> str:
    return f"the key mapper {policy.mapper!r} returned {'it' if found else 'none'}"


def _absent(names: tuple[str, ...], event: CloudEvent) -> str:
    return ", ".join(dict.fromkeys(name for name in names if name not in event.attributes))


_REASONS: Mapping[str, _Reason] = {
    "from_request": _from_request,
    "partitionkey": _partitionkey,
    "attribute": _attribute,
    "template": _template,
    "pointer": _pointer,
    "hash": _hash,
    "none": _none,
}
