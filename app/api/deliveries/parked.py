"""``/v1/parked``: events that wait in the store, and the cause of each wait."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from app.api.access.operations import RedactionDep, router
from app.api.access.parts import BrokersDep, StoreDep
from app.api.deliveries import views
from app.api.http import parameters
from app.api.http.bodies import json_answer
from app.api.http.parameters import GREATEST_ID, LIMIT, LIMIT_MAX, Text
from app.api.http.slices import Slices
from app.delivery.parked_lanes import START
from app.interfaces import EventName, Parked, Store

Of = Annotated[Text | None, Query(description="id of the subscription; all by default")]
"""A query parameter: the id of the subscription whose parked events are returned."""


routes = router("/v1/parked", tags=["parked"])


@routes.operation("GET", "parked", (422, 503), response_model=views.ParkedPage)
async def parked(
    store: StoreDep,
    brokers: BrokersDep,
    shown: RedactionDep,
    request: Request,
    subscription: Of = None,
    limit: Annotated[
        int, Query(ge=1, le=LIMIT_MAX, description="maximum number of messages of a page")
    ] = LIMIT,
    after: Annotated[
        int, Query(ge=0, le=GREATEST_ID, description="only rows with a higher id")
    ] = 0,
    messages: Annotated[bool, Query(description="true to add the message of each")] = False,
) -> Response:
    """Return parked and redriven messages, the oldest first."""

    async def ask(most: int, cursor: int | None) -> list[Parked]:
        return await store.parked.find(subscription, most, cursor or 0)

    found, more = await parameters.read_page(ask, limit, after)
    page = {
        "parked": await Slices().rows(
            found, lambda each: views.parked(brokers.kinds, each, shown, with_message=messages)
        ),
        "next": parameters.next_page(request, after=found[-1].id) if more else None,
    }
    return json_answer(page)


@routes.operation("GET /keys", "parked_keys", (422, 503), response_model=views.ParkedKeys)
async def keys(
    store: StoreDep,
    shown: RedactionDep,
    subscription: Of = None,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="maximum number of keys")] = LIMIT,
) -> Response:
    """Return the parked keys. Each has its number of messages, and the start, cause and end of the wait of
    its oldest message."""
    found = await store.parked.keys(subscription, limit)
    return json_answer(
        {"keys": await Slices().rows(found, lambda each: views.parked_key(each, shown))}
    )


@routes.operation("GET /count", "count_parked", (503,))
async def count(store: StoreDep) -> views.ParkedCounts:
    """Return the number of parked messages by subscription."""
    found = await store.parked.count()
    return views.ParkedCounts(
        counts=[
            views.ParkedCountView.of(each, subscription=name)
            for name, each in sorted(found.items())
        ]
    )


async def ahead_of(store: Store, row: Parked) -> EventName | None:
    """Return the first waiting event with the key of this parked row, or None if the row waits for no other
    event."""
    if row.redriven:
        return None
    place = row.subscription, row.broker, row.message.partition, row.lane
    heads = await store.parked.rows(*place, after=START, limit=1)
    return next((head.event for head in heads if head.id != row.id), None)
