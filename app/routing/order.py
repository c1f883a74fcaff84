"""The value by which a subscription orders events: compiled for the worker, and in words for people."""

from __future__ import annotations

from collections.abc import Callable

from app.event.value import CloudEvent
from app.model.subscription import OrderBy, Subscription
from app.routing.keys import compile_pointer

OrderOf = Callable[[CloudEvent], str | None]
"""A function that returns the value that orders an event. None if the event has no order."""


def compile_order(setting: str | OrderBy | None) -> OrderOf | None:
    """Return the function for the setting ``order_by``: an attribute or a JSON Pointer. None if the record key
    orders.
    """
    if setting is None:
        return None
    if isinstance(setting, str):
        return lambda event: event.attributes.get(setting)
    find = compile_pointer(setting.pointer)

    def value(event: CloudEvent) -> str | None:
        found = find(event)
        return None if found is None else found.decode()

    return value


def lane_words(subscription: Subscription, event: CloudEvent, key: bytes | None) -> str:
    """Return in words which events of a subscription are delivered in order with this event (its lane).

    Args:
        subscription: The subscription.
        event: The event.
        key: The key of its record.
    """
    if subscription.ordering == "none":
        return "none: ordering is none"
    words = _lane_words(subscription, event, key)
    if subscription.ordering == "per_key" or words.startswith("none: "):
        return words
    return f"{words}, of one producer"


def _lane_words(subscription: Subscription, event: CloudEvent, key: bytes | None) -> str:
    setting = subscription.order_by
    order_of = compile_order(setting)
    if setting is None or order_of is None:
        return "none: the record has no key" if key is None else f"key {key_text(key)}"
    value = order_of(event)
    if isinstance(setting, OrderBy):
        at = repr(setting.pointer)
        if value is None:
            return f"none: data has no text, number or boolean at {at}"
        return f"{value!r} at {at} in data"
    return f"none: the event has no {setting}" if value is None else f"{setting} {value!r}"


def key_text(key: bytes) -> str:
    """Return a key as text for people, whatever its bytes are."""
    return repr(key.decode("utf-8", "backslashreplace"))
