"""``/v1/parked``: what waits in the store for its turn, and why."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.api import kept, parameters
from app.api.bodies import json_answer
from app.api.parameters import GREATEST_ID, LIMIT, LIMIT_MAX, Text
from app.api.problems import Refused
from app.api.running import Running, store_of
from app.interfaces import Parked

Of = Annotated[Text | None, Query(description="of this one; all by default")]


def router(running: Running) -> APIRouter:
    routes = APIRouter(prefix="/v1/parked", tags=["parked"])
    _add_list(routes, running)
    _add_keys(routes, running)
    _add_count(routes, running)
    return routes


def _add_list(routes: APIRouter, running: Running) -> None:
    @routes.get(
        "",
        operation_id="parked",
        response_model=kept.ParkedPage,
        responses=Refused.responses(422, 503),
    )
    async def parked(
        request: Request,
        subscription: Of = None,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT,
        after: Annotated[
            int, Query(ge=0, le=GREATEST_ID, description="only those with a higher id")
        ] = 0,
        messages: Annotated[bool, Query(description="with the message of each")] = False,
    ) -> Response:
        """Messages that wait, oldest first: each behind the others of its key, or redriven."""
        store = store_of(running)

        async def ask(most: int, cursor: int | None) -> list[Parked]:
            return await store.parked.find(subscription, most, cursor or 0)

        found, more = await parameters.read_page(ask, limit, after)
        page = {
            "parked": [kept.parked(running, each, with_message=messages) for each in found],
            "next": parameters.next_page(request, after=found[-1].id) if more else None,
        }
        return json_answer(page)


def _add_keys(routes: APIRouter, running: Running) -> None:
    @routes.get("/keys", operation_id="parked_keys", responses=Refused.responses(422, 503))
    async def keys(
        subscription: Of = None,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT,
    ) -> kept.ParkedKeys:
        """Each key that waits, by its oldest message: how many, since when, why, until when."""
        found = await store_of(running).parked.keys(subscription, limit)
        return kept.ParkedKeys(keys=list(map(kept.parked_key, found)))


def _add_count(routes: APIRouter, running: Running) -> None:
    @routes.get("/count", operation_id="count_parked", responses=Refused.responses(503))
    async def count() -> kept.ParkedCounts:
        """How much waits, by subscription."""
        found = await store_of(running).parked.count()
        return kept.ParkedCounts(
            counts=[
                kept.ParkedCountView.of(each, subscription=name, keys=each.lanes)
                for name, each in sorted(found.items())
            ]
        )
