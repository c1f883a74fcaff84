"""The events listener in the words of OpenAPI. It has no FastAPI (ADR 0002), so it is told here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PROBLEM = "#/components/schemas/EventsProblem"
_ENTRY = "#/components/schemas/EventFate"

SERVER = {
    "url": "http://{host}:{port}",
    "description": "The events listener (server.events)",
    "variables": {"host": {"default": "127.0.0.1"}, "port": {"default": "8080"}},
}


def _header(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {name: {"description": description, "schema": schema or {"type": "string"}}}


_RETRY_AFTER = _header(
    "Retry-After", "Seconds to wait before the same request.", type="integer", minimum=1
)


def _refusal(description: str, **more: Any) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": _PROBLEM}}}
    return {"description": description, "content": content, **more}


ANSWERS: Mapping[str, Any] = {
    "200": {
        "description": ("All stored, with receipts (Prefer: return=representation)."),
        "content": {
            "application/json": {
                "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Receipt"}}
            }
        },
    },
    "202": {"description": "All stored durably. No body."},
    "400": _refusal("Not a valid CloudEvent: every fault is listed, and nothing was published."),
    "401": _refusal(
        "With `access: producers`: no producer is known by the key, token or certificate.",
        headers=_header("WWW-Authenticate", "`Bearer`, with the error of a token that was refused"),
    ),
    "403": _refusal("The producer may not send this source or type, or not to this route."),
    "404": _refusal("No route has this name."),
    "405": _refusal("Only POST, PUT and OPTIONS."),
    "408": _refusal("The request did not arrive in time."),
    "413": _refusal("The body, or the number of events in a batch, is too large."),
    "415": _refusal("The content type or content encoding is unknown."),
    "422": _refusal("No route matches this event."),
    "429": _refusal(
        "The quota of the producer, or of the client's address, is used up.",
        headers={
            **_RETRY_AFTER,
            **_header(
                "RateLimit-Policy",
                "events at once (`q`), and seconds until all are there again (`w`)",
                type="string",
                examples=['"events";q=2000;w=4'],
            ),
            **_header(
                "RateLimit",
                "events that are left (`r`), and seconds until all are (`t`)",
                type="string",
                examples=['"events";r=0;t=4'],
            ),
        },
    ),
    "431": _refusal("The header block is too large."),
    "500": _refusal("The broker refuses this event until an operator changes its configuration."),
    "503": _refusal(
        "Not all events were stored. `events` has the result of each: repeat only "
        "the failed ones. Without `events` nothing of the request was published.",
        headers=_RETRY_AFTER,
    ),
}

INTAKE_ANSWERS: Mapping[str, Any] = {
    **ANSWERS,
    "200": {
        **ANSWERS["200"],
        "description": "Stored, with its receipts (Prefer: return=representation); or, as plain text, the answer "
        "to a publisher's challenge.",
        "content": {
            **ANSWERS["200"]["content"],
            "text/plain": {"schema": {"type": "string"}},
        },
    },
    "202": {
        "description": "Stored durably. No body.",
        "headers": _header(
            "Skybridge-Duplicate",
            "true: it was stored before, and is not published again.",
            type="string",
            enum=["true"],
        ),
    },
    "400": _refusal("Not HTTP, or the route refuses the event, for example without a key."),
    "401": _refusal(
        "Not verified: the signature or the key is missing or wrong, or the signed time is too old.",
        headers=_header("WWW-Authenticate", "How the intake verifies."),
    ),
    "404": _refusal("No intake has this name."),
    "405": _refusal("Only POST."),
    "422": _refusal(
        "No event can be made of the request: every fault is listed. Or no route matches."
    ),
    "429": _refusal("Beyond the quota of the intake.", headers=_RETRY_AFTER),
}


def _parameter(name: str, place: str, description: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        **more,
        "description": description,
        "schema": {"type": "string"},
    }


_KEY = [
    _parameter("Skybridge-Key", "header", "The record key; for a batch, of each event."),
    _parameter("key", "query", "The same, percent-encoded."),
    _parameter("Prefer", "header", "`return=representation` requests receipts."),
]
_ROUTE = _parameter("route", "path", "Name of the route; its filters do not apply.", required=True)
_INTAKE = _parameter("intake", "path", "Name of the intake.", required=True)
_RECEIVE = (
    "A request as its publisher sends it. It is verified over the exact bytes of its body, and becomes one "
    "event whose data is the body."
)
_WEBHOOK_BODY = {
    "description": "JSON, a form, or any other body that the publisher signs.",
    "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
}

_PUBLISH = (
    "One event or a batch. All are stored durably before 202. If one is invalid, "
    "none is published and every fault is named."
)

_BODY = {
    "description": (
        "Only the content type decides the mode. Binary: attributes are `ce-` headers "
        "and the body is the data. Structured: one JSON event. Batch: a JSON array of "
        "events."
    ),
    "content": {
        "application/cloudevents+json": {"schema": {"$ref": "#/components/schemas/CloudEvent"}},
        "application/cloudevents-batch+json": {
            "schema": {"type": "array", "items": {"$ref": "#/components/schemas/CloudEvent"}}
        },
        "*/*": {"schema": {"type": "string", "format": "binary"}},
    },
}

_INDEX = {"type": "integer", "description": "the event's index in its batch, from 0"}
_PLACE = {
    "route": {"type": "string"},
    "broker": {"type": "string"},
    "topic": {"type": "string"},
    "partition": {"type": "integer"},
    "position": {"type": "string", "description": "opaque, ordered in its partition"},
}

SCHEMAS: Mapping[str, Any] = {
    "CloudEvent": {
        "type": "object",
        "description": "A CloudEvent in the JSON event format.",
        "required": ["specversion", "id", "source", "type"],
        "properties": {
            "specversion": {"type": "string", "examples": ["1.0"]},
            "id": {"type": "string", "minLength": 1},
            "source": {"type": "string", "format": "uri-reference", "minLength": 1},
            "type": {"type": "string", "minLength": 1},
            "subject": {"type": "string", "minLength": 1},
            "time": {"type": "string", "format": "date-time"},
            "datacontenttype": {"type": "string"},
            "dataschema": {"type": "string", "format": "uri"},
            "data": {},
            "data_base64": {"type": "string", "contentEncoding": "base64"},
        },
        "additionalProperties": {"type": ["string", "boolean", "integer"]},
    },
    "Receipt": {
        "type": "object",
        "description": (
            "Position of one event. An event with several targets has several entries."
        ),
        "required": ["index", "route", "broker", "topic", "partition", "position"],
        "properties": {"index": _INDEX, **_PLACE},
    },
    "EventFate": {
        "type": "object",
        "description": (
            "Result of one event at one target. The event is stored when all its entries say 202."
        ),
        "required": ["index", "status"],
        "properties": {
            "index": _INDEX,
            "status": {"type": "integer", "enum": [202, 413, 503]},
            "receipt": {"type": "object", "properties": _PLACE},
            "cause": {
                "type": "object",
                "properties": {
                    "code": {"type": "string"},
                    "detail": {"type": "string"},
                    "retryable": {"type": "boolean", "description": "may succeed later"},
                    "route": {"type": "string"},
                    "broker": {"type": "string"},
                    "topic": {"type": "string"},
                },
            },
        },
    },
    "EventsProblem": {
        "allOf": [{"$ref": "#/components/schemas/Problem"}],
        "properties": {"events": {"type": "array", "items": {"$ref": _ENTRY}}},
    },
}


def with_events(document: Mapping[str, Any]) -> dict[str, Any]:
    """The admin listener's document with the events listener's paths before its own."""
    components = document.get("components", {})
    return {
        **document,
        "paths": {
            "/events": _path("publish", "Publish events; the rules choose the route.", _KEY),
            "/events/{route}": _path(
                "publish_to_route", "Publish events to a route by name.", [_ROUTE, *_KEY]
            ),
            "/in/{intake}": _intake(),
            **document["paths"],
        },
        "components": {
            **components,
            "schemas": {**components.get("schemas", {}), **SCHEMAS},
        },
    }


def _intake() -> dict[str, Any]:
    return {
        "servers": [SERVER],
        "post": {
            "tags": ["events"],
            "operationId": "receive_webhook",
            "summary": "Receive a webhook of another publisher as an event.",
            "description": _RECEIVE,
            "parameters": [_INTAKE, *_KEY],
            "requestBody": _WEBHOOK_BODY,
            "responses": INTAKE_ANSWERS,
        },
    }


def _path(operation: str, summary: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    def publish(operation_id: str) -> dict[str, Any]:
        return {
            "tags": ["events"],
            "operationId": operation_id,
            "summary": summary,
            "description": _PUBLISH,
            "parameters": parameters,
            "requestBody": _BODY,
            "responses": ANSWERS,
        }

    handshake = {
        "tags": ["events"],
        "operationId": f"{operation}_handshake",
        "summary": ("The webhook handshake, as a target: consent to the requesting origin."),
        "description": ("CloudEvents HTTP Webhook 4: nothing is published or stored."),
        "parameters": [each for each in parameters if each["in"] == "path"],
        "responses": {"200": {"description": "WebHook-Allowed-Origin and WebHook-Allowed-Rate."}},
    }
    return {
        "servers": [SERVER],
        "post": publish(operation),
        "put": publish(f"{operation}_put"),
        "options": handshake,
    }
