"""Refusals of the admin listener as RFC 9457 problems, and what a broker's refusal is over HTTP.

=====================================  ======  ======================================================
unknown topic, nothing behind it       404     make it, or name another
not authorised                         403     with the broker's own words
scope missing (not a broker's)         403     ``missing-scope``, and the scope by name
too large for the log                  413     the same bytes will never pass
the log cannot do this at all          501     with what can be done instead
away, no leader, no answer in time     503     with Retry-After; a bound of ours that is full, too
any other refusal                      500     a person must act
=====================================  ======  ======================================================
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from app.api import answers
from app.errors import (
    BrokerError,
    BrokerRefused,
    Fault,
    PositionOutOfRange,
    SenderError,
    StoreUnavailable,
    VersionConflict,
)
from app.model.scopes import Scope

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = 1.0  # seconds, where the broker gives no other

_STATUS_OF_KIND = {
    "unknown-topic": 404,
    "unroutable": 404,
    "not-authorised": 403,
    "record-too-large": 413,
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
                "model": answers.Problem,
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


def install(app: FastAPI) -> None:
    """Every error that a route raises on purpose, and FastAPI's own, as a problem."""

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> JSONResponse:
        return _problem(document(error.status, error.code, str(error)))

    @app.exception_handler(MissingScope)
    async def missing_scope(_: Request, error: MissingScope) -> JSONResponse:
        content = document(error.status, error.code, str(error))
        return _problem(content | {"scope": error.scope})

    @app.exception_handler(BrokerError)
    async def broker(_: Request, error: BrokerError) -> JSONResponse:
        return _problem(of_broker(error), _retry_after(error))

    @app.exception_handler(SenderError)
    async def sender(_: Request, error: SenderError) -> JSONResponse:
        return _problem(document(error.status, error.code, str(error), error.faults))

    @app.exception_handler(PositionOutOfRange)
    async def position(_: Request, error: PositionOutOfRange) -> JSONResponse:
        return _problem(document(416, "position-out-of-range", str(error)))

    @app.exception_handler(StoreUnavailable)
    async def store(_: Request, error: StoreUnavailable) -> JSONResponse:
        return _problem(document(503, "store-unavailable", str(error)))

    @app.exception_handler(VersionConflict)
    async def conflict(_: Request, error: VersionConflict) -> JSONResponse:
        return _problem(document(412, "precondition-failed", f"{error}: read it again"))

    _install_own(app)


def _install_own(app: FastAPI) -> None:
    """What FastAPI refuses by itself."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        faults = [_fault(each) for each in error.errors()]
        detail = "; ".join(f"{fault.at}: {fault.detail}" for fault in faults)
        return _problem(document(422, "bad-request", detail, faults))

    @app.exception_handler(400)
    async def unreadable(_: Request, error: HTTPException) -> JSONResponse:
        """A body that is no UTF-8: to whoever sent it no other fault than JSON that is none."""
        fault = Fault("json-invalid", f"{error.detail}: is it JSON in UTF-8?", "body")
        return _problem(document(422, "bad-request", f"{fault.at}: {fault.detail}", [fault]))

    @app.exception_handler(404)
    async def nothing(_: Request, error: Exception) -> JSONResponse:
        return _problem(document(404, "not-found", f"{error}; /docs lists the paths"))

    @app.exception_handler(405)
    async def other_method(request: Request, error: HTTPException) -> JSONResponse:
        detail = f"{request.method} is not allowed at {request.url.path}; /docs lists the methods"
        return _problem(document(405, "method-not-allowed", detail), error.headers or {})


def _fault(each: Mapping[str, Any]) -> Fault:
    """Of FastAPI's own list."""
    return Fault(each["type"].replace("_", "-"), each["msg"], ".".join(map(str, each["loc"])))


def _retry_after(error: BrokerError) -> Mapping[str, str]:
    """In whole seconds, at least one; only where the same request may succeed later."""
    if status_of(error) != HTTPStatus.SERVICE_UNAVAILABLE:
        return {}
    seconds = RETRY_AFTER if error.retry_after is None else error.retry_after
    return {"retry-after": str(max(1, math.ceil(seconds)))}


class _ProblemResponse(JSONResponse):
    """In ASCII: a name that somebody sent may have halves of characters, which UTF-8 has not."""

    media_type = MEDIA_TYPE

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode("ascii")


def _problem(content: dict[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    return _ProblemResponse(content, content["status"], headers=headers)
