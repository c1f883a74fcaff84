"""Read the corpus of messages in ``tests/corpus``, and compare events with its expectations."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from app.errors import Fault
from app.event.value import AttributeType, CloudEvent

ROOT = Path(__file__).parent.parent / "corpus"


class Case(msgspec.Struct, frozen=True):
    """One message of the corpus with the expected result. The README of the folder has the fields."""

    folder: str
    file: str
    name: str
    rules: tuple[str, ...]
    shows: str
    message: dict[str, Any]
    expect: dict[str, Any]
    switches: dict[str, Any] = {}
    loses: dict[str, list[str]] = {}

    def __str__(self) -> str:
        return f"{self.folder}/{self.file}:{self.name}"


def cases(folder: str) -> list[Case]:
    """Return every case of one folder, in the order of its files."""
    return list(_read(folder))


def _read(folder: str) -> Iterator[Case]:
    for path in sorted((ROOT / folder).glob("*.json")):
        for case in json.loads(path.read_text()):
            yield msgspec.convert({**case, "folder": folder, "file": path.stem}, Case)


def octets(value: str | dict[str, str] | None) -> bytes | None:
    """Return the bytes of a member that is text or ``{"base64": ...}``, or None for None."""
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return b64decode(value["base64"], validate=True)


def data_of(expected: dict[str, Any]) -> bytes | None:
    """Return the data bytes of an expected event, or None if it has no data."""
    data = expected.get("data")
    if data is None:
        return None
    return b64decode(data["base64"]) if "base64" in data else next(iter(data.values())).encode()


def assert_is(event: CloudEvent, expected: dict[str, Any]) -> None:
    """Assert that attributes, types, version and data of the event are the expected ones."""
    assert dict(event.attributes) == expected["attributes"]
    assert event.version == expected.get("version", "1.0")
    types = {name: kind.value for name, kind in event.types.items()}
    kinds = {name: AttributeType(kind).value for name, kind in expected.get("types", {}).items()}
    assert types == kinds
    assert event.data == data_of(expected)


FORMS = {"json": "json", "text": "text", "base64": "opaque"}


def assert_same(event: CloudEvent, other: CloudEvent) -> None:
    """Assert that two readings of one event are equal. The form of the data may differ, because another mode may
    change it."""
    assert replace(event, data_form=other.data_form) == other


def assert_form(event: CloudEvent, expected: dict[str, Any]) -> None:
    """Assert that the event has the expected form of data: JSON value, text or bytes."""
    data = expected.get("data")
    if data is not None:
        assert event.data_form.value == data.get("form", FORMS[next(iter(data))])


def assert_faults(found: Iterable[Fault], expected: list[dict[str, Any]]) -> None:
    """Assert that exactly these faults were found, in any order. Only the fields that the case
    names are compared.
    """
    left = list(found)
    summary = f"found {[(fault.code, fault.at, fault.rule, fault.index) for fault in left]}"
    for one in expected:
        match = next((f for f in left if all(getattr(f, key) == one[key] for key in one)), None)
        assert match is not None, f"no {one}; {summary}"
        left.remove(match)
    assert left == [], summary
