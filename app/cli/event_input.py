"""Events to send: made from options, or read from a file in any of three forms."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from app.bindings import http
from app.bindings.http import HttpMessage
from app.bindings.modes import JSON_DOCUMENT
from app.bindings.record import ContentMode, Decoded
from app.bindings.transcode import PLAIN
from app.errors import InvalidEvent, SkybridgeError
from app.event import json_text
from app.event.value import CloudEvent, DataForm
from app.formats import json


class Unreadable(SkybridgeError):
    """What is wrong with a file of events, to be said right behind its name."""


class Recipe(NamedTuple):
    """What every event of one ``send`` has in common. Empty text: leave the attribute out."""

    type: str
    source: str
    id: str = ""
    subject: str = ""
    time: str = ""
    content_type: str = ""
    extensions: Mapping[str, str] = {}
    data: bytes | None = None


def make(recipe: Recipe, count: int) -> list[Decoded]:
    """``count`` events; an id that was given is numbered where it serves for several."""
    return [
        Decoded(_event(recipe, _identity(recipe.id, number, count)), ContentMode.BINARY)
        for number in range(count)
    ]


def request(recipe: Recipe) -> HttpMessage:
    """That posts one such event, in the binary mode."""
    return http.encode(make(recipe, 1)[0], PLAIN)


def read(content: bytes) -> list[Decoded]:
    """One JSON event, a JSON batch, or JSON lines (one event a line). Raises Unreadable."""
    try:
        if content.lstrip().startswith(b"["):
            found = json.read_batch(content)
        elif _one_value(content):
            found = [(json.read_event(content), content)]
        else:
            found = list(_lines(content))
    except InvalidEvent as error:
        raise Unreadable(f": {error}") from error
    return [
        Decoded(event, ContentMode.STRUCTURED, document, JSON_DOCUMENT) for event, document in found
    ]


def _lines(content: bytes) -> Iterator[tuple[CloudEvent, bytes]]:
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            try:
                yield json.read_event(line), line
            except InvalidEvent as error:
                raise Unreadable(f" line {number}: {error}") from error


def _event(recipe: Recipe, identity: str) -> CloudEvent:
    given = {
        "subject": recipe.subject,
        "time": recipe.time,
        "datacontenttype": recipe.content_type or _content_type(recipe.data),
    }
    attributes = {
        "specversion": "1.0",
        "id": identity,
        "source": recipe.source,
        "type": recipe.type,
        **{name: text for name, text in given.items() if text},
        **recipe.extensions,
    }
    is_json = recipe.data is not None and _one_value(recipe.data)
    return CloudEvent(attributes, recipe.data, DataForm.JSON if is_json else DataForm.OPAQUE)


def _identity(given: str, number: int, count: int) -> str:
    if not given:
        return str(uuid.uuid4())
    return f"{given}-{number + 1}" if count > 1 else given


def _content_type(data: bytes | None) -> str:
    if data is None:
        return ""
    return "application/json" if _one_value(data) else "text/plain; charset=utf-8"


def _one_value(content: bytes) -> bool:
    try:
        json_text.one(content)
    except json_text.FAULTS:
        return False
    return True
