"""``/v1/dead-letters``: what will not be delivered, why, and what is to become of it.

Changes are asked for twice: ``:redrive`` and ``:discard`` only count unless the body says
``dry_run: false``.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from app.api import delivery_answers, kept_views, paging, redriving
from app.api.choosing import BODY, GREATEST_ID, Id, LetterFilter, Rate
from app.api.kept import merged, store_of
from app.api.problems import Refused
from app.api.running import Running
from app.interfaces import Attempt, DeadLetter, LetterChoice, Store

AT_ONCE = 1_000  # letters that one request redrives at most
HISTORY = 1_000  # attempts of an event that are looked through

LetterId = Annotated[int, Path(ge=1, le=GREATEST_ID, description="as the list shows it")]


class LetterQuery(LetterFilter):
    """A page of them."""

    limit: int = Field(paging.LIMIT, ge=1, le=paging.LIMIT_MAX, description="letters of a page")
    before: Id | None = Field(None, description="only those with a lower id: what next says")
    raw: bool = Field(False, description="with each record as it is on the wire")


class DiscardOrder(LetterFilter):
    model_config = BODY

    dry_run: bool = Field(True, description="true: count only; false: they are gone for good")


class RedriveOrder(LetterFilter):
    model_config = BODY

    dry_run: bool = Field(True, description="true: count only; false: they go")
    rate: Rate = Field(0.0, description="letters a second, at least one a day; 0: at once")
    limit: int = Field(
        AT_ONCE, ge=1, le=AT_ONCE, description="the oldest so many; left says how many remain"
    )


def router(running: Running) -> APIRouter:
    routes = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"])
    _add_list(routes, running)
    _add_count(routes, running)
    _add_one(routes, running)
    _add_discard(routes, running)
    _add_redrive(routes, running)
    return routes


def _add_list(routes: APIRouter, running: Running) -> None:
    @routes.get(
        "",
        operation_id="dead_letters",
        response_model=delivery_answers.DeadLetterPage,
        responses=Refused.responses(422, 503),
    )
    async def dead_letters(request: Request, query: Annotated[LetterQuery, Query()]) -> Response:
        """Dead letters with the message each holds, the newest first."""
        store, choice = store_of(running), query.choice()

        async def ask(limit: int, before: int | None) -> list[DeadLetter]:
            return await store.letters.find(choice, limit, before)

        found, more = await paging.read(ask, query.limit, query.before)
        page = {
            "dead_letters": [
                kept_views.dead_letter(running, each, raw=query.raw) for each in found
            ],
            "next": paging.link(request, before=found[-1].id) if more else None,
        }
        return _json(page)


def _add_count(routes: APIRouter, running: Running) -> None:
    @routes.get("/count", operation_id="count_dead_letters", responses=Refused.responses(422, 503))
    async def count(
        query: Annotated[LetterFilter, Query()],
    ) -> delivery_answers.DeadLetterCounts:
        """How many there are, by subscription and cause."""
        found = await store_of(running).letters.count(query.choice())
        return delivery_answers.DeadLetterCounts(
            total=sum(found.values()), counts=kept_views.counts(found)
        )


def _add_one(routes: APIRouter, running: Running) -> None:
    @routes.get(
        "/{letter}",
        operation_id="dead_letter",
        response_model=delivery_answers.DeadLetterDetail,
        responses=Refused.responses(404, 422, 503),
    )
    async def dead_letter(letter: LetterId) -> Response:
        """One dead letter: its event, its record as it was on the wire, its attempts."""
        store = store_of(running)
        found = await _found(store, letter)
        history = [kept_views.attempt(each) for each in await _history(running, store, found)]
        dumped = [each.model_dump() for each in history]
        return _json(kept_views.dead_letter(running, found, raw=True, history=dumped))

    @routes.post(
        "/{letter}:resend",
        operation_id="resend_dead_letter",
        responses=Refused.responses(404, 409, 422, 503),
    )
    async def resend(letter: LetterId) -> delivery_answers.Redriven:
        """Send one dead letter to its subscription again, with attempts of its own."""
        store = store_of(running)
        found = await _found(store, letter)
        choice = LetterChoice(subscription=found.subscription, ids=(letter,))
        return await redriving.redrive(running, store, choice, rate=0.0, limit=1, dry_run=False)


def _add_discard(routes: APIRouter, running: Running) -> None:
    @routes.post(
        ":discard", operation_id="discard_dead_letters", responses=Refused.responses(422, 503)
    )
    async def discard(order: DiscardOrder) -> delivery_answers.Discarded:
        """Count dead letters, or with `dry_run: false` throw them away for good."""
        store, choice = store_of(running), order.choice()
        found = await store.letters.count(choice)
        gone = 0 if order.dry_run else await store.letters.discard(choice)
        return delivery_answers.Discarded(
            dry_run=order.dry_run,
            matched=sum(found.values()),
            discarded=gone,
            counts=kept_views.counts(found),
        )


def _add_redrive(routes: APIRouter, running: Running) -> None:
    @routes.post(
        ":redrive",
        operation_id="redrive_dead_letters",
        responses=Refused.responses(409, 422, 503),
    )
    async def redrive(order: RedriveOrder) -> delivery_answers.Redriven:
        """Count dead letters, or with `dry_run: false` send the oldest of them to their subscriptions
        again: same event, same id, one at a time a key. What fails again is a dead letter again; give
        `until` when you repeat the request, so that those are left alone."""
        return await redriving.redrive(
            running,
            store_of(running),
            order.choice(),
            rate=order.rate,
            limit=order.limit,
            dry_run=order.dry_run,
        )


async def _found(store: Store, letter: int) -> DeadLetter:
    found = await store.letters.find(LetterChoice(ids=(letter,)), 1)
    if not found:
        raise Refused(
            404, "no-such-dead-letter", f"there is no dead letter {letter}: redriven or discarded"
        )
    return found[0]


async def _history(running: Running, store: Store, letter: DeadLetter) -> list[Attempt]:
    """Of this message alone: others may bear the same id."""
    if not letter.event.id:
        return []
    message = letter.message
    stored = await store.attempts.find(letter.subscription, event_id=letter.event.id, limit=HISTORY)
    recent = running.attempts(letter.subscription, HISTORY)
    return [
        each
        for each in merged(stored, recent)
        if (each.partition, each.position) == (message.partition, message.position)
    ]


def _json(view: object) -> Response:
    return Response(msgspec.json.encode(view), media_type="application/json")
