"""Read binary mode: the attributes in the headers of one message, and the faults of headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.bindings.headers import collapse, not_utf8
from app.bindings.modes import WireType
from app.bindings.older import read_older
from app.bindings.profile import Profile
from app.bindings.record import Native, Record
from app.bindings.spellings import NamingScheme, select
from app.bindings.values import Value, is_quoted, native_text, native_type, unquote
from app.errors import Fault, InvalidEvent
from app.event.upgrade import older_version
from app.event.validate import Locate, clip, faults_of, merge, shorten
from app.event.value import NO_TYPES, AttributeType, CloudEvent
from app.event.versions import NEWEST, VERSIONS, Version

_STRING = AttributeType.STRING
_CORE = VERSIONS[NEWEST].rules
_TYPED = "datacontenttype"
_VERSION = "specversion"

Headers = Sequence[tuple[str, Value | None]]
"""Header names and values, typed as on the wire. None is a null value."""


class HeaderAttribute(NamedTuple):
    """One attribute as a header contained it: its name, its text, its type on the wire, and its place for
    faults."""

    name: str
    text: str
    kind: AttributeType
    at: str


def read_headers(
    record: Record, headers: Headers, wire: WireType | None, chosen: NamingScheme, profile: Profile
) -> CloudEvent:
    """Return the event of a message in binary mode. Raises InvalidEvent with every fault."""
    locate = _locator(chosen, profile)
    data = (record.body or None) if profile.empty_is_none else record.body
    given, faults = attributes_given(chosen, headers, profile)
    content_type = wire.text if wire else None
    if wire is not None and not wire.is_utf8:
        faults.append(not_utf8(profile.words.typed_at, profile.words.values))
        content_type = None
    older = _older_version(given, locate)
    version = VERSIONS[older or NEWEST]
    faults += _strict_faults(given, headers, chosen, version, profile)
    if not version.quoted:  # in versions with JSON values, quotes are part of the value
        given, more = without_quotes(given, profile)
        faults += more
    if older is None:
        return _newest(given, faults, content_type, data, locate)
    if faults:
        raise InvalidEvent(faults)
    pairs = [(each.name, each.text) for each in given]
    typed = {each.name: each.kind for each in given if each.kind is not _STRING}
    return read_older(older, pairs, content_type, data, locate, profile.words.typed_at, typed)


def _newest(
    given: Sequence[HeaderAttribute],
    faults: Sequence[Fault],
    content_type: str | None,
    data: bytes | None,
    locate: Locate,
) -> CloudEvent:
    attributes, repeats = collapse(((each.name, each.text) for each in given), locate)
    if content_type is not None:
        attributes[_TYPED] = (
            content_type  # the content type wins over a header of the name datacontenttype
        )
    found = merge([*faults, *repeats], faults_of(attributes, locate))
    if found:
        raise InvalidEvent(found)
    types = {
        each.name: each.kind
        for each in given
        if each.kind is not _STRING and each.name not in _CORE
    }
    return CloudEvent(attributes, data, types=types or NO_TYPES)


def _older_version(given: Sequence[HeaderAttribute], locate: Locate) -> str | None:
    def said(attribute: str) -> str | None:
        return next((unquote(each.text) for each in given if each.name == attribute), None)

    return older_version(said, locate)


def _locator(chosen: NamingScheme, profile: Profile) -> Locate:
    def locate(name: str) -> str:
        if name == _TYPED:
            return profile.words.typed_at
        return f"{profile.words.place} {shorten(chosen.exact(name)[0])}"

    return locate


def claims(chosen: NamingScheme, header: str, value: Value | None) -> bool:
    """Return True if a header is an attribute of the message.

    A header without prefix whose value has a type that no attribute has is foreign, not faulty.
    """
    if chosen.attribute[header] is None:
        return False
    is_bare = not (chosen.claims or chosen.nested)
    return not is_bare or isinstance(value, bytes | None) or native_text(value) is not None


def attributes_given(
    chosen: NamingScheme, headers: Headers, profile: Profile
) -> tuple[list[HeaderAttribute], list[Fault]]:
    """Return the attributes that headers contain, and the faults of headers that cannot be attributes."""
    given: list[HeaderAttribute] = []
    faults: list[Fault] = []
    claimed = [each for each in headers if claims(chosen, *each)]
    found: list[tuple[str, str, Value]] = select(chosen, claimed)
    for header, name, value in found:
        at = f"{profile.words.place} {clip(header)[1:-1]}"
        read = _read_value(value, at, profile)
        if isinstance(read, Fault):
            faults.append(read)
        else:
            given.append(HeaderAttribute(name, read, _kind(value), at))
    return given, faults


def _read_value(value: Value, at: str, profile: Profile) -> str | Fault:
    if not isinstance(value, bytes):
        return _read_native(value, at, profile)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return not_utf8(at, profile.words.values)


def no_text(at: str, value: object, rule: str) -> Fault:
    """Return the fault of a header whose value must be a string and has another type, such as a list or a
    table."""
    kind = type(value).__name__
    return Fault("wrong-type", f"{at} is not a string, but of type {kind}.", at, rule)


def _read_native(value: Native, at: str, profile: Profile) -> str | Fault:
    text = native_text(value) if profile.natives else None
    if text is not None:
        return text
    others = ", boolean, timestamp or integer of 32 bits" if profile.natives else ""
    detail = f"{at} is not a string{others}, but of type {type(value).__name__}."
    return Fault("wrong-type", detail, at, profile.words.values)


def _kind(value: Value) -> AttributeType:
    return _STRING if isinstance(value, bytes) else native_type(value)


def without_quotes(
    given: list[HeaderAttribute], profile: Profile
) -> tuple[list[HeaderAttribute], list[Fault]]:
    """Return the attributes without the quotes of JSON strings, and the faults of values that are no attributes.

    Quotes are removed only if ``specversion`` has them. Some producers follow the examples of the bindings,
    or Pulsar's JSON values, to the letter.
    """
    quoted = profile.quoted
    if quoted is None or not any(each.name == _VERSION and is_quoted(each.text) for each in given):
        return given, []
    plain: list[HeaderAttribute] = []
    faults: list[Fault] = []
    for each in given:
        read = quoted(each.text, each.at)
        if isinstance(read, Fault):
            faults.append(read)
        elif read[0] is not None:  # null is unset
            plain.append(HeaderAttribute(each.name, read[0], read[1], each.at))
    return plain, faults


def _strict_faults(
    given: Sequence[HeaderAttribute],
    headers: Headers,
    chosen: NamingScheme,
    version: Version,
    profile: Profile,
) -> list[Fault]:
    """Return the faults that deviations have while their leniency is off."""
    faults: list[Fault] = []
    if not profile.leniency.datacontenttype:  # by the version's own name for it
        named = [each for each in given if each.name == version.content_type]
        faults += [_second_type(each, profile) for each in named]
    if not profile.leniency.repeats:
        faults += _repeats(given)
    if not profile.nulls:
        nulls = [h for h, value in headers if value is None and chosen.attribute[h] is not None]
        for at in (f"{profile.words.place} {clip(header)[1:-1]}" for header in nulls):
            faults.append(Fault("null-attribute", f"{at} has no value.", at, profile.words.values))
    return faults


def _second_type(given: HeaderAttribute, profile: Profile) -> Fault:
    detail = f"{given.at} must not be sent: the content type of the data is the {profile.words.typed_at}."
    return Fault("unexpected-datacontenttype", detail, given.at, profile.words.one_type)


def _repeats(given: Sequence[HeaderAttribute]) -> list[Fault]:
    """Return a fault for each header that repeats an attribute with the same value. Different values are always
    a fault.
    """
    seen: set[tuple[str, str]] = set()
    faults: list[Fault] = []
    for each in given:
        if (each.name, each.text) in seen:
            detail = f"{shorten(each.name)} is given twice."
            faults.append(Fault("repeated-attribute", detail, each.at, "core 1.1"))
        seen.add((each.name, each.text))
    return faults
