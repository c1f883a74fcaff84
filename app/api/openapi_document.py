"""What every operation of the admin listener has in common, put into its description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.api import openapi_subscriptions
from app.api.access import PROBES

_METHODS = ("get", "post", "put", "patch", "delete", "options")
_FROM_FRAMEWORK = ("HTTPValidationError", "ValidationError")


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {"application/problem+json": {"schema": schema}}}


_INVALID = _problem("A parameter or the body is not what it should be.")
_GUARD: Mapping[str, Any] = {
    "401": _problem("The listener has a token, and it was not shown."),
    "421": _problem("Without a token it answers to loopback names only."),
}


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Refusals as they are answered; the models of documents that are read by hand."""
    schemas = document["components"]["schemas"]
    for name in _FROM_FRAMEWORK:
        schemas.pop(name, None)
    schemas |= openapi_subscriptions.schemas()
    for path, operation in _operations(document["paths"]):
        answers = operation["responses"]
        if "HTTPValidationError" in str(answers.get("422")):
            answers["422"] = _INVALID
        if path not in PROBES:
            answers |= {status: each for status, each in _GUARD.items() if status not in answers}
        operation["responses"] = dict(sorted(answers.items()))
    return document


def _operations(paths: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in paths.items():
        for method in _METHODS:
            if method in item:
                yield path, item[method]
