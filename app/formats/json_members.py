"""The members of one JSON document. Names must be unique, and attributes must have a JSON type that the
format permits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec
from msgspec import Raw

from app.errors import Fault, InvalidEvent
from app.event import json_text
from app.event.types import is_integer
from app.event.validate import Locate, clip, faults_of, merge, shorten
from app.event.value import NO_TYPES, AttributeType
from app.event.versions import NEWEST, VERSIONS, Version

MEMBERS = 1024  # the most members of one event

_NOT_AN_OBJECT = Fault("not-an-object", "An event is a JSON object.", rule="J4")
_TEXTS = msgspec.json.Decoder(list[str])
_SCALAR = msgspec.json.Decoder(str | bool | int | None)
_WHITE_SPACE = b" \t\r\n"
_EXPECTED = {
    False: "a string, a boolean or an integer without fraction or exponent",
    True: "a string, a boolean, an integer without fraction or exponent, or an object",
}
_UNESCAPED = bytes(set(range(0x20, 0x7F)) - set(b"\\"))

Document = TypeVar("Document")
Attributes = tuple[dict[str, str], Mapping[str, AttributeType], list[Fault]]


def read_members(text: bytes) -> dict[str, Raw]:
    """Return member names with the raw text of their values, in order. ``text`` must be UTF-8.

    Raises InvalidEvent if the text is no JSON object, or repeats a name. A repeated name is refused, because
    an attribute appears at most once (core 1.1) and readers disagree which of two values counts.
    """
    members = decoded(json_text.members, text, _NOT_AN_OBJECT)
    if len(members) > MEMBERS:
        raise InvalidEvent([_too_many(len(members))])
    faults = [] if has_unique_names(text, members) else _repeated(text)
    if faults:
        raise InvalidEvent(faults)
    return members


def decoded(decode: Callable[[bytes], Document], text: bytes, otherwise: Fault) -> Document:
    """Return the result of ``decode``. Raises InvalidEvent if decoding fails. If the JSON has another type,
    the fault is ``otherwise``."""
    try:
        return decode(text)
    except msgspec.ValidationError:
        fault = otherwise
    except msgspec.DecodeError as error:
        fault = Fault("bad-json", f"{json_text.reason(text, error)}.", rule="RFC 8259")
    except RecursionError:
        fault = Fault("json-too-deep", "The document is nested too deeply.", rule="RFC 8259 9")
    raise InvalidEvent([fault])


def has_unique_names(text: bytes, members: dict[str, Raw]) -> bool:
    """Return True if it is certain that no name is repeated. This is so if the lengths of names, values,
    punctuation and white space add up to the length of the text.

    False means only that the names must be counted, for example because a name has an escape.
    """
    values, names = b",".join(members.values()), "".join(members).encode("utf-8", "surrogatepass")
    rest = 3 * len(members) + 2  # the bytes of quotes, colons and braces
    return rest + len(names) + len(values) == len(text) or (
        rest + _visible(names) + _visible(values) == _visible(text)
    )


def _too_many(members: int) -> Fault:
    detail = f"The event has {members} members; at most {MEMBERS} are accepted."
    return Fault("too-many-members", detail, rule="rule 8")


def _visible(text: bytes) -> int:
    return len(text.translate(None, _WHITE_SPACE))


def _repeated(text: bytes) -> list[Fault]:
    try:
        times = Counter(_names(text))
    except RecursionError:  # deep data: this parser reaches a lower depth than the other
        return [Fault("duplicate-member", "A member occurs more than once.", rule="core 1.1")]
    return [
        Fault("duplicate-member", f"{clip(name)} occurs {n} times.", pointer(name), "core 1.1")
        for name, n in times.items()
        if n > 1
    ]


def _names(text: bytes) -> list[str]:
    """Return all names of the outermost object in order, including repeated names. The outermost object is
    closed last."""
    outermost: list[str] = []

    def close(pairs: list[tuple[str, object]]) -> None:
        outermost[:] = [name for name, _ in pairs]

    json.JSONDecoder(object_pairs_hook=close, parse_int=str, parse_float=str).decode(text.decode())
    return outermost


def read_attributes(members: dict[str, Raw]) -> Attributes:
    """Return the attributes as canonical text. Return also the types other than String, and every fault."""
    values = b",".join(members.values())
    try:
        texts = _TEXTS.decode(b"[" + values + b"]")
    except (
        msgspec.DecodeError
    ):  # a value is no string, which a type may permit, or it is no valid text
        return mixed_attributes(members, VERSIONS[NEWEST], pointer)
    attributes = dict(zip(members, texts, strict=False))
    printable = not values.translate(None, _UNESCAPED)
    return attributes, NO_TYPES, faults_of(attributes, pointer, printable=printable)


def mixed_attributes(members: dict[str, Raw], version: Version, locate: Locate) -> Attributes:
    """Return the attributes of a version as canonical text, by its own names. Return also the types other
    than String, and every fault.
    """
    attributes: dict[str, str] = {}
    types: dict[str, AttributeType] = {}
    faults: list[Fault] = []
    for name, raw in members.items():
        value = _value(name, bytes(raw), version, locate)
        if isinstance(value, Fault):
            faults.append(value)
        elif isinstance(value, bytes):
            attributes[name], types[name] = value.decode(), AttributeType.MAP
        elif value is not None:  # null is unset
            attributes[name], kind = _canonical(value)
            if kind is not AttributeType.STRING:
                types[name] = kind
    found = faults_of(attributes, locate, version=version)
    return attributes, types, merge(faults, found)


def _value(
    name: str, raw: bytes, version: Version, locate: Locate
) -> str | bool | int | bytes | Fault | None:
    """Return the value of an attribute, or its fault. Bytes are the compact text of a Map, in versions that have
    Maps.
    """
    try:
        value: str | bool | int | bytes | None = _SCALAR.decode(raw)
    except msgspec.ValidationError:  # of another type, or a number of thousands of digits
        value = raw
    except (
        msgspec.DecodeError
    ):  # a string with an unpaired surrogate: validation names the broken rule
        return json_text.string(raw)
    if value is None or isinstance(value, str):
        return value
    if name in version.rules:
        return _wrong_type(name, raw, "a string", locate)
    if isinstance(value, bool) or (isinstance(value, int) and is_integer(raw.decode())):
        return value
    compact = compact_map(raw) if version.maps else None
    if compact is not None:
        return unpaired(name, compact, locate(name)) or compact
    if raw.removeprefix(b"-").isdigit():
        detail = f"{clip(name)} is {clip(raw.decode())}, which is not a 32-bit integer."
        return Fault("integer-out-of-range", detail, locate(name), "core 1.3")
    return _wrong_type(name, raw, _EXPECTED[version.maps], locate)


def unpaired(name: str, value: bytes, at: str) -> Fault | None:
    """Return the fault of a Map whose texts contain an unpaired surrogate, or None. These texts are Strings
    (core 1.3), which may not contain one."""
    if not json_text.is_unpaired(value):
        return None
    detail = f"{shorten(name)} holds an unpaired surrogate, which is not allowed in a string."
    return Fault("forbidden-character", detail, at, "core 1.3")


def compact_map(raw: bytes) -> bytes | None:
    """Return a Map as compact text with its numbers unchanged, or None if the text is no JSON object."""
    try:
        json_text.members(raw)
        return json_text.compact(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _wrong_type(name: str, raw: bytes, expected: str, locate: Locate) -> Fault:
    detail = f"{clip(name)} is {clip(raw.decode())}; expected {expected}."
    return Fault("wrong-type", detail, locate(name), "J1")


def _canonical(value: str | bool | int) -> tuple[str, AttributeType]:
    """Return canonical text and type of a value (core 1.3). A Boolean becomes ``true`` or ``false``, and an
    Integer a plain decimal number.
    """
    if isinstance(value, str):
        return value, AttributeType.STRING
    if isinstance(value, bool):
        return ("true" if value else "false"), AttributeType.BOOLEAN
    return str(value), AttributeType.INTEGER


def value_of(text: str, kind: AttributeType | None) -> bytes:
    """Return the JSON value of an attribute. Integers, Booleans and Maps keep their type, and any other type
    becomes a string."""
    if kind is None or kind is AttributeType.STRING:
        return msgspec.json.encode(text)
    return text.encode()


def pointer(name: str) -> str:
    """Return the JSON Pointer to a member (RFC 6901). A name that is too long is shortened."""
    return "/" + shorten(name).replace("~", "~0").replace("/", "~1")
