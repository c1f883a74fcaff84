"""``/v1/dead-letters``: what will not be delivered, and why."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response

from app.api import answers, messages, views
from app.api.problems import Refused
from app.api.running import Running

LIMIT = 100
LIMIT_MAX = 10_000


def router(running: Running) -> APIRouter:
    routes = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"])

    @routes.get(
        "",
        operation_id="dead_letters",
        response_model=list[answers.DeadLetterView],
        responses=Refused.responses(503),
    )
    async def dead_letters(
        subscription: Annotated[str | None, Query(description="all by default")] = None,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT,
    ) -> Response:
        """Dead letters with the message each holds."""
        store = running.store
        found = [] if store is None else await store.dead_letters(subscription, limit)
        body = msgspec.json.encode(
            [
                {**views.dead_letter(each), "message": msgspec.Raw(messages.to_json(each.message))}
                for each in found
            ]
        )
        return Response(body, media_type="application/json")

    return routes
