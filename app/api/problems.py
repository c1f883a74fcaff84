"""Refusals of the admin listener as RFC 9457 problems."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from app.api import answers
from app.errors import BrokerError, StoreUnavailable

MEDIA_TYPE = "application/problem+json"


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


def install(app: FastAPI) -> None:
    """Every error that a route raises on purpose, and FastAPI's own, as a problem."""

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> JSONResponse:
        return _problem(error.status, error.code, str(error))

    @app.exception_handler(BrokerError)
    async def broker(_: Request, error: BrokerError) -> JSONResponse:
        return _problem(error.status, error.code, str(error))

    @app.exception_handler(StoreUnavailable)
    async def store(_: Request, error: StoreUnavailable) -> JSONResponse:
        return _problem(503, "store-unavailable", str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        faults = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        return _problem(422, "bad-request", "; ".join(faults))

    @app.exception_handler(404)
    async def nothing(_: Request, error: Exception) -> JSONResponse:
        return _problem(404, "not-found", f"{error}; /docs lists what is here")

    @app.exception_handler(405)
    async def other_method(request: Request, error: HTTPException) -> JSONResponse:
        detail = f"{request.method} is not for {request.url.path}; /docs lists what is"
        answer = _problem(405, "method-not-allowed", detail)
        answer.headers.update(error.headers or {})
        return answer


def _problem(status: int, code: str, detail: str) -> JSONResponse:
    content = {
        "type": f"urn:skybridge:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    return JSONResponse(content, status, media_type=MEDIA_TYPE)
