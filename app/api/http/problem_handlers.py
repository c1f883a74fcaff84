"""Handlers that answer each error of the admin application with a problem of ``problems``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from app.api.http.problems import (
    MEDIA_TYPE,
    MissingScope,
    RequestRefused,
    document,
    of_broker,
    status_of,
)
from app.errors import (
    BrokerError,
    Fault,
    PositionOutOfRange,
    SenderError,
    StoreUnavailable,
    VersionConflict,
)

MOST_FAULTS = 100  # faults that one answer lists; further ones are counted
RETRY_AFTER = 1.0  # seconds, unless the broker's error has its own


def install(app: FastAPI) -> None:
    """Install a handler for each error of Skybridge that routes raise, and for the errors of FastAPI."""

    @app.exception_handler(RequestRefused)
    async def refused(_: Request, error: RequestRefused) -> JSONResponse:
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
        return _problem(document(412, "precondition-failed", f"{error}. Read it again"))

    _install_own(app)


def _install_own(app: FastAPI) -> None:
    """Install handlers for the errors that FastAPI itself raises."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()
        faults = [_fault(each) for each in found[:MOST_FAULTS]]
        detail = "; ".join(f"{fault.at}: {fault.detail}" for fault in faults)
        if len(found) > MOST_FAULTS:
            detail += f"; and {len(found) - MOST_FAULTS} more"
        return _problem(document(422, "bad-request", detail, faults))

    @app.exception_handler(400)
    async def unreadable(_: Request, error: HTTPException) -> JSONResponse:
        """Answer a body that is not UTF-8 with the same problem as one that is not JSON."""
        fault = Fault("json-invalid", f"{error.detail}. Send JSON in UTF-8", "body")
        return _problem(document(422, "bad-request", f"{fault.at}: {fault.detail}", [fault]))

    @app.exception_handler(404)
    async def nothing(_: Request, error: Exception) -> JSONResponse:
        return _problem(document(404, "not-found", f"{error}. /docs lists the paths"))

    @app.exception_handler(405)
    async def other_method(request: Request, error: HTTPException) -> JSONResponse:
        detail = f"{request.method} is not allowed at {request.url.path}. /docs lists the methods"
        return _problem(document(405, "method-not-allowed", detail), error.headers or {})


def _fault(each: Mapping[str, Any]) -> Fault:
    """Return one entry of FastAPI's list of validation errors as a fault."""
    text = each["msg"].removeprefix("Value error, ")  # words of pydantic, not of a reader
    text = f"the value {text.removeprefix('Input ')}" if text.startswith("Input ") else text
    return Fault(each["type"].replace("_", "-"), text, ".".join(map(str, each["loc"])))


def _retry_after(error: BrokerError) -> Mapping[str, str]:
    """Return the header Retry-After in whole seconds, at least one. Return no header if the same request can
    never succeed."""
    if status_of(error) != HTTPStatus.SERVICE_UNAVAILABLE:
        return {}
    seconds = RETRY_AFTER if error.retry_after is None else error.retry_after
    return {"retry-after": str(max(1, math.ceil(seconds)))}


class _ProblemResponse(JSONResponse):
    """A problem as ASCII JSON. The name of an object in the request may contain lone surrogates, which UTF-8
    cannot encode."""

    media_type = MEDIA_TYPE

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode("ascii")


def _problem(content: dict[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    return _ProblemResponse(content, content["status"], headers=headers)
