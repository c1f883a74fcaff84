"""Refusals of the admin listener as RFC 9457 problems, and what a broker's refusal is over HTTP.

=====================================  ======  ======================================================
unknown topic, nothing behind it       404     make it, or name another
not authorised                         403     with the broker's own words
scope missing (not a broker's)         403     ``missing-scope``, and the scope by name
too large for the log                  413     the same bytes will never pass
the record itself is refused           422     its topic rejects it, or its broker cannot hold it
the log cannot do this at all          501     with what can be done instead
away, no leader, no answer in time     503     with Retry-After; a bound of ours that is full, too
any other refusal                      500     a person must act
=====================================  ======  ======================================================
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from app.api.http.views import Problem
from app.errors import BrokerError, BrokerRefused, Fault
from app.model.scopes import Scope

MEDIA_TYPE = "application/problem+json"

_STATUS_OF_KIND = {
    "unknown-topic": 404,
    "unroutable": 404,
    "not-authorised": 403,
    "record-too-large": 413,
    "rejected": 422,
    "unwritable": 422,
    "not-capable": 501,
}


class Refused(Exception):
    """A request that is answered with a problem. ``code`` ends the problem's type."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code

    @staticmethod
    def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
        """For the description of an operation."""
        return {
            status: {
                "model": Problem,
                "description": HTTPStatus(status).phrase,
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            }
            for status in statuses
        }


class MissingScope(Refused):
    """The token is known, and may not do this."""

    def __init__(self, operation: str, scope: Scope, token: str, scopes: Collection[Scope]) -> None:
        detail = f"{operation} needs the scope {scope}; the token {token} has {', '.join(sorted(scopes))}"
        super().__init__(403, "missing-scope", detail)
        self.scope = scope


def status_of(error: BrokerError) -> int:
    """The table above (spec.md 9)."""
    if isinstance(error, BrokerRefused):
        return _STATUS_OF_KIND.get(error.kind, error.status)
    return error.status


def code_of(error: BrokerError) -> str:
    if isinstance(error, BrokerRefused) and error.kind != "other":
        return error.kind
    return error.code


def of_broker(error: BrokerError) -> dict[str, Any]:
    """The problem document."""
    return document(status_of(error), code_of(error), str(error))


def document(status: int, code: str, detail: str, faults: Sequence[Fault] = ()) -> dict[str, Any]:
    content = {
        "type": f"urn:skybridge:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    return content | {"faults": msgspec.to_builtins(faults)} if faults else content
