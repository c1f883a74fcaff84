"""The attributes that the headers of one message give, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.bindings.headers import not_utf8
from app.bindings.profile import Profile
from app.bindings.record import Native
from app.bindings.spellings import Spelling, select
from app.bindings.values import Value, is_quoted, native_text, native_type
from app.errors import Fault
from app.event.validate import clip, shorten
from app.event.value import AttributeType
from app.event.versions import Version

_STRING = AttributeType.STRING
_VERSION = "specversion"

Headers = Sequence[tuple[str, Value | None]]
"""Header names and values, as typed on the wire."""


class Given(NamedTuple):
    """One attribute as a header gave it: its name, its text, what the wire told of its type, where."""

    name: str
    text: str
    kind: AttributeType
    at: str


def claims(chosen: Spelling, header: str, value: Value | None) -> bool:
    """A bare name whose type no attribute has is foreign rather than wrong."""
    if chosen.attribute[header] is None:
        return False
    is_bare = not (chosen.claims or chosen.nested)
    return not is_bare or isinstance(value, bytes | None) or native_text(value) is not None


def attributes_given(
    chosen: Spelling, headers: Headers, profile: Profile
) -> tuple[list[Given], list[Fault]]:
    """The attributes that headers give, and what is wrong with the others."""
    given: list[Given] = []
    faults: list[Fault] = []
    claimed = [each for each in headers if claims(chosen, *each)]
    found: list[tuple[str, str, Value]] = select(chosen, claimed)
    for header, name, value in found:
        at = f"{profile.words.place} {clip(header)[1:-1]}"
        read = _read_value(value, at, profile)
        if isinstance(read, Fault):
            faults.append(read)
        else:
            given.append(Given(name, read, _kind(value), at))
    return given, faults


def _read_value(value: Value, at: str, profile: Profile) -> str | Fault:
    if not isinstance(value, bytes):
        return _read_native(value, at, profile)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return not_utf8(at, profile.words.values)


def _read_native(value: Native, at: str, profile: Profile) -> str | Fault:
    text = native_text(value) if profile.natives else None
    if text is not None:
        return text
    others = ", boolean, timestamp or integer of 32 bits" if profile.natives else ""
    detail = f"{at} is not a string{others}, but of type {type(value).__name__}."
    return Fault("wrong-type", detail, at, profile.words.values)


def _kind(value: Value) -> AttributeType:
    return _STRING if isinstance(value, bytes) else native_type(value)


def without_quotes(given: list[Given], profile: Profile) -> tuple[list[Given], list[Fault]]:
    """All values are in quotes or none is, and ``specversion`` tells: producers exist that believe the
    examples of the bindings, or follow P6 to the letter.
    """
    quoted = profile.quoted
    if quoted is None or not any(each.name == _VERSION and is_quoted(each.text) for each in given):
        return given, []
    plain: list[Given] = []
    faults: list[Fault] = []
    for each in given:
        read = quoted(each.text, each.at)
        if isinstance(read, Fault):
            faults.append(read)
        elif read[0] is not None:  # null is unset (J2)
            plain.append(Given(each.name, read[0], read[1], each.at))
    return plain, faults


def strict_faults(
    given: Sequence[Given], headers: Headers, chosen: Spelling, version: Version, profile: Profile
) -> list[Fault]:
    """What is let pass by leniencies that are off."""
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


def _second_type(given: Given, profile: Profile) -> Fault:
    detail = f"{given.at} must not be sent: the content type of the data is the {profile.words.typed_at}."
    return Fault("unexpected-datacontenttype", detail, given.at, profile.words.one_type)


def _repeats(given: Sequence[Given]) -> list[Fault]:
    """Those that agree: others are refused by every reader."""
    seen: set[tuple[str, str]] = set()
    faults: list[Fault] = []
    for each in given:
        if (each.name, each.text) in seen:
            detail = f"{shorten(each.name)} is given twice."
            faults.append(Fault("repeated-attribute", detail, each.at, "core 1.1"))
        seen.add((each.name, each.text))
    return faults
