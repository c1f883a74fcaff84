"""The answer of ``/v1/events``: what happened to an event, as far as this service knows."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.api.deliveries.views import AttemptView, EventView
from app.api.explain.journeys import FilterView
from app.api.http.views import CopyingView

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
"""The fate of an event at a subscription. ``queued`` and ``pulled`` are for subscriptions with a pull queue."""


class LookedView(CopyingView):
    """A place that was searched, and the range of time that the search covers."""

    where: str = Field(
        description="a table of the store, an embedded log, or a topic of a broker, as in store attempts, log, "
        "main/orders"
    )
    start_ms: int | None = Field(
        alias="from",
        description="begin of the searched range, in ms since the epoch; null for the oldest entry",
    )
    until_ms: int | None = Field(
        alias="to", description="end of the searched range, in ms since the epoch"
    )
    complete: bool = Field(description="false if the search may have missed an event")
    detail: str = Field("", description="why the search is not complete, and the cure")


class PlaceView(CopyingView):
    """A record of the event in a log."""

    broker: str = Field(description="name of the broker")
    kind: str = Field(description="kind of the broker: embedded, kafka, rabbitmq, pulsar or spool")
    topic: str = Field(description="name of the topic")
    partition: int = Field(description="number of the partition")
    offset: int | None = Field(description="null if the broker has no numbered offsets")
    position: str = Field(description="position, in the form that peek and replay accept")
    time_ms: int = Field(description="time of the record in its log, in ms since the epoch")
    by: str = Field(description="what wrote the record: route NAME, mirror ID, or empty if unknown")
    waits: bool | None = Field(
        description="for a record in a spool, true until the target has it; null for others, or if unknown"
    )


class RouteTakenView(BaseModel):
    """The route that the event took, and why."""

    name: str = Field(description="name of the route")
    computed: bool = Field(
        description="true if computed from the current routes; false if recorded when the event arrived, because "
        "the request, its intake or a subscription named the route"
    )
    why: str = Field(
        description="clauses of the route's filters that matched, or why no filter was evaluated"
    )
    filters: list[FilterView] = Field(
        description="result of each filter; empty if no filter was evaluated"
    )


class FateView(BaseModel):
    """The fate of the event at one subscription."""

    subscription: str = Field(description="id of the subscription")
    fate: Fate = Field(description="what happened to the event")
    computed: bool = Field(
        description="true if computed from the current filters and positions of the subscription; false if a row "
        "of the store or the memory of a worker shows it"
    )
    detail: str = Field(description="one sentence, without event data or quoted answers")
    state: str | None = Field(
        description="state of the subscription, such as running, paused or disabled"
    )
    topic: str | None = Field(description="topic from which the subscription reads the event")
    partition: int | None = Field(description="number of the partition; null if unknown")
    position: str | None = Field(
        description="position of the event in its partition; null if unknown"
    )
    behind: EventView | None = Field(
        description="if waiting: the earlier event of its key for which it waits"
    )
    clause: str | None = Field(description="if filtered: the clause that decided")
    because: str | None = Field(
        description="if filtered: the values of the event that the clause read; shown only with the scope data"
    )
    next_attempt_ms: int | None = Field(
        description="if retrying or parked: earliest time of the next attempt, in ms since the epoch; null if "
        "a person has to act before it"
    )
    dead_letter: int | None = Field(description="id of the dead letter")
    consumer: str | None = Field(description="if pulled: name of the consumer's token")
    locked_until_ms: int | None = Field(
        description="if pulled: end of the lock, in ms since the epoch"
    )
    attempts: list[AttemptView] = Field(
        description="the newest 100 attempts, the oldest of them first"
    )


class EventFoundView(BaseModel):
    """One event, identified by its source and id."""

    id: str = Field(description="attribute id of the event")
    source: str = Field(description="attribute source of the event")
    type: str = Field(description="attribute type of the event")
    subject: str | None = Field(description="attribute subject of the event; null if it has none")
    time: str | None = Field(description="attribute time, as the sender wrote it")
    received_ms: int | None = Field(
        description="when the event arrived, which is the time of its first record, in ms since the epoch"
    )
    producer: str | None = Field(
        description="name of the producer that sent the event; null if unknown, or if it sent no credentials"
    )
    intake: str | None = Field(
        description="name of the intake that received the event; null if none, or if unknown"
    )
    producer_claimed: bool = Field(
        description="true if only the record claims `producer` or `intake` and nothing proves it"
    )
    route: RouteTakenView | None = Field(
        description="route that the event took; null if none or unknown"
    )
    places: list[PlaceView] = Field(description="records of the event, the oldest first")
    subscriptions: list[FateView] = Field(
        description="what happened to the event at each subscription"
    )


class FoundView(BaseModel):
    """The events with one id. An answer without events is final only if every search is complete."""

    looked: list[LookedView] = Field(description="places that were searched")
    events: list[EventFoundView] = Field(description="one for each source, the newest first")
