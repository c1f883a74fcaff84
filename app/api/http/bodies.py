"""JSON bodies of the admin listener: requests of limited size, and answers that may contain raw JSON
(``msgspec.Raw``)."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Request, Response

from app.api.http.problems import RequestRefused
from app.event import json_text

IDENTITY = "identity"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


def json_answer(content: object) -> Response:
    """Return an answer with this content as JSON."""
    return Response(msgspec.json.encode(content), media_type=JSON)


async def read_body(request: Request, most: int, refusal: Exception | None = None) -> bytes:
    """Read the body of a request. Raise ``refusal``, or Refused with 413, as soon as more than ``most`` bytes
    have arrived."""
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > most:
            raise refusal or RequestRefused(
                413, "too-large", f"the document is larger than {most} bytes"
            )
    return bytes(found)


async def with_read_body(request: Request, most: int) -> Request:
    """Read the body of a request within a limit, and return a request whose body can be read again.

    Raises:
        Refused: 413, as soon as more than ``most`` bytes have arrived.
    """
    read = [{"type": "http.request", "body": await read_body(request, most), "more_body": False}]

    async def receive() -> Any:
        return read.pop() if read else await request.receive()

    return Request(request.scope, receive)


async def read_object(request: Request, most: int, media_type: str = JSON) -> dict[str, Any]:
    """Return the JSON object in the body of a request. Raise Refused unless the request has this media type,
    because a merge patch and a whole document look alike."""
    demand_type(request, media_type)
    return json_object(await read_body(request, most))


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in ``body``. Raise Refused with 400 if it is not one."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestRefused(400, "bad-request", _why_not(body, error)) from None
    except RecursionError:
        raise RequestRefused(400, "bad-request", "the document is nested too deeply") from None
    if not isinstance(found, dict):
        raise RequestRefused(400, "bad-request", "the body is not a JSON object")
    return found


def _why_not(body: bytes, error: Exception) -> str:
    """Return the reason why a body cannot be read. The parser also refuses some valid JSON, such as a text or
    number that has no value in Python."""
    try:
        json_text.single_value(body)
    except json_text.NOT_JSON as fault:
        return f"the body is not JSON: {json_text.reason(body, fault)}"
    if json_text.is_unpaired(body):
        return "the body has a text with an unpaired surrogate"
    return f"the body has a value that cannot be read: {error}"


def demand_type(request: Request, *media_types: str) -> None:
    """Raise Refused with 415 unless the request has one of these media types."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in media_types:
        wanted = " or ".join(media_types)
        raise RequestRefused(
            415,
            "unsupported-media-type",
            f"the content type is {given or 'missing'}. Send the body as {wanted}",
        )


def event_body(description: str) -> dict[str, Any]:
    """Return the OpenAPI description of a request body that is an event in a form that ``/events`` accepts."""
    example = {
        "specversion": "1.0",
        "id": "1",
        "source": "/try",
        "type": "com.example.hello",
        "data": {"hello": "world"},
    }
    return {
        "requestBody": {
            "required": True,
            "description": description,
            "content": {
                "application/cloudevents+json": {"schema": {"type": "object"}, "example": example},
                "*/*": {"schema": {"type": "string", "format": "binary"}},
            },
        }
    }


def demand_identity(request: Request) -> None:
    """Raise Refused with 415 for a compressed body, because this operation does not decompress."""
    if request.headers.get("content-encoding", IDENTITY).lower() != IDENTITY:
        raise RequestRefused(
            415,
            "unsupported-content-encoding",
            "the body is compressed. Send it without Content-Encoding",
        )


def merge_patch(document: Any, patch: Any) -> Any:
    """Apply a JSON Merge Patch (RFC 7396) and return a new document; the arguments are not changed. None in
    the patch removes a member, and a list replaces a whole list."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result
