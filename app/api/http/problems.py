"""Refusals of the admin listener as RFC 9457 problems, and the HTTP status of each error of a broker.

======================================== ====== =====================================================
unknown topic, exchange without a queue  404    create it, or name another
not authorised                           403    with the message of the broker
scope missing (not a broker's error)     403    ``missing-scope``, with the name of the scope
too large for the log                    413    the same bytes will never be accepted
the record itself is refused             422    its topic rejects it, or its broker cannot store it
the log cannot do this at all            501    with an alternative
unavailable, no leader, timeout          503    with Retry-After; also for a full queue of Skybridge
any other refusal                        500    an operator must act
======================================== ====== =====================================================
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from app.api.http.views import Problem
from app.errors import BrokerError, BrokerRefused, Fault
from app.model.scopes import Scope
from app.problems import ProblemCode, problem_type

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


class RequestRefused(Exception):
    """A request that is answered with a problem. ``code`` is the code of the problem."""

    def __init__(self, status: int, code: ProblemCode, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code

    @staticmethod
    def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
        """Return the OpenAPI descriptions of these statuses as problems."""
        return {
            status: {
                "model": Problem,
                "description": HTTPStatus(status).phrase,
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            }
            for status in statuses
        }


class MissingScope(RequestRefused):
    """A refusal with 403: the token is valid but lacks the scope of the operation."""

    def __init__(self, operation: str, scope: Scope, token: str, scopes: Collection[Scope]) -> None:
        detail = f"{operation} needs the scope {scope}. The token {token} has {', '.join(sorted(scopes))}"
        super().__init__(403, "missing-scope", detail)
        self.scope = scope


def status_of(error: BrokerError) -> int:
    """Return the HTTP status of a broker's error, as the table of this module lists it."""
    if isinstance(error, BrokerRefused):
        return _STATUS_OF_KIND.get(error.kind, error.status)
    return error.status


def of_broker(error: BrokerError) -> dict[str, Any]:
    """Return the problem document of a broker's error."""
    return document(status_of(error), error.problem, str(error))


def document(
    status: int, code: ProblemCode, detail: str, faults: Sequence[Fault] = ()
) -> dict[str, Any]:
    """Return a problem document (RFC 9457)."""
    content = {
        "type": problem_type(code),
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    return content | {"faults": msgspec.to_builtins(faults)} if faults else content
