"""Convert values of native types to canonical text and back. The event formats with native attribute types
share this module."""

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
"""The payload and its form."""

ATTRIBUTES = 1024  # the most attributes of one event
CORE = frozenset({"specversion", "id", "source", "type", "datacontenttype", "dataschema", "subject", "time"})  # fmt: skip

_VERSION = "1.0"


class FormatNotInstalled(SenderError):
    """The library of an event format is missing (415). The message names the extra that contains it."""

    def __init__(self, name: str) -> None:
        title = f"The {name} event format is not installed; it needs the extra formats"
        super().__init__(title, status=415, code="format-not-installed")


class NotRepresentable(SenderError):
    """The error for a valid event that a format cannot hold without changing it (422)."""

    def __init__(self, name: str, fault: Fault) -> None:
        title = f"The {name} event format cannot hold this event"
        super().__init__(title, status=422, code="not-representable", faults=[fault])


class AttributeReader:
    """A collector of the attributes of one event, and of every fault, while a document is read."""

    def __init__(self) -> None:
        self.attributes: dict[str, str] = {}
        self.faults: list[Fault] = []
        self._types: dict[str, AttributeType] = {}

    def add(self, name: str, value: Value) -> None:
        """Add an attribute with the type that it has in the document. A repeated name is a fault (core
        1.1)."""
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
        """Add the fault of an attribute that is repeated."""
        detail = f"{clip(name)} occurs more than once."
        self.refuse("duplicate-attribute", detail, place(name), "core 1.1")

    def _take(self, name: str, value: Value) -> None:
        self.attributes[name] = canonical(value)
        if isinstance(value, bool):
            self._types[name] = AttributeType.BOOLEAN
        elif isinstance(value, int):
            self._types[name] = AttributeType.INTEGER

    def refuse(self, code: str, detail: str, at: str = "", rule: str = "") -> None:
        """Add a fault of the document."""
        self.faults.append(Fault(code, detail, at, rule))

    def event(self, data: Data) -> CloudEvent:
        """Return the event. Raises InvalidEvent with every fault of reading and of validation."""
        found = merge(self.faults, self._other_version())
        faults = merge(found, faults_of(self.attributes, place))
        if faults:
            raise InvalidEvent(faults)
        return CloudEvent(self.attributes, *data, self._types)

    def _other_version(self) -> list[Fault]:
        """Return the fault of a specversion other than 1.0. The formats with native types do not define other
        versions."""
        text = self.attributes.get("specversion")
        if not text or text == _VERSION:  # validation reports a missing one
            return []
        detail = f"specversion {clip(text)} is not supported in this format; supported: 1.0."
        return [Fault("unsupported-specversion", detail, place("specversion"), "core 1.1")]


def canonical(value: Value) -> str:
    """Return the canonical text of a value (core 1.3). It is ``true`` or ``false``, a plain decimal number,
    base64, or the text itself.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    return str(value).lower()


def native_value(text: str, kind: AttributeType | None) -> str | bool | int:
    """Return the native value for a canonical text. An Integer or a Boolean gets its Python type, and any
    other type stays text."""
    if kind is AttributeType.BOOLEAN:
        return text == "true"
    return int(text) if kind is AttributeType.INTEGER else text


def attributes_to_write(event: CloudEvent, form: str) -> Mapping[str, str]:
    """Return the attributes to write. JSON data without a content type gets ``application/json``.

    Raises NotRepresentable for a version other than 1.0.
    """
    if event.version != _VERSION:
        detail = f"specversion {clip(event.version)} has no {form} format; only 1.0 has."
        fault = Fault("unsupported-specversion", detail, place("specversion"), "core 1.1")
        raise NotRepresentable(form, fault)
    if event.data_form is DataForm.JSON and event.datacontenttype is None:
        return {**event.attributes, "datacontenttype": "application/json"}
    return event.attributes


def place(name: str) -> str:
    """Return the JSON Pointer to an attribute (RFC 6901). A name that is too long is shortened."""
    return "/" + shorten(name).replace("~", "~0").replace("/", "~1")


def too_many(count: int) -> InvalidEvent:
    """Return the error for an event with more than ``ATTRIBUTES`` attributes."""
    detail = f"The event has {count} attributes; at most {ATTRIBUTES} are accepted."
    return InvalidEvent([Fault("too-many-attributes", detail, rule="rule 8")])


def _kind(value: Value) -> str:
    return {bool: "Boolean", int: "Integer", bytes: "Binary"}[type(value)]
