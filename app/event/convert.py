"""Convert an event between versions. ``docs/versions.md`` lists what a conversion to an older version loses."""

from __future__ import annotations

from collections.abc import Mapping

from app.event.types import is_uri_reference
from app.event.upgrade import upgraded
from app.event.value import AttributeType, CloudEvent
from app.event.versions import EXTENSIONS, NEWEST, VERSIONS, Version


def as_newest(event: CloudEvent) -> CloudEvent:
    """Return the event as if it had arrived in version 1.0."""
    return CloudEvent(event.attributes, event.data, event.data_form, event.types)


def as_version(event: CloudEvent, name: str) -> CloudEvent:
    """Return the event as if it had arrived in the version ``name``. Its id and source stay unchanged."""
    if event.version == name:
        return event
    if name == NEWEST:
        return as_newest(event)
    version = VERSIONS[name]
    texts: dict[str, str] = {}
    kinds: dict[str, AttributeType] = {}
    for newest, text in event.attributes.items():
        own = _own_name(version, newest, event, texts)
        texts[own] = version.text if newest == "specversion" else text
        kind = event.types.get(newest)
        if kind is not None and (version.two_forms or kind is AttributeType.INTEGER):
            kinds[own] = kind  # before 1.0 a Boolean attribute is written as text
    attributes, types, arrived = upgraded(name, texts, kinds, {})
    return CloudEvent(attributes, event.data, event.data_form, types, name, arrived)


def _own_name(version: Version, newest: str, event: CloudEvent, taken: Mapping[str, str]) -> str:
    core = _core_name(version, newest, event)
    if core is not None:
        return core
    if version.nested:
        return EXTENSIONS + newest
    own = (
        newest if version.is_name(newest) else f"x{newest}"
    )  # before 1.0 a name begins with a letter
    while own in version.rules or own in taken or (own != newest and own in event.attributes):
        own += "x"
    return own


def _core_name(version: Version, newest: str, event: CloudEvent) -> str | None:
    """Return the name of an attribute of 1.0 in the older version, if it is a core attribute there. Return
    None if it becomes an extension."""
    own = version.own.get(newest)
    text = event.attributes[newest]
    if newest == "schemaurl" and "dataschema" not in event.attributes and is_uri_reference(text):
        own = (
            version.own["dataschema"] if version.newest else None
        )  # the conversion to 1.0 keeps it under this name
    if own is None or newest == "specversion":
        return own
    return own if version.rules[own].accepts(text) and newest not in event.types else None
