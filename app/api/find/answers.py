"""The answer of ``/v1/events``: the whole way of an event, as far as anything here knows it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.api.deliveries.views import AttemptView, EventView
from app.api.explain.journeys import FilterView
from app.api.http.views import View

Fate = Literal[
    "delivered",
    "filtered",
    "waiting",
    "retrying",
    "parked",
    "dead-letter",
    "redriven",
    "queued",
    "pulled",
    "expired",
    "unknown",
]
"""``queued`` and ``pulled``: of a subscription that is pulled."""


class LookedView(View):
    """A place that was searched, and how far."""

    where: str = Field(
        description="a table of the store, an embedded log, or a topic of a broker: store attempts, "
        "log, main/orders"
    )
    start_ms: int | None = Field(
        alias="from", description="the search began at this time; null: at the oldest entry"
    )
    until_ms: int | None = Field(alias="to", description="the search ended at this time")
    complete: bool = Field(description="false: an event may be there that was not found")
    detail: str = Field("", description="why it is not complete, and the cure")


class PlaceView(View):
    """A record of the event in a log."""

    broker: str
    kind: str = Field(description="kind of the broker: embedded, kafka, rabbitmq, pulsar or spool")
    topic: str
    partition: int
    offset: int | None = Field(description="null where the broker counts no offsets")
    position: str = Field(description="as peek and replay take it")
    time_ms: int = Field(description="the time of the record in its log")
    by: str = Field(description="what wrote it: route NAME, mirror ID, or empty if unknown")
    waits: bool | None = Field(
        description="of a spool: true until the target has the record; null: no spool, or not known"
    )


class RouteTakenView(BaseModel):
    """The route of the event, and why."""

    name: str
    computed: bool = Field(
        description="true: worked out again by the present routes; false: written down when it came"
    )
    why: str = Field(description="the clauses of its filters that matched")
    filters: list[FilterView]


class FateView(BaseModel):
    """What became of the event at one subscription."""

    subscription: str
    fate: Fate
    computed: bool = Field(
        description="true: worked out again by the present filters and positions of the subscription; "
        "false: a row of the store or the memory of a worker says it"
    )
    detail: str = Field(description="one sentence; it quotes no answer and no data")
    state: str | None = Field(
        description="state of the subscription: running, paused, disabled, ..."
    )
    topic: str | None = Field(description="the topic from which it reads the event")
    partition: int | None
    position: str | None
    behind: EventView | None = Field(
        description="waiting: the event of its key that is tried first"
    )
    clause: str | None = Field(description="filtered: the clause that decided")
    because: str | None = Field(
        description="filtered: the values of the event that it saw; values of the data only with the "
        "scope data"
    )
    next_attempt_ms: int | None = Field(description="retrying and parked: time of the next attempt")
    dead_letter: int | None = Field(description="id of the dead letter")
    consumer: str | None = Field(description="pulled: name of the token of the consumer")
    locked_until_ms: int | None = Field(description="pulled: end of the lock")
    attempts: list[AttemptView] = Field(description="the newest 100, the oldest of them first")


class EventFoundView(BaseModel):
    """One event, by source and id."""

    id: str
    source: str
    type: str
    subject: str | None
    time: str | None = Field(description="its attribute time, as the sender wrote it")
    received_ms: int | None = Field(description="when it came: the time of its first record")
    producer: str | None = Field(
        description="name of the producer that sent it; null: unknown, or nobody in particular"
    )
    producer_claimed: bool = Field(
        description="true: `producer` is claimed by the record, and nothing proves it"
    )
    route: RouteTakenView | None = Field(description="null: no route took it, or it is unknown")
    places: list[PlaceView] = Field(description="its records, the oldest first")
    subscriptions: list[FateView]


class FoundView(BaseModel):
    """Events of one id. An answer without events is final only where every search is complete."""

    looked: list[LookedView]
    events: list[EventFoundView] = Field(description="one for each source, the newest first")
