"""``/v1/dead-letters``: what will not be delivered, why, and what is to become of it.

Changes are asked for twice: ``:redrive`` and ``:discard`` only count unless the body says
``dry_run: false``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Path, Query, Request, Response
from pydantic import Field

from app.api.access.operations import By, To, router
from app.api.access.parts import BrokersDep, ClockDep, RoutesDep, StoreDep, SubscriptionsDep
from app.api.access.redaction import Shown
from app.api.asked.subscriptions import Subscriptions
from app.api.deliveries import views
from app.api.deliveries.redriving import Redriving
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
from app.api.http.problems import Refused
from app.api.http.slices import Slices
from app.interfaces import Attempt, AttemptChoice, DeadLetter, LetterChoice, Store


async def _redriving(
    store: StoreDep, subscriptions: SubscriptionsDep, routes: RoutesDep, clock: ClockDep
) -> Redriving:
    return Redriving(store, subscriptions, routes, clock)


RedrivingDep = Annotated[Redriving, Depends(_redriving)]

AT_ONCE = 1_000  # letters that one request redrives at most
INTERVALS = 1_000  # of one count
LONGEST_INTERVAL = 366 * 86_400  # seconds
HISTORY = 1_000  # attempts of an event that are looked through

LetterId = Annotated[int, Path(ge=1, le=GREATEST_ID, description="id, as the list shows it")]


class LetterQuery(LetterFilter):
    """A page of them."""

    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="most letters of a page")
    before: Id | None = Field(None, description="only letters with a lower id, as next says")
    messages: bool = Field(
        True, description="false: only the name of each event, without its message"
    )
    raw: bool = Field(False, description="also show each record as it is on the wire")


class CountQuery(LetterFilter):
    """Over which time they are counted."""

    every: int | None = Field(
        None,
        ge=1,
        le=LONGEST_INTERVAL,
        description="seconds of an interval: also count by interval and cause, from since on; at most "
        f"{INTERVALS} intervals",
    )


class DiscardOrder(LetterFilter):
    model_config = BODY

    dry_run: bool = Field(True, description="true: only count; false: delete for good")


class RedriveOrder(LetterFilter):
    model_config = BODY

    dry_run: bool = Field(True, description="true: only count; false: redrive")
    rate: Rate = Field(0.0, description="letters a second, at least one a day; 0: no limit")
    limit: int = Field(
        AT_ONCE,
        ge=1,
        le=AT_ONCE,
        description="most letters, the oldest first; left says how many remain",
    )


routes = router("/v1/dead-letters", tags=["dead letters"])


@routes.operation("GET", "dead_letters", (422, 503), response_model=views.DeadLetterPage)
async def dead_letters(
    store: StoreDep,
    brokers: BrokersDep,
    shown: To,
    request: Request,
    query: Annotated[LetterQuery, Query()],
) -> Response:
    """Dead letters with their messages, the newest first."""
    choice = query.choice()

    async def ask(limit: int, before: int | None) -> list[DeadLetter]:
        return await store.letters.find(choice, limit, before)

    found, more = await parameters.read_page(ask, query.limit, query.before)
    page = {
        "dead_letters": await Slices().rows(
            found, lambda each: _listed(brokers.kinds, each, shown, query)
        ),
        "next": parameters.next_page(request, before=found[-1].id) if more else None,
    }
    return json_answer(page)


@routes.operation("GET /count", "count_dead_letters", (422, 503))
async def count(
    store: StoreDep,
    clock: ClockDep,
    query: Annotated[CountQuery, Query()],
) -> views.DeadLetterCounts:
    """The number of dead letters, by subscription and cause, and over time."""
    letters, choice = store.letters, query.choice()
    found = await letters.count(choice)
    times: Mapping[tuple[int, str], int] = {}
    if query.every is not None:
        _demand_few(query, now_ms(clock))
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
    shown: To,
    letter: LetterId,
) -> Response:
    """One dead letter: its event, its record as it was on the wire, its attempts."""
    found = await _found(store, letter)
    slices = Slices()
    attempts = await _history(subscriptions, store, found, slices)
    history = await slices.rows(attempts, lambda each: views.attempt(each, shown), PAGE_BYTES)
    return json_answer(views.dead_letter(brokers.kinds, found, shown, raw=True, history=history))


@routes.operation("POST /{letter}:resend", "resend_dead_letter", (404, 409, 422, 503))
async def resend(
    redriving: RedrivingDep, store: StoreDep, by: By, letter: LetterId
) -> views.Redriven:
    """Send one dead letter to its subscription again, with a new count of attempts."""
    found = await _found(store, letter)
    choice = LetterChoice(subscriptions=(found.subscription,), ids=(letter,))
    by.tell(target=f"{found.subscription}/{letter}")
    return await redriving.redrive(choice, rate=0.0, limit=1, dry_run=False)


@routes.operation("POST :discard", "discard_dead_letters", (422, 503))
async def discard(store: StoreDep, by: By, order: DiscardOrder) -> views.Discarded:
    """Count dead letters, or with `dry_run: false` discard them for good."""
    choice = order.choice()
    found = await store.letters.count(choice)
    by.tell(target=", ".join(order.subscription), detail=_asked(order))
    gone = 0 if order.dry_run else await store.letters.discard(choice)
    by.tell(detail=_done(order, gone, sum(found.values())))
    return views.Discarded(
        dry_run=order.dry_run,
        matched=sum(found.values()),
        discarded=gone,
        counts=views.counts(found),
    )


@routes.operation("POST :redrive", "redrive_dead_letters", (409, 422, 503))
async def redrive(redriving: RedrivingDep, by: By, order: RedriveOrder) -> views.Redriven:
    """Count dead letters, or with `dry_run: false` send the oldest of them to their subscriptions
    again: same event, same id, one at a time per key. An event that fails again becomes a dead
    letter again; give `until` when you repeat the request, to leave these alone."""
    by.tell(target=", ".join(order.subscription), detail=_asked(order))
    done = await redriving.redrive(
        order.choice(), rate=order.rate, limit=order.limit, dry_run=order.dry_run
    )
    by.tell(detail=_done(order, done.redriven, done.matched))
    return done


def _listed(
    kinds: Mapping[str, str], letter: DeadLetter, shown: Shown, query: LetterQuery
) -> dict[str, object]:
    if query.messages:
        return views.dead_letter(kinds, letter, shown, raw=query.raw)
    return views.named_letter(letter, shown)


def _demand_few(query: CountQuery, until_ms: int) -> None:
    """Raises Refused for more intervals than one answer may have."""
    every_ms = (query.every or 1) * 1000
    until_ms = until_ms if query.until is None else min(query.until, until_ms)
    intervals = (until_ms - (query.since or 0)) // every_ms
    if intervals > INTERVALS:
        raise Refused(
            422,
            "too-many-intervals",
            f"{intervals} intervals of {query.every} s, but one answer has at most {INTERVALS}: raise every or since",
        )


def _asked(order: DiscardOrder | RedriveOrder) -> str:
    """For the audit, of an order that fails."""
    return "dry run" if order.dry_run else ""


def _done(order: DiscardOrder | RedriveOrder, done: int, matched: int) -> str:
    return f"dry run, {matched} match" if order.dry_run else f"{done} of {matched}"


async def _found(store: Store, letter: int) -> DeadLetter:
    found = await store.letters.find(LetterChoice(ids=(letter,)), 1)
    if not found:
        raise Refused(
            404,
            "no-such-dead-letter",
            f"no dead letter {letter} exists: it was redriven or discarded",
        )
    return found[0]


async def _history(
    subscriptions: Subscriptions, store: Store, letter: DeadLetter, slices: Slices
) -> list[Attempt]:
    """Of this message alone: others may bear the same id."""
    if not letter.event.id:
        return []
    message = letter.message
    choice = AttemptChoice(subscription=letter.subscription, event_id=letter.event.id)
    stored = await store.attempts.find(choice, HISTORY)
    recent = await slices.each(subscriptions.attempts(letter.subscription, HISTORY))
    return [
        each
        for each in await views.merged(stored, recent, slices)
        if (each.partition, each.position) == (message.partition, message.position)
    ]
