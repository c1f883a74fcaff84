"""Query parameters that no operation knows are refused: a filter that is not read would answer with everything."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel


async def known_only(request: Request) -> None:
    """Raises RequestValidationError, which names every unknown one."""
    given = request.query_params.keys()
    unknown = sorted(given - set(_known(request.scope["route"]))) if given else []
    if unknown:
        raise RequestValidationError([
            {"type": "unknown_parameter", "loc": ("query", name), "msg": "this operation does not know it"}
            for name in unknown
        ])  # fmt: skip


def _known(route: APIRoute) -> Iterator[str]:
    """Names of single parameters, and those of a model that holds several."""
    for field in route.dependant.query_params:
        model = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from (each.alias or name for name, each in model.model_fields.items())
        else:
            yield field.alias
