"""The answer of ``/v1/explain``: an event's journey as JSON, and its description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs
from pydantic import BaseModel, Field

from app.access.rights import NotAllowed, Rights
from app.api.http import problems
from app.api.http.views import FaultView, Problem, View
from app.api.topics import messages
from app.api.topics.answers import RecordView
from app.routing.hops import Hop, SubscriptionVerdict
from app.routing.journey import Journey
from app.routing.partitions import partition_of

Partitions = Mapping[tuple[str, str], int]
"""By broker and topic: how many a topic has, where that is known."""


def of_producer(
    journey: Journey, attributes: Mapping[str, str], rights: Rights, named: str | None
) -> Journey:
    """As it ends for a producer with these rights. ``attributes``: the event's own. ``named``: the route of
    the request."""
    refusal = rights.refusal(attributes, named)
    chosen = next((each.name for each in journey.routes if each.chosen), None)
    if refusal is None and named is None and chosen is not None:
        faults = rights.faults_of_route(chosen)
        refusal = NotAllowed(faults) if faults else None
    if refusal is None:
        keys = dict.fromkeys(hop.key for hop in journey.hops)
        faults = [fault for key in keys for fault in rights.faults_of_key(key)]
        refusal = NotAllowed(faults) if faults else None
    return journey if refusal is None else structs.replace(journey, hops=(), refused=refusal)


class FilterView(BaseModel):
    """The result of one filter for the event, and the part that decided."""

    dialect: str
    passes: bool
    decided_by: str = Field(description="the part of the filter that decided")
    because: str = Field(description="the values seen, clipped")
    inner: list[FilterView] = Field([], description="parts of all, any and not")


class RouteVerdictView(BaseModel):
    name: str
    chosen: bool
    asked: bool = Field(
        description="false: an earlier route matched, or the request named its route"
    )
    filters: list[FilterView]
    invalid: list[FaultView] = Field(
        [], description="what of the data does not match the schema of the route"
    )


class KeyView(View):
    mapper: str
    key: str | None
    key_base64: str | None = None
    why: str
    refused: bool = Field(description="the route needs a key, but the event has none: 400")


class SubscriptionVerdictView(View):
    id: str
    wants: bool
    sink: str
    state: str | None = Field(description="state in this process: running, paused, ...")
    lane: str | None = Field(description="the key of the event's lane there")
    fault: str | None = Field(description="why the subscription cannot deliver it")
    filters: list[FilterView]
    onward: HopView | None = Field(description="the targets of a mirror")


class HopView(View):
    """A topic that gets the event."""

    broker: str
    kind: str
    topic: str
    by: str = Field(description="the route or mirror that publishes it there")
    key: str | None
    key_base64: str | None = None
    partition: int | None = Field(description="null without a key, or if unknown")
    partitions: int | None
    record: RecordView | None = Field(
        description="the record that a route would write; null behind mirrors"
    )
    subscriptions: list[SubscriptionVerdictView]
    untold: list[str] = Field(
        description="subscriptions that get it if the exchange is bound to their topics"
    )


class EventNameView(BaseModel):
    """Null if the document is in a format that Skybridge cannot read."""

    specversion: str | None
    id: str | None
    source: str | None
    type: str | None


class JourneyView(BaseModel):
    """One event: every route that was evaluated, with its reason, and every topic and subscription."""

    event: EventNameView
    accepted: bool
    refused: Problem | None = Field(description="the problem that the sender would get")
    routes: list[RouteVerdictView]
    key: KeyView | None
    hops: list[HopView]
    outside: list[HopView] = Field(
        [],
        description="topics that subscriptions read and no route or mirror writes to: what becomes of the "
        "event if another client writes it there",
    )


def to_json(
    journey: Journey,
    kinds: Mapping[str, str],
    partitions: Partitions,
    states: Mapping[str, str],
) -> dict[str, Any]:
    """See ``JourneyView``. ``states``: of the subscriptions that a service runs, by id."""
    attributes, refused = journey.event.attributes, journey.refused
    return {
        "event": {name: attributes.get(name) for name in EventNameView.model_fields},
        "accepted": refused is None,
        "refused": None
        if refused is None
        else problems.document(refused.status, refused.code, str(refused), refused.faults),
        "routes": msgspec.to_builtins(journey.routes),
        "key": None
        if journey.key is None
        else KeyView.members(journey.key, **messages.key_json(journey.key.key)),
        "hops": [_Writer(kinds, partitions, states).hop(each) for each in journey.hops],
        "outside": [_Writer(kinds, partitions, states).hop(each) for each in journey.outside],
    }


class _Writer:
    def __init__(
        self, kinds: Mapping[str, str], partitions: Partitions, states: Mapping[str, str]
    ) -> None:
        self._kinds, self._partitions, self._states = kinds, partitions, states

    def hop(self, hop: Hop) -> dict[str, Any]:
        count = self._partitions.get((hop.broker, hop.topic))
        return HopView.members(
            hop,
            kind=self._kinds.get(hop.broker, "embedded"),
            **messages.key_json(hop.key),
            partition=None if count is None or hop.key is None else partition_of(hop.key, count),
            partitions=count,
            record=None if hop.record is None else messages.record_json(hop.record),
            subscriptions=[self._subscription(each) for each in hop.subscriptions],
        )

    def _subscription(self, verdict: SubscriptionVerdict) -> dict[str, Any]:
        return SubscriptionVerdictView.members(
            verdict,
            state=self._states.get(verdict.id),
            lane=verdict.lane or None,
            fault=verdict.fault or None,
            filters=msgspec.to_builtins(verdict.filters),
            onward=None if verdict.onward is None else self.hop(verdict.onward),
        )
