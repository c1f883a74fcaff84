"""The answer of ``/v1/explain``: an event's journey as JSON, and its description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic import BaseModel, Field

from app.api import messages, problems
from app.api.answers import Problem, RecordView, View
from app.routing.journey import Hop, Journey, SubscriptionVerdict
from app.routing.partitions import partition_of

Partitions = Mapping[tuple[str, str], int]
"""By broker and topic: how many a topic has, where that is known."""


class FilterView(BaseModel):
    """What one filter says of the event, and which part of it settled that."""

    dialect: str
    passes: bool
    decided_by: str = Field(description="the part of the filter that settled it")
    because: str = Field(description="the values seen, clipped")
    inner: list[FilterView] = Field([], description="of all, any and not")


class RouteVerdictView(BaseModel):
    name: str
    chosen: bool
    asked: bool = Field(
        description="false: an earlier route matched, or the request named its route"
    )
    filters: list[FilterView]


class KeyView(View):
    mapper: str
    key: str | None
    key_base64: str | None = None
    why: str
    refused: bool = Field(description="the route wants a key, and there is none: 400")


class SubscriptionVerdictView(View):
    id: str
    wants: bool
    sink: str
    state: str | None = Field(description="where this process runs it: running, paused, ...")
    lane: str | None = Field(description="what the event waits in line with there")
    fault: str | None = Field(description="why it is no event to it, or cannot go on")
    filters: list[FilterView]
    onward: HopView | None = Field(description="where a mirror brings it")


class HopView(View):
    """A place that the event comes to."""

    broker: str
    kind: str
    topic: str
    by: str = Field(description="the route, or the mirror, that brings it there")
    key: str | None
    key_base64: str | None = None
    partition: int | None = Field(description="null without a key, or where nobody can say")
    partitions: int | None
    record: RecordView | None = Field(description="as a route would write it; null behind mirrors")
    subscriptions: list[SubscriptionVerdictView]
    untold: list[str] = Field(
        description="subscriptions that get it if the bindings of the exchange lead there"
    )


class EventNameView(BaseModel):
    """Null: a document in a format that is not read here does not say."""

    specversion: str | None
    id: str | None
    source: str | None
    type: str | None


class JourneyView(BaseModel):
    """One event: every rule that was asked, with its reason, and every place and subscription."""

    event: EventNameView
    accepted: bool
    refused: Problem | None = Field(description="the problem that the sender would be answered")
    routes: list[RouteVerdictView]
    key: KeyView | None
    hops: list[HopView]


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
