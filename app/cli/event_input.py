"""Make events to send: from command-line options, or from a file in one of three forms."""

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


class UnreadableEvents(SkybridgeError):
    """A file of events has invalid content. The message has a line number and the fault; the caller
    writes the name of the file before the message.
    """


class Recipe(NamedTuple):
    """The attributes and data that all events of one ``send`` share. An attribute with empty text
    is left out.
    """

    type: str
    source: str
    id: str = ""
    subject: str = ""
    time: str = ""
    content_type: str = ""
    extensions: Mapping[str, str] = {}
    data: bytes | None = None


def make(recipe: Recipe, count: int) -> list[Decoded]:
    """Return ``count`` events. If an id is given and ``count`` is above 1, the ids are numbered."""
    return [
        Decoded(_event(recipe, _identity(recipe.id, number, count)), ContentMode.BINARY)
        for number in range(count)
    ]


def request(recipe: Recipe) -> HttpMessage:
    """Return the HTTP request that posts one event of the recipe in binary mode."""
    return http.encode(make(recipe, 1)[0], PLAIN)


def read(content: bytes) -> list[Decoded]:
    """Return the events of a file: one JSON event, a JSON batch, or JSON lines with one event per
    line.

    Raises:
        UnreadableEvents: If the content is not one of the three forms, or an event is invalid.
    """
    try:
        if content.lstrip().startswith(b"["):
            found = json.read_batch(content)
        elif _one_value(content):
            found = [(json.read_event(content), content)]
        else:
            found = list(_lines(content))
    except InvalidEvent as error:
        raise UnreadableEvents(f": {error}") from error
    return [
        Decoded(event, ContentMode.STRUCTURED, document, JSON_DOCUMENT) for event, document in found
    ]


def _lines(content: bytes) -> Iterator[tuple[CloudEvent, bytes]]:
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            try:
                yield json.read_event(line), line
            except InvalidEvent as error:
                raise UnreadableEvents(f" line {number}: {error}") from error


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
        json_text.single_value(content)
    except json_text.NOT_JSON:
        return False
    return True
