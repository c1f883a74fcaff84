"""Validate CloudEvents. All faults are listed at once, so that a sender can correct them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.errors import Fault
from app.event.memo import Memo
from app.event.types import forbidden_character, is_name
from app.event.versions import NEWEST, SUPPORTED, VERSIONS, AttributeRule, Version

CLIPPED = 64  # the most characters of a refused value that a fault repeats

Locate = Callable[[str], str]
"""A function that maps an attribute name to its place in the message: ``header ce-time`` or ``/time``."""

_RULES = VERSIONS[NEWEST].rules
_REQUIRED = sum(rule.required for rule in _RULES.values())


def faults_of(
    attributes: Mapping[str, str],
    locate: Locate,
    *,
    printable: bool = False,
    version: Version = VERSIONS[NEWEST],
) -> list[Fault]:
    """Return every fault of the attributes, or an empty list if they are valid.

    If ``specversion`` is not supported, this is the only fault returned, because the rules of that version
    are unknown.

    Args:
        attributes: Canonical texts by attribute name, with the names of the version.
        locate: Map an attribute name to its place in the message.
        printable: True if the caller knows that all values are printable ASCII.
        version: The version whose rules apply.
    """
    if version.text == NEWEST and is_plainly_valid(attributes, printable=printable):
        return []
    return _diagnose(attributes, locate, version)


def is_plainly_valid(attributes: Mapping[str, str], *, printable: bool = False) -> bool:
    """Return True if the attributes are valid in version 1.0 and printable ASCII. This is the fast path.

    False means only that ``faults_of`` must decide, for an older version or other characters, for example.
    """
    checks = checks_of(tuple(attributes))
    return (
        checks is not None
        and passes(attributes, checks)
        and (printable or _is_printable("".join(attributes.values())))
    )


def passes(attributes: Mapping[str, str], checks: Checks) -> bool:
    """Return True if no value is empty and each value satisfies the rule of its attribute.

    False means only that ``faults_of`` must decide, because an extension may be empty.
    """
    if not all(attributes.values()):
        return False
    for name, accepts in checks:  # noqa: SIM110 - a generator is slower
        if not accepts(attributes[name]):
            return False
    return True


Checks = tuple[tuple[str, Callable[[str], object]], ...]
"""Pairs of an attribute name and the test of its value."""


def _checks_of(names: tuple[str, ...]) -> Checks | None:
    """Return the tests for attributes with these names, or None if a required one is missing or a name is
    invalid.

    The tests assume that no value is empty.
    """
    ruled = [name for name in names if name in _RULES]
    required = sum(_RULES[name].required for name in ruled)
    if required < _REQUIRED or not all(is_name(name) for name in names if name not in _RULES):
        return None
    return tuple(
        (name, rule.accepts) for name in ruled if (rule := _RULES[name]).accepts is not len
    )


checks_of = Memo(_checks_of).__getitem__
"""A cached function that returns the tests for attributes with these names. It returns None if a required
attribute is missing or a name is invalid."""


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _diagnose(attributes: Mapping[str, str], locate: Locate, version: Version) -> list[Fault]:
    if attributes.get(version.attribute) not in (None, "", version.text):
        return [unsupported(version.attribute, attributes[version.attribute], locate)]
    found: list[Fault] = []
    for name, rule in version.rules.items():
        text = attributes.get(name)
        if text is None:
            if rule.required:
                found.append(_missing(name, locate(name)))
        elif not rule.accepts(text):
            found.append(_refused(name, text, rule, locate(name)))
    found += _names_and_characters(attributes, version, locate)
    return found


def _names_and_characters(
    attributes: Mapping[str, str], version: Version, locate: Locate
) -> list[Fault]:
    found = [
        _bad_name(name, locate(name), version)
        for name in attributes
        if name not in version.rules and not version.is_name(name)
    ]
    found += [
        _half_name(name, locate(name))
        for name in attributes
        if version.is_name(name) and not _is_encodable(name)
    ]
    for name, value in attributes.items():
        index = forbidden_character(value)
        if index is not None:
            found.append(_forbidden(name, value, index, locate(name)))
    return found


def merge(found: list[Fault], more: list[Fault]) -> list[Fault]:
    """Return ``found`` and those faults of ``more`` that concern other places in the message.

    So a value that could not be read is not reported as missing as well.
    """
    places = {fault.at for fault in found}
    return found + [fault for fault in more if fault.at not in places]


def clip(text: str) -> str:
    """Return the refused value in the form in which a fault shows it: quoted, escaped and at most 64
    characters."""
    return ascii(_cut(text))


def shorten(text: str) -> str:
    """Return a name in the form in which a fault shows it: at most 64 characters, with control characters
    escaped."""
    cut = _cut(text)
    return cut if cut.isprintable() else ascii(cut)[1:-1]


def _cut(text: str) -> str:
    """Return at most 64 characters of a text, so that an answer does not grow with the request."""
    return text if len(text) <= CLIPPED else text[:CLIPPED] + "..."


def _missing(name: str, at: str) -> Fault:
    return Fault("missing-attribute", f"The required attribute {name} is missing.", at, "core 1.1")


def _refused(name: str, text: str, rule: AttributeRule, at: str) -> Fault:
    if not text:
        cure = "give it a value" if rule.required else "leave it out, or give it a value"
        detail = f"{name} is empty: {cure}."
        return Fault("empty-attribute", detail, at, rule.clause)
    return Fault(
        rule.code, f"{name}: {clip(text)} is not a valid {rule.expected}.", at, rule.clause
    )


def unsupported(attribute: str, text: str, locate: Locate) -> Fault:
    """Return the fault of an unsupported version."""
    detail = f"{attribute} {clip(text)} is not supported; supported: {SUPPORTED}."
    return Fault("unsupported-specversion", detail, locate(attribute), "core 1.1")


def _bad_name(name: str, at: str, version: Version) -> Fault:
    if version.nested:
        detail = f"{clip(name)} is not an attribute of {version.text}, which has its extensions in a separate member."
    else:
        detail = (
            f"{clip(name)} is not an attribute name: lower-case letters a-z and digits only, and not "
            "data."
        )
    return Fault("bad-attribute-name", detail, at, "core 1.2")


def _is_encodable(name: str) -> bool:
    """Return False if a name has half of a surrogate pair, so that no document in UTF-8 can hold it."""
    try:
        return name.isascii() or name.encode() is not None
    except UnicodeEncodeError:
        return False


def _half_name(name: str, at: str) -> Fault:
    detail = f"{shorten(name)} holds half of a surrogate pair, which is not allowed in a string."
    return Fault("forbidden-character", detail, at, "core 1.3")


def _forbidden(name: str, text: str, index: int, at: str) -> Fault:
    detail = f"{shorten(name)} holds U+{ord(text[index]):04X} at character {index}, which is not allowed in a string."
    return Fault("forbidden-character", detail, at, "core 1.3")
