"""Is this a valid CloudEvent? Every fault at once, so that a sender corrects an event in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.errors import Fault
from app.event.types import forbidden_character, is_name
from app.event.versions import NEWEST, VERSIONS, Rule

CLIPPED = 64  # characters of an offending value that a fault repeats

Locate = Callable[[str], str]
"""Attribute name to where it stood: ``header ce-time``, ``/time``."""


def faults_of(
    attributes: Mapping[str, str], locate: Locate, *, printable: bool = False
) -> list[Fault]:
    """Everything wrong with ``attributes`` (1.0 names to canonical strings); empty when valid.

    ``printable``  the caller has seen that all values are printable ASCII.
    An unsupported ``specversion`` hides other faults: whose rules would they break?
    """
    return [] if _is_plainly_valid(attributes, printable) else _diagnose(attributes, locate)


def _is_plainly_valid(attributes: Mapping[str, str], printable: bool) -> bool:
    """The hot path. False only means that a closer look is needed: at any text beyond ASCII, say."""
    try:
        version = VERSIONS[attributes["specversion"]]
        version.required(attributes)
    except KeyError:
        return False
    accepts = version.accepts
    for name, value in attributes.items():
        accept = accepts.get(name)
        if not (is_name(name) if accept is None else accept(value)):
            return False
    return printable or _is_printable("".join(attributes.values()))


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _diagnose(attributes: Mapping[str, str], locate: Locate) -> list[Fault]:
    version = VERSIONS.get(attributes.get("specversion") or NEWEST)
    if version is None:
        return [_unsupported(attributes["specversion"], locate("specversion"))]
    rules = version.rules
    found: list[Fault] = []
    for name, rule in rules.items():
        text = attributes.get(name)
        if text is None:
            if rule.required:
                found.append(_missing(name, locate(name)))
        elif not text or not rule.accepts(text):
            found.append(_refused(name, text, rule, locate(name)))
    found += _names_and_characters(attributes, rules, locate)
    return found


def _names_and_characters(
    attributes: Mapping[str, str], rules: Mapping[str, Rule], locate: Locate
) -> list[Fault]:
    found = [
        _bad_name(name, locate(name))
        for name in attributes
        if name not in rules and not is_name(name)
    ]
    for name, value in attributes.items():
        index = forbidden_character(value)
        if index is not None:
            found.append(_forbidden(name, value, index, locate(name)))
    return found


def merge(found: list[Fault], more: list[Fault]) -> list[Fault]:
    """Faults of reading and of validation: what could not be read is not called missing as well."""
    places = {fault.at for fault in found}
    return found + [fault for fault in more if fault.at not in places]


def clip(text: str) -> str:
    """An offending value as a fault shows it: quoted, escaped, short."""
    return ascii(shorten(text))


def shorten(text: str) -> str:
    """At most so much of a name or value that an answer does not grow with what was sent."""
    return text if len(text) <= CLIPPED else text[:CLIPPED] + "..."


def _missing(name: str, at: str) -> Fault:
    return Fault("missing-attribute", f"The required attribute {name} is missing.", at, "core 1.1")


def _refused(name: str, text: str, rule: Rule, at: str) -> Fault:
    if not text:
        detail = f"{name} is empty: leave it out, or give it a value."
        return Fault("empty-attribute", detail, at, rule.clause)
    return Fault(rule.code, f"{name}: {clip(text)} is no {rule.expected}.", at, rule.clause)


def _unsupported(specversion: str, at: str) -> Fault:
    supported = ", ".join(VERSIONS)
    detail = f"specversion {clip(specversion)} is not supported; supported: {supported}."
    return Fault("unsupported-specversion", detail, at, "core 1.1")


def _bad_name(name: str, at: str) -> Fault:
    detail = (
        f"{clip(name)} is no attribute name: lower-case letters a-z and digits only, and not data."
    )
    return Fault("bad-attribute-name", detail, at, "core 1.2")


def _forbidden(name: str, text: str, index: int, at: str) -> Fault:
    detail = (
        f"{shorten(name)} holds U+{ord(text[index]):04X} at character {index}, which no string may."
    )
    return Fault("forbidden-character", detail, at, "core 1.3")
