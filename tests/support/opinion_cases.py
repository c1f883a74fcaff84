"""The questions for the SDKs: the corpus, and unusual events that one side writes and the other
reads."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from app.event.convert import as_version
from app.event.media_types import declares_json
from corpus import Case, cases, data_of, octets
from opinion_compare import Expected
from opinion_skybridge import event_of, is_json

FOLDERS = ("http", "kafka", "json")
VERSIONS = ("1.0", "0.3")  # the versions that every SDK supports
WAYS = {"http": ("binary", "structured", "batch"), "kafka": ("binary", "structured")}
EVENTS = Path(__file__).parent.parent / "opinions" / "events.json"
_FORMAT = re.compile(rb"application/cloudevents(-batch)?\+(protobuf|avro|xml|cbor)")


class CorpusQuestion(msgspec.Struct, frozen=True):
    """A case of the corpus as a question to an SDK. ``expected`` is None if an SDK must reject the
    message."""

    id: str
    rules: tuple[str, ...]
    question: dict[str, Any]
    expected: list[Expected] | None


def corpus_questions() -> list[CorpusQuestion]:
    """Return the cases that every SDK claims to support: versions 1.0 and 0.3, JSON, default
    settings."""
    return [asked for folder in FOLDERS for case in cases(folder) if (asked := _asked(case))]


def _asked(case: Case) -> CorpusQuestion | None:
    binding, message = _message(case)
    if case.switches or "opaque" in case.expect or _other_format(message):
        return None
    expected = None
    if "events" in case.expect:
        expected = [_expected(event) for event in case.expect["events"]]
        if any(event.attributes["specversion"] not in VERSIONS for event in expected):
            return None
    question = {"do": "read", "binding": binding, "message": message}
    return CorpusQuestion(f"{case.folder}/{case.file}:{case.name}", case.rules, question, expected)


def _message(case: Case) -> tuple[str, dict[str, Any]]:
    given = case.message
    if case.folder == "json":
        headers = [["content-type", _base64(given["media_type"].encode())]]
        return "http", {"headers": headers, "body": _base64(octets(given["document"]))}
    headers = [[name, _base64(octets(value))] for name, value in given["headers"]]
    if case.folder == "http":
        return "http", {"headers": headers, "body": _base64(octets(given["body"]))}
    key, value = octets(given["key"]), octets(given["value"])
    return "kafka", {"key": _base64(key), "headers": headers, "value": _base64(value)}


def _other_format(message: Mapping[str, Any]) -> bool:
    """Return True if the message has an event format other than JSON, which not every SDK supports."""
    for name, value in message["headers"]:
        if name.lower() == "content-type" and value is not None:
            said = b64decode(value).strip().lower()
            return _FORMAT.match(said) is not None
    return False


def _expected(event: Mapping[str, Any]) -> Expected:
    version = event.get("version", "1.0")
    data = event.get("data")
    said = event["attributes"].get("datacontenttype")
    plain = (
        data is not None and "base64" in data and said is None
    )  # base64 data without a content type is not JSON (JSON format 3.1)
    is_value = data is not None and ("json" in data or (not plain and declares_json(said)))
    attributes = {**event["attributes"], "specversion": version}
    return Expected(attributes, data_of(dict(event)), is_value)


class Exchange(msgspec.Struct, frozen=True):
    """An unusual event that one side writes and another reads, over one binding, mode and version."""

    id: str
    binding: str
    mode: str
    version: str
    event: dict[str, Any]

    @property
    def writing(self) -> dict[str, Any]:
        asked = {"binding": self.binding, "mode": self.mode, "version": self.version}
        return {"do": "write", **asked, "events": [self.event]}

    def reading(self, message: Mapping[str, Any]) -> dict[str, Any]:
        return {"do": "read", "binding": self.binding, "message": message}

    @property
    def expected(self) -> Expected:
        event = event_of(self.event)
        seen = as_version(event, self.version)
        attributes = {**seen.attributes, "specversion": self.version}
        return Expected(attributes, event.data, event.data is not None and is_json(event))


def exchanges() -> Iterator[Exchange]:
    """Yield every unusual event over each binding and mode, in each version."""
    given = json.loads(EVENTS.read_text())
    for binding, modes in WAYS.items():
        for mode in modes:
            for version in VERSIONS:
                for event in given:
                    name = f"{binding}-{mode}-{version}:{event['name']}"
                    yield Exchange(name, binding, mode, version, _in_version(event, version))


def _in_version(event: Mapping[str, Any], version: str) -> dict[str, Any]:
    attributes = {"specversion": version, **event["attributes"]}
    if version == "0.3":  # version 0.3 calls it schemaurl and has no Boolean
        attributes = {
            {"dataschema": "schemaurl"}.get(name, name): "true" if value is True else value
            for name, value in attributes.items()
        }
    return {"attributes": attributes, "data": event.get("data")}


def _base64(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()
