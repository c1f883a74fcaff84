"""Complete the OpenAPI document: add what all operations of the admin listener share, and the events
listener.

The events listener does not use FastAPI (ADR 0002). Its description is in ``events_openapi.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from app.api.access.guard import LIVENESS, READINESS, SESSION
from app.api.access.operations import RULES, OperationRule
from app.api.subscriptions.schemas import schemas as subscription_schemas
from app.model.scopes import MEANINGS, Scope

_EVENTS = Path(__file__).with_name("events_openapi.yaml")
_METHODS = ("get", "post", "put", "delete", "patch", "options")
_FROM_FRAMEWORK = ("HTTPValidationError", "ValidationError")


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {"application/problem+json": {"schema": schema}}}


_INVALID = _problem("A parameter or the body is invalid.")
_GUARD: Mapping[str, Any] = {
    "401": _problem("The listener has tokens, and the request has none of them."),
    "429": _problem("This address sent too many wrong tokens. Wait as long as Retry-After asks."),
    "421": _problem("The listener has no token and accepts only loopback names in Host."),
}
_NO_SCOPE = _problem(
    "The token lacks the scope of the operation, or its binding does not include the object, or a page of another "
    "origin sent the request."
)
_AUDITED = {
    "503": _problem("The store is unavailable, so the audit cannot be written. Nothing was done.")
}
_SCHEMES = {
    name: {
        "type": "http",
        "scheme": "bearer",
        "description": f"A token with the scope {name}: {text}.",
    }
    for name, text in MEANINGS.items()
}
"""A security scheme for each scope. Most linters and generators know scopes of OAuth schemes only."""


_TAGS: Mapping[str, str] = {
    "events": "The events listener accepts CloudEvents and answers the webhook handshake.",
    "operators": "The state of the service: probes, status, metrics and history.",
    "session": "Sessions of browsers, so that a person enters a token once.",
    "audit": "The list of changes to the service and of looks at event data.",
    "configuration": "The current configuration: show, check and reload it.",
    "topics": "Inspect the records and positions of topics, and publish events by hand.",
    "subscriptions": "Create, change and control subscriptions.",
    "subscriptions (CloudEvents draft)": (
        "Subscriptions in the form of the draft CloudEvents Subscriptions API."
    ),
    "pull": "Pull delivery: consumers fetch and acknowledge events over HTTP.",
    "dead letters": "Events that Skybridge gave up, with their causes.",
    "parked": "Events that wait in the store, because an event of their key cannot be delivered yet.",
    "attempts": "Requests to sinks, with their answers.",
    "explain": "Show what would happen to an event, without sending it.",
    "find": "Show what happened to an event.",
}


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Add to FastAPI's document what all operations share: tags, security, refusals, and the models of bodies
    that handlers parse themselves."""
    document["tags"] = [{"name": name, "description": text} for name, text in _TAGS.items()]
    schemas = document["components"]["schemas"]
    for name in _FROM_FRAMEWORK:
        schemas.pop(name, None)
    schemas |= subscription_schemas()
    document["components"]["securitySchemes"] = _SCHEMES
    for path, _, operation in operations(document["paths"]):
        rule = RULES[operation["operationId"]]
        operation["security"] = _security(path, rule.scope)
        answers = operation["responses"]
        if "HTTPValidationError" in str(answers.get("422")):
            answers["422"] = _INVALID
        refusals = _refusals(path, rule)
        answers |= {status: each for status, each in refusals.items() if status not in answers}
        operation["responses"] = dict(sorted(answers.items()))
    _close_tuples(schemas)
    return document


def with_events(document: dict[str, Any]) -> dict[str, Any]:
    """Add the paths and schemas of the events listener before those of the admin listener."""
    events = yaml.load(_EVENTS.read_bytes(), yaml.CSafeLoader)
    document["paths"] = events["paths"] | document["paths"]
    document["components"]["schemas"] |= events["schemas"]
    return document


def _security(path: str, scope: Scope | None) -> list[dict[str, list[str]]]:
    if scope is not None:
        return [{scope: []}]
    return [{}, {"read": []}] if path == READINESS else []


def _refusals(path: str, rule: OperationRule) -> Mapping[str, Any]:
    return (
        _guard(path)
        | ({"403": _NO_SCOPE} if rule.scope else {})
        | (_AUDITED if rule.audited else {})
    )


def _guard(path: str) -> dict[str, Any]:
    """Return the statuses with which the access guard may refuse a request to this path. Liveness refuses
    none. Readiness and the session answer callers without a token, and refuse only wrong tokens."""
    if path == LIVENESS:
        return {}
    if path in {READINESS, SESSION}:
        return {"401": _GUARD["401"], "429": _GUARD["429"]}
    return dict(_GUARD)


def _close_tuples(part: object) -> None:
    """Add an empty ``items`` to the schema of each tuple. The bounds of the tuple already forbid further
    items, but some readers require the member."""
    if isinstance(part, dict):
        if "prefixItems" in part:
            part.setdefault("items", {})
        for each in part.values():
            _close_tuples(each)
    elif isinstance(part, list):
        for each in part:
            _close_tuples(each)


def operations(paths: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield path, method and description of each operation."""
    for path, item in paths.items():
        for method in _METHODS:
            if method in item:
                yield path, method, item[method]
