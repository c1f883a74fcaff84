"""The corpus of messages: read from ``tests/corpus``, with its bytes and expectations as values."""

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
    """One message with what must come of it; see the README beside the files."""

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
    """Every case of one folder, in the order of its files."""
    return list(_read(folder))


def _read(folder: str) -> Iterator[Case]:
    for path in sorted((ROOT / folder).glob("*.json")):
        for case in json.loads(path.read_text()):
            yield msgspec.convert({**case, "folder": folder, "file": path.stem}, Case)


def octets(value: str | dict[str, str] | None) -> bytes | None:
    """The bytes that a member stands for; None for none."""
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return b64decode(value["base64"], validate=True)


def data_of(expected: dict[str, Any]) -> bytes | None:
    """The data bytes of an expected event."""
    data = expected.get("data")
    if data is None:
        return None
    return b64decode(data["base64"]) if "base64" in data else next(iter(data.values())).encode()


def assert_is(event: CloudEvent, expected: dict[str, Any]) -> None:
    """The event is the expected one: attributes, types, version and data."""
    assert dict(event.attributes) == expected["attributes"]
    assert event.version == expected.get("version", "1.0")
    types = {name: kind.value for name, kind in event.types.items()}
    kinds = {name: AttributeType(kind).value for name, kind in expected.get("types", {}).items()}
    assert types == kinds
    assert event.data == data_of(expected)


FORMS = {"json": "json", "text": "text", "base64": "opaque"}


def assert_same(event: CloudEvent, other: CloudEvent) -> None:
    """Two readings of one event: all but what is known of its bytes, which a change of form may add."""
    assert replace(event, data_form=other.data_form) == other


def assert_form(event: CloudEvent, expected: dict[str, Any]) -> None:
    """What a document said about its data (JSON value, text, bytes) is known of the event."""
    data = expected.get("data")
    if data is not None:
        assert event.data_form.value == data.get("form", FORMS[next(iter(data))])


def assert_faults(found: Iterable[Fault], expected: list[dict[str, Any]]) -> None:
    """These faults and no others, in any order; each is compared by what the case says of it."""
    left = list(found)
    told = f"found {[(fault.code, fault.at, fault.rule, fault.index) for fault in left]}"
    for one in expected:
        match = next((f for f in left if all(getattr(f, key) == one[key] for key in one)), None)
        assert match is not None, f"no {one}; {told}"
        left.remove(match)
    assert left == [], told
