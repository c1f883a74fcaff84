"""What the formats with native attribute types share: native values to canonical text and back."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping

from app.errors import Fault, InvalidEvent, SenderError
from app.event.types import INTEGER_MAX, INTEGER_MIN
from app.event.validate import clip, faults_of, merge, shorten
from app.event.value import AttributeType, CloudEvent, DataForm

Value = str | bool | int | bytes
"""A native attribute value: Boolean, Integer, Binary, or any type whose canonical form is text."""

Data = tuple[bytes | None, DataForm]

ATTRIBUTES = 1024  # of one event; HTTP's headers are bounded too (rule 8)
CORE = frozenset({"specversion", "id", "source", "type", "datacontenttype", "dataschema", "subject", "time"})  # fmt: skip

_VERSION = "1.0"


class FormatNotInstalled(SenderError):
    """The library that a format needs is not there: 415, naming the extra that brings it."""

    def __init__(self, name: str) -> None:
        title = f"The {name} event format is not installed; it needs the extra formats"
        super().__init__(title, status=415, code="format-not-installed")


class NotRepresentable(SenderError):
    """A valid event that a format cannot hold without changing it: 422."""

    def __init__(self, name: str, fault: Fault) -> None:
        title = f"The {name} event format cannot hold this event"
        super().__init__(title, status=422, code="not-representable", faults=[fault])


class Arriving:
    """The attributes of one event while they are read, with every fault."""

    def __init__(self) -> None:
        self.attributes: dict[str, str] = {}
        self.faults: list[Fault] = []
        self._types: dict[str, AttributeType] = {}

    def add(self, name: str, value: Value) -> None:
        """A value of the type it has in the document; no name twice (core 1.1)."""
        if name in self.attributes:
            self.repeated(name)
        elif name in CORE and not isinstance(value, str):
            detail = f"{name} is a {_kind(value)}; expected text."
            self.refuse("wrong-type", detail, place(name), "core 1.1")
        elif type(value) is int and not INTEGER_MIN <= value <= INTEGER_MAX:
            detail = f"{clip(name)} is {value}, which is not a 32-bit integer."
            self.refuse("integer-out-of-range", detail, place(name), "core 1.3")
        else:
            self._take(name, value)

    def repeated(self, name: str) -> None:
        detail = f"{clip(name)} occurs more than once."
        self.refuse("duplicate-attribute", detail, place(name), "core 1.1")

    def _take(self, name: str, value: Value) -> None:
        self.attributes[name] = canonical(value)
        if isinstance(value, bool):
            self._types[name] = AttributeType.BOOLEAN
        elif isinstance(value, int):
            self._types[name] = AttributeType.INTEGER

    def refuse(self, code: str, detail: str, at: str = "", rule: str = "") -> None:
        self.faults.append(Fault(code, detail, at, rule))

    def event(self, data: Data) -> CloudEvent:
        """Raises InvalidEvent with every fault of reading and of validation."""
        found = merge(self.faults, self._other_version())
        faults = merge(found, faults_of(self.attributes, place))
        if faults:
            raise InvalidEvent(faults)
        return CloudEvent(self.attributes, *data, self._types)

    def _other_version(self) -> list[Fault]:
        """These formats came with 1.0: no earlier version is defined in them."""
        text = self.attributes.get("specversion")
        if not text or text == _VERSION:  # none at all is told as such
            return []
        detail = f"specversion {clip(text)} is not supported in this format; supported: 1.0."
        return [Fault("unsupported-specversion", detail, place("specversion"), "core 1.1")]


def canonical(value: Value) -> str:
    """Core 1.3: ``true`` and ``false``, plain decimals, base64; text is canonical already."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    return str(value).lower()


def native(text: str, kind: AttributeType | None) -> str | bool | int:
    """The value whose canonical text this is: integers and booleans as such, all else as text."""
    if kind is AttributeType.BOOLEAN:
        return text == "true"
    return int(text) if kind is AttributeType.INTEGER else text


def leaving(event: CloudEvent, form: str) -> Mapping[str, str]:
    """The attributes to be written: a payload that is JSON without saying so gets its type (I4, J13).

    Raises NotRepresentable for an event of another version than 1.0.
    """
    if event.version != _VERSION:
        detail = f"specversion {clip(event.version)} has no {form} format; only 1.0 has."
        fault = Fault("unsupported-specversion", detail, place("specversion"), "core 1.1")
        raise NotRepresentable(form, fault)
    if event.data_form is DataForm.JSON and event.datacontenttype is None:
        return {**event.attributes, "datacontenttype": "application/json"}
    return event.attributes


def place(name: str) -> str:
    """JSON Pointer to an attribute (RFC 6901); of a name too long to repeat, its beginning."""
    return "/" + shorten(name).replace("~", "~0").replace("/", "~1")


def too_many(count: int) -> InvalidEvent:
    detail = f"The event has {count} attributes; at most {ATTRIBUTES} are accepted."
    return InvalidEvent([Fault("too-many-attributes", detail, rule="rule 8")])


def _kind(value: Value) -> str:
    return {bool: "Boolean", int: "Integer", bytes: "Binary"}[type(value)]
