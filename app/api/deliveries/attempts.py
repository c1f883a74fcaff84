"""``/v1/attempts``: attempts to deliver, their outcome, and the next attempt."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from app.api.access.operations import RedactionDep, router
from app.api.access.parts import StoreDep, SubscriptionsDep
from app.api.deliveries import views
from app.api.deliveries.parked import ahead_of
from app.api.http.bodies import json_answer
from app.api.http.parameters import LIMIT, LIMIT_MAX, PAGE_BYTES, Text
from app.api.http.slices import Slices
from app.delivery.outcomes import Fate
from app.interfaces import Attempt, AttemptFilter, Store, WaitingEvent

REMEMBERED = 10_000  # attempts that are read from the memory of this process


routes = router("/v1/attempts", tags=["attempts"])


@routes.operation("GET", "attempts", (422, 503), response_model=views.AttemptsView)
async def attempts(
    store: StoreDep,
    subscriptions: SubscriptionsDep,
    shown: RedactionDep,
    subscription: Annotated[
        Text | None, Query(description="id of the subscription; all by default")
    ] = None,
    event_id: Annotated[Text | None, Query(description="id of the event")] = None,
    outcome: Annotated[Fate | None, Query(description="outcome of the attempt")] = None,
    limit: Annotated[
        int, Query(ge=1, le=LIMIT_MAX, description="maximum number of attempts")
    ] = LIMIT,
) -> Response:
    """Return the newest attempts from the store and from the memory of this process. An event that waits for
    an earlier event of its key has no attempt; `waiting` names the earlier event."""
    outcome_text = None if outcome is None else outcome.value
    choice = AttemptFilter(subscription=subscription, event_id=event_id, outcome=outcome_text)
    stored = await store.attempts.find(choice, limit)
    slices = Slices()
    remembered = [
        each
        for each in await slices.each(subscriptions.attempts(subscription, REMEMBERED))
        if _is_wanted(each, event_id, outcome_text)
    ]
    found = (await views.merge_attempts(stored, remembered, slices))[:limit]
    waiting: list[WaitingEvent] = []
    if event_id is not None and outcome is None:
        waiting += await _parked(store, subscription, event_id)
        waiting += subscriptions.waiting(subscription, event_id)
    return json_answer(
        {
            "attempts": await slices.rows(
                found, lambda each: views.attempt(each, shown), PAGE_BYTES
            ),
            "waiting": await slices.rows(waiting, views.waiting),
        }
    )


def _is_wanted(each: Attempt, event_id: str | None, outcome: str | None) -> bool:
    """Return True if the attempt has this event id and this outcome. A value None permits any."""
    return event_id in {None, each.event.id} and outcome in {None, each.outcome}


async def _parked(store: Store, subscription: str | None, event_id: str) -> list[WaitingEvent]:
    """Return parked events with this id that have no attempt yet."""
    return [
        WaitingEvent(
            subscription=row.subscription,
            partition=row.message.partition,
            position=row.message.position,
            event=row.event,
            behind=await ahead_of(store, row),
            parked=True,
        )
        for row in await store.parked.find(subscription, event_id=event_id)
        if not row.attempts
    ]
