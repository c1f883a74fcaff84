"""``/v1/dead-letters``: list, count, redrive and discard dead letters.

``:redrive`` and ``:discard`` only count, unless the body has ``dry_run: false``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Path, Query, Request, Response
from pydantic import Field

from app.api.access.operations import CallerDep, RedactionDep, router
from app.api.access.parts import BrokersDep, RoutesDep, StoreDep, SubscriptionsDep
from app.api.access.redaction import Redaction
from app.api.asked.subscriptions import Subscriptions
from app.api.deliveries import views
from app.api.deliveries.redriving import Redriver
from app.api.http import parameters
from app.api.http.bodies import json_answer
from app.api.http.moments import now_ms
from app.api.http.parameters import (
    BODY,
    GREATEST_ID,
    LIMIT,
    LIMIT_MAX,
    PAGE_BYTES,
    Id,
    LetterFilter,
    Rate,
)
from app.api.http.problems import RequestRefused
from app.api.http.slices import Slices
from app.interfaces import Attempt, AttemptFilter, DeadLetter, DeadLetterFilter, Store


async def _redriving(
    store: StoreDep, subscriptions: SubscriptionsDep, routes: RoutesDep
) -> Redriver:
    return Redriver(store, subscriptions, routes)


RedrivingDep = Annotated[Redriver, Depends(_redriving)]

AT_ONCE = 1_000  # the most letters that one request redrives
INTERVALS = 1_000  # the most intervals of one count
LONGEST_INTERVAL = 366 * 86_400  # seconds
HISTORY = 1_000  # attempts of an event that are searched

LetterId = Annotated[int, Path(ge=1, le=GREATEST_ID, description="id from the list")]


class LetterQuery(LetterFilter):
    """The filter of dead letters to list, and the details of each to show."""

    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="maximum number of letters of a page")
    before: Id | None = Field(None, description="only letters with a lower id; next contains it")
    messages: bool = Field(True, description="false to omit the message of each letter")
    raw: bool = Field(False, description="true to add each record in its wire format")


class CountQuery(LetterFilter):
    """The filter of dead letters to count, and the interval of counts over time."""

    every: int | None = Field(
        None,
        ge=1,
        le=LONGEST_INTERVAL,
        description="length of an interval in seconds, to count also by interval and cause, starting at since; at most "
        f"{INTERVALS} intervals",
    )


class DiscardOrder(LetterFilter):
    """The dead letters to discard."""

    model_config = BODY

    dry_run: bool = Field(True, description="true to count only; false to delete permanently")


class RedriveOrder(LetterFilter):
    """The dead letters to redrive, and the rate at which to do so."""

    model_config = BODY

    dry_run: bool = Field(True, description="true to count only; false to redrive")
    rate: Rate = Field(0.0, description="letters per second, at least one a day; 0 for no limit")
    limit: int = Field(
        AT_ONCE,
        ge=1,
        le=AT_ONCE,
        description="maximum number of letters, the oldest first; left is the number that remains",
    )


routes = router("/v1/dead-letters", tags=["dead letters"])


@routes.operation("GET", "dead_letters", (422, 503), response_model=views.DeadLetterPage)
async def dead_letters(
    store: StoreDep,
    brokers: BrokersDep,
    shown: RedactionDep,
    request: Request,
    query: Annotated[LetterQuery, Query()],
) -> Response:
    """Return dead letters with their messages, the newest first."""
    choice = query.choice()

    async def ask(limit: int, before: int | None) -> list[DeadLetter]:
        return await store.letters.find(choice, limit, before)

    found, more = await parameters.read_page(ask, query.limit, query.before)
    page = {
        "dead_letters": await Slices().rows(
            found, lambda each: _letter_answer(brokers.kinds, each, shown, query)
        ),
        "next": parameters.next_page(request, before=found[-1].id) if more else None,
    }
    return json_answer(page)


@routes.operation("GET /count", "count_dead_letters", (422, 503))
async def count(
    store: StoreDep,
    query: Annotated[CountQuery, Query()],
) -> views.DeadLetterCounts:
    """Return the number of dead letters by subscription and cause, and over time."""
    letters, choice = store.letters, query.choice()
    found = await letters.count(choice)
    times: Mapping[tuple[int, str], int] = {}
    if query.every is not None:
        _demand_few_intervals(query, now_ms(store.clock))
        times = await letters.count_over_time(choice, query.every * 1000)
    return views.DeadLetterCounts(
        total=sum(found.values()), counts=views.counts(found), over_time=views.over_time(times)
    )


@routes.operation(
    "GET /{letter}", "dead_letter", (404, 422, 503), response_model=views.DeadLetterDetail
)
async def dead_letter(
    store: StoreDep,
    brokers: BrokersDep,
    subscriptions: SubscriptionsDep,
    shown: RedactionDep,
    letter: LetterId,
) -> Response:
    """Return one dead letter with its event, its record in wire format, and its attempts."""
    found = await _letter_by_id(store, letter)
    slices = Slices()
    attempts = await _history(subscriptions, store, found, slices)
    history = await slices.rows(attempts, lambda each: views.attempt(each, shown), PAGE_BYTES)
    return json_answer(views.dead_letter(brokers.kinds, found, shown, raw=True, history=history))


@routes.operation("POST /{letter}:resend", "resend_dead_letter", (404, 409, 422, 503))
async def resend(
    redriving: RedrivingDep, store: StoreDep, by: CallerDep, letter: LetterId
) -> views.Redriven:
    """Deliver one dead letter to its subscription again. Its attempts are counted from 1 again."""
    found = await _letter_by_id(store, letter)
    choice = DeadLetterFilter(subscriptions=(found.subscription,), ids=(letter,))
    by.annotate_audit(target=f"{found.subscription}/{letter}")
    return await redriving.redrive(choice, rate=0.0, limit=1, dry_run=False)


@routes.operation("POST :discard", "discard_dead_letters", (422, 503))
async def discard(store: StoreDep, by: CallerDep, order: DiscardOrder) -> views.Discarded:
    """Count dead letters, or with `dry_run: false` delete them permanently."""
    choice = order.choice()
    found = await store.letters.count(choice)
    by.annotate_audit(target=", ".join(order.subscription), detail=_audit_detail_before(order))
    gone = 0 if order.dry_run else await store.letters.discard(choice)
    by.annotate_audit(detail=_audit_detail_after(order, gone, sum(found.values())))
    return views.Discarded(
        dry_run=order.dry_run,
        matched=sum(found.values()),
        discarded=gone,
        counts=views.counts(found),
    )


@routes.operation("POST :redrive", "redrive_dead_letters", (409, 422, 503))
async def redrive(redriving: RedrivingDep, by: CallerDep, order: RedriveOrder) -> views.Redriven:
    """Count dead letters, or with `dry_run: false` deliver the oldest of them to their subscriptions again.

    Each event keeps its id, and events of one key are delivered one at a time. An event that fails again
    becomes a dead letter again. To exclude such letters when you repeat the request, set `until` to `at_ms`
    of the first answer.
    """
    by.annotate_audit(target=", ".join(order.subscription), detail=_audit_detail_before(order))
    done = await redriving.redrive(
        order.choice(), rate=order.rate, limit=order.limit, dry_run=order.dry_run
    )
    by.annotate_audit(detail=_audit_detail_after(order, done.redriven, done.matched))
    return done


def _letter_answer(
    kinds: Mapping[str, str], letter: DeadLetter, shown: Redaction, query: LetterQuery
) -> dict[str, object]:
    """Return the answer for one dead letter, with or without its message."""
    if query.messages:
        return views.dead_letter(kinds, letter, shown, raw=query.raw)
    return views.named_letter(letter, shown)


def _demand_few_intervals(query: CountQuery, until_ms: int) -> None:
    """Raise Refused with 422 if the count has more intervals than one answer may have."""
    every_ms = (query.every or 1) * 1000
    until_ms = until_ms if query.until is None else min(query.until, until_ms)
    intervals = (until_ms - (query.since or 0)) // every_ms
    if intervals > INTERVALS:
        raise RequestRefused(
            422,
            "too-many-intervals",
            f"{intervals} intervals of {query.every} s are more than {INTERVALS}. Raise every or since",
        )


def _audit_detail_before(order: DiscardOrder | RedriveOrder) -> str:
    """Return the audit detail of a request, in case it fails."""
    return "dry run" if order.dry_run else ""


def _audit_detail_after(order: DiscardOrder | RedriveOrder, done: int, matched: int) -> str:
    """Return the audit detail of a request that succeeded."""
    return f"dry run, {matched} match" if order.dry_run else f"{done} of {matched}"


async def _letter_by_id(store: Store, letter: int) -> DeadLetter:
    """Return a dead letter by id. Raise Refused with 404 if there is none."""
    found = await store.letters.find(DeadLetterFilter(ids=(letter,)), 1)
    if not found:
        raise RequestRefused(
            404,
            "no-such-dead-letter",
            f"dead letter {letter} does not exist, or was redriven or discarded",
        )
    return found[0]


async def _history(
    subscriptions: Subscriptions, store: Store, letter: DeadLetter, slices: Slices
) -> list[Attempt]:
    """Return the attempts of this message. Other messages with the same event id are left out."""
    if not letter.event.id:
        return []
    message = letter.message
    choice = AttemptFilter(subscription=letter.subscription, event_id=letter.event.id)
    stored = await store.attempts.find(choice, HISTORY)
    recent = await slices.each(subscriptions.attempts(letter.subscription, HISTORY))
    return [
        each
        for each in await views.merge_attempts(stored, recent, slices)
        if (each.partition, each.position) == (message.partition, message.position)
    ]
