"""The values of an event that a placeholder of a request can name, each as JSON text.

===============================  ====================================================================
placeholder                      value
===============================  ====================================================================
``{id}``, ``{myextension}``      the attribute; integers and booleans keep their JSON type.
``{time:%Y-%m-%d}``              the attribute ``time`` in UTC, by the directives of ``_DIRECTIVES``.
``{pointer:/order/id}``          the value in the data, as its sender wrote it: ``199.90`` stays ``199.90``.
``{$data}``                      the data: JSON as it came; other UTF-8 text as a string.
``{$attributes}``                an object of all attributes.
===============================  ====================================================================
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Raw

from app.errors import Fault, SenderError, SetupError
from app.event.json_pointer import child_of, descend, is_json, steps_of
from app.event.json_text import NOT_JSON, members, single_value
from app.event.templates import POINTER, Placeholder
from app.event.types import is_name, is_timestamp
from app.event.value import AttributeType, CloudEvent

CURE = (
    "name an attribute, as {id}; or {pointer:/json/pointer}, {time:%Y-%m-%d}, {$data}, {$attributes}; "
    "a literal brace is {{ or }}"
)


class ShapingEvent:
    """An event while its request is shaped. Its data is parsed once for all placeholders."""

    __slots__ = ("_members", "event")

    def __init__(self, event: CloudEvent) -> None:
        self.event = event
        self._members: Mapping[str, Raw] | None = None

    def at(self, steps: Sequence[str]) -> bytes | None:
        """Return the JSON text of the value at the steps of a pointer. Return None if there is no value, or if the
        data is not JSON."""
        try:
            found = self._top(steps[0])
            return None if found is None else descend(bytes(found).strip(), steps[1:])
        except NOT_JSON:
            return None

    def _top(self, step: str) -> Raw | None:
        if self._members is None:
            data = self.event.data
            if not data or not is_json(self.event):
                self._members = _EMPTY
            elif data.lstrip().startswith(b"{"):
                self._members = members(data)
            else:
                return child_of(single_value(data), step)
        return self._members.get(step)

    def data(self) -> bytes | None:
        """Return the data as one JSON value: JSON as it came, other text as a string.

        Raises:
            Unshapeable: the data is declared as JSON and is none, or is neither JSON nor UTF-8.
        """
        data = self.event.data
        if data is None:
            return None
        if self._members:  # parsed already, so it is JSON
            return data.strip()
        return _data(self.event, data)


_EMPTY: Mapping[str, Raw] = MappingProxyType({})

Find = Callable[[ShapingEvent], bytes | None]
"""Return the JSON text of a value of the event; None if the event does not have the value."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DIRECTIVES: Mapping[str, Callable[[dt.datetime], str]] = {
    "%Y": lambda at: f"{at.year:04d}",
    "%m": lambda at: f"{at.month:02d}",
    "%d": lambda at: f"{at.day:02d}",
    "%H": lambda at: f"{at.hour:02d}",
    "%M": lambda at: f"{at.minute:02d}",
    "%S": lambda at: f"{at.second:02d}",
    "%j": lambda at: f"{at.timetuple().tm_yday:03d}",
    "%s": lambda at: str(int((at - _EPOCH).total_seconds())),
    "%%": lambda _at: "%",
}
_DIRECTIVE = re.compile("%.?", re.DOTALL)
_LEAP = ":60"
_BARE = {AttributeType.INTEGER, AttributeType.BOOLEAN}
_encode = msgspec.json.encode


class Unshapeable(SenderError):
    """The error for an event from which the request of a subscription cannot be made. The event becomes a dead
    letter with the cause ``unwritable``."""

    def __init__(self, detail: str, at: str) -> None:
        fault = Fault("unshapeable", detail, at)
        super().__init__("The request cannot be made of this event", status=422, faults=[fault])


def compile_value(placeholder: Placeholder, setting: str) -> Find:
    """Compile one placeholder, its default included.

    Raises:
        SetupError: the placeholder names no value of an event.
    """
    find = _found(placeholder, setting)
    if placeholder.default is None:
        return find
    default = _encode(placeholder.default)
    return lambda event: default if (value := find(event)) is None else value


def _found(placeholder: Placeholder, setting: str) -> Find:
    match placeholder.kind, placeholder.name:
        case "pointer", pointer if POINTER.fullmatch(pointer):
            steps = steps_of(pointer)
            return lambda event: event.at(steps)
        case "time", form if form:
            return _time(form, setting)
        case "", "$data":
            return ShapingEvent.data
        case "", "$attributes":
            return attributes_of
        case "", name if is_name(name):
            return lambda event: attribute_of(event.event, name)
    raise SetupError(f"{placeholder.text} names no value of an event", setting=setting, cure=CURE)


def attribute_of(event: CloudEvent, name: str) -> bytes | None:
    """Return an attribute as JSON. It is a number or boolean if it arrived as such, else a string."""
    text = event.attributes.get(name)
    if text is None:
        return None
    if event.types and event.types.get(name) in _BARE:
        return text.encode()
    return _encode(text)


def attributes_of(view: ShapingEvent) -> bytes:
    """Return a JSON object of all attributes, in their order of arrival."""
    event = view.event
    pairs = [
        _encode(name) + b":" + (attribute_of(event, name) or b"null") for name in event.attributes
    ]
    return b"{" + b",".join(pairs) + b"}"


def _data(event: CloudEvent, data: bytes) -> bytes | None:
    try:
        if not is_json(event):
            return _encode(data.decode())
        try:
            return single_value(data) if data else None
        except NOT_JSON:
            if event.datacontenttype is not None:
                raise
            return _encode(data.decode())
    except NOT_JSON:
        raise Unshapeable("The data is neither JSON nor UTF-8 text.", "{$data}") from None


def _time(form: str, setting: str) -> Find:
    for directive in _DIRECTIVE.findall(form):
        if directive not in _DIRECTIVES:
            cure = f"use {' '.join(_DIRECTIVES)}"
            raise SetupError(f"{directive} is no part of a time", setting=setting, cure=cure)

    def find(event: ShapingEvent) -> bytes | None:
        at = _moment(event.event.attributes.get("time", ""))
        if at is None:
            return None
        return _encode(_DIRECTIVE.sub(lambda found: _DIRECTIVES[found[0]](at), form))

    return find


def _moment(text: str) -> dt.datetime | None:
    """Return a timestamp in UTC. Return None if the text is no timestamp, or if its year in UTC is not 1 to 9999.

    A leap second is shown as the second before it, which Python can hold.
    """
    if not is_timestamp(text):
        return None
    text = text.upper().replace(_LEAP, ":59", 1) if text[16:19] == _LEAP else text.upper()
    try:
        return dt.datetime.fromisoformat(re.sub(r"\.\d+", "", text)).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None
