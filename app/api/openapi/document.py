"""What every operation of the admin listener has in common, put into its description; and the events listener
beside it, which has no FastAPI (ADR 0002): ``events_openapi.yaml`` describes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from app.api.access.guard import LIVENESS, READINESS, SESSION
from app.api.access.operations import RULES, Rule
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
    "401": _problem("The listener has tokens, and the request did not send one of them."),
    "429": _problem("Too many wrong tokens came from this address: wait as Retry-After says."),
    "421": _problem("Without a token the listener answers only to loopback names."),
}
_NO_SCOPE = _problem(
    "The token lacks the scope of the operation, or is bound and does not reach what is named; or a page of another "
    "origin asks."
)
_AUDITED = {"503": _problem("The store is away, so the audit cannot be written: nothing was done.")}
_SCHEMES = {
    name: {
        "type": "http",
        "scheme": "bearer",
        "description": f"A token with the scope {name}: {text}.",
    }
    for name, text in MEANINGS.items()
}
"""One a scope: the linters and generators of the field know roles of OAuth schemes only."""


_TAGS: Mapping[str, str] = {
    "events": "The events listener: CloudEvents in, and the webhook handshake.",
    "operators": "State of the service.",
    "session": "Sessions of browsers: a token is shown once.",
    "audit": "Who operated the service, and who looked at event data.",
    "configuration": "The configuration in force, and its reload.",
    "topics": "Topics: inspect records and positions, publish by hand.",
    "subscriptions": "Subscriptions.",
    "subscriptions (CloudEvents draft)": (
        "Subscriptions in the terms of the CloudEvents Subscriptions API."
    ),
    "pull": "Pull delivery: consumers fetch events.",
    "dead letters": "Undelivered events with their causes.",
    "parked": "Parked events.",
    "attempts": "What was tried.",
    "explain": "Explanation of the route of an event.",
    "find": "The whole way of an event.",
}


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Refusals as they are answered; the models of documents that are read by hand."""
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
    """The paths of the events listener before those of the admin listener."""
    events = yaml.load(_EVENTS.read_bytes(), yaml.CSafeLoader)
    document["paths"] = events["paths"] | document["paths"]
    document["components"]["schemas"] |= events["schemas"]
    return document


def _security(path: str, scope: Scope | None) -> list[dict[str, list[str]]]:
    if scope is not None:
        return [{scope: []}]
    return [{}, {"read": []}] if path == READINESS else []


def _refusals(path: str, rule: Rule) -> Mapping[str, Any]:
    return (
        _guard(path)
        | ({"403": _NO_SCOPE} if rule.scope else {})
        | (_AUDITED if rule.audited else {})
    )


def _guard(path: str) -> dict[str, Any]:
    """Readiness tells everybody its status, and refuses wrong tokens alone; so does the session."""
    if path == LIVENESS:
        return {}
    if path in {READINESS, SESSION}:
        return {"401": _GUARD["401"], "429": _GUARD["429"]}
    return dict(_GUARD)


def _close_tuples(part: object) -> None:
    """A tuple has no more items than it names, as its bounds say; some readers want to be told of others."""
    if isinstance(part, dict):
        if "prefixItems" in part:
            part.setdefault("items", {})
        for each in part.values():
            _close_tuples(each)
    elif isinstance(part, list):
        for each in part:
            _close_tuples(each)


def operations(paths: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each with its path and its method."""
    for path, item in paths.items():
        for method in _METHODS:
            if method in item:
                yield path, method, item[method]
