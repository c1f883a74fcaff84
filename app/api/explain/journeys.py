"""The answer of ``/v1/explain``: the journey of an event as JSON, and its OpenAPI models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs
from pydantic import BaseModel, Field

from app.access.rights import NotAllowed, Rights
from app.api.http import problems
from app.api.http.views import CopyingView, FaultView, Problem
from app.api.topics import messages
from app.api.topics.answers import RecordView
from app.bindings.record import Decoded
from app.model.subscription_status import SubscriptionStatus
from app.routing.hops import JourneyHop, Steps, SubscriptionVerdict, finish
from app.routing.journey import EventExplainer, Journey
from app.routing.partitions import partition_of

Partitions = Mapping[tuple[str, str], int]
"""The number of partitions by broker and topic. Topics whose number is unknown are missing."""


def steps_as(
    guide: EventExplainer,
    decoded: Decoded,
    key: bytes | None,
    route: str | None,
    rights: Rights | None,
    as_from: str | None = None,
) -> Steps[Journey]:
    """Explain an event that a producer with these rights sends, in steps. None for the rights means
    that they do not count. See ``EventExplainer.steps`` for the other parameters and the errors.
    """
    filtered = rights is not None and rights.limited
    journey = yield from guide.steps(decoded, key, route, as_from, filtered=filtered)
    if rights is None or as_from is not None:
        return journey
    return _restricted(journey, decoded.own_attributes, rights, route)


def explain_as(
    guide: EventExplainer,
    decoded: Decoded,
    key: bytes | None,
    route: str | None,
    rights: Rights | None,
    as_from: str | None = None,
) -> Journey:
    """Explain an event as ``steps_as`` does, without yielding between steps."""
    return finish(steps_as(guide, decoded, key, route, rights, as_from))


def _restricted(
    journey: Journey, attributes: Mapping[str, str], rights: Rights, named: str | None
) -> Journey:
    """Return the journey of an event that a producer with these rights sends. It ends with a refusal if the
    rights forbid the event, its route or its key.

    Args:
        journey: The journey without regard to rights.
        attributes: The attributes of the event, as it was sent.
        rights: The rights of the producer.
        named: The route that the request names, or None.
    """
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
    """The result of one filter for the event, and the part of the filter that decided it."""

    dialect: str = Field(description="dialect of the filter, such as exact or sql")
    passes: bool = Field(description="true if the event meets the filter")
    decided_by: str = Field(description="part of the filter that decided")
    because: str = Field(description="values of the event that the filter read, clipped")
    inner: list[FilterView] = Field([], description="filters inside all, any and not")


class RouteVerdictView(BaseModel):
    """A route and its decision about the event."""

    name: str = Field(description="name of the route")
    chosen: bool = Field(description="true if this route takes the event")
    asked: bool = Field(
        description="false if its filters were not evaluated, because an earlier route matched or the request "
        "named a route"
    )
    filters: list[FilterView] = Field(description="result of each filter")
    invalid: list[FaultView] = Field(
        [], description="faults of the data against the schema of the route"
    )
    why: str = Field(
        description="why the route takes the event, if not by its filters alone; otherwise empty"
    )


class KeyView(CopyingView):
    """The key of the record, and how it was computed."""

    mapper: str = Field(description="key mapper of the route")
    key: str | None = Field(description="key as text; null if there is none or it is not UTF-8")
    key_base64: str | None = Field(None, description="key that is not UTF-8")
    why: str = Field(description="where the key comes from, in words")
    refused: bool = Field(
        description="true if the event is refused with 400, because the route needs a key and it has none"
    )


class ShapedRequestView(CopyingView):
    """The request that a subscription would send to a target that does not speak CloudEvents."""

    method: str
    url: str = Field(description="URL; without path and query if they are a secret")
    headers: list[tuple[str, str]] = Field(description="name and value of each header")
    body: str = Field(description="body; secrets are hidden")


class SubscriptionVerdictView(CopyingView):
    """A subscription of the topic, and its decision about the event."""

    id: str = Field(description="id of the subscription")
    wants: bool = Field(description="true if the event meets its filters")
    sink: str = Field(description="sink to which it delivers")
    state: str | None = Field(
        description="state of the subscription in this process, such as running or paused"
    )
    paused_for: float | None = Field(
        description="seconds until the next probe of the endpoint; null if it is not at fault"
    )
    lane: str | None = Field(description="key of the lane in which the event is delivered")
    fault: str | None = Field(description="why the subscription cannot deliver the event")
    filters: list[FilterView] = Field(description="result of each filter")
    onward: HopView | None = Field(description="topic to which a mirror copies the event")
    request: ShapedRequestView | None = Field(
        description="shaped request to the sink; null if the subscription sends CloudEvents"
    )


class HopView(CopyingView):
    """A topic that receives the event."""

    broker: str = Field(description="name of the broker")
    kind: str = Field(description="kind of the broker: embedded, kafka, rabbitmq or pulsar")
    topic: str = Field(description="name of the topic")
    by: str = Field(description="route or mirror that publishes the event to the topic")
    key: str | None = Field(description="key as text; null if there is none or it is not UTF-8")
    key_base64: str | None = Field(None, description="key that is not UTF-8")
    partition: int | None = Field(
        description="partition of the event; null without a key, or if unknown"
    )
    partitions: int | None = Field(description="number of partitions of the topic; null if unknown")
    record: RecordView | None = Field(
        description="record that a route would write; null for the topic of a mirror"
    )
    subscriptions: list[SubscriptionVerdictView] = Field(description="subscriptions of the topic")
    untold: list[str] = Field(
        description="subscriptions that receive the event if the exchange is bound to their topics"
    )


class EventNameView(BaseModel):
    """The attributes that identify the event. Each is null if the document has a format that Skybridge cannot
    read."""

    specversion: str | None = Field(description="attribute specversion")
    id: str | None = Field(description="attribute id")
    source: str | None = Field(description="attribute source")
    type: str | None = Field(description="attribute type")


class JourneyView(BaseModel):
    """The journey of one event: every evaluated route with its reason, and every topic and subscription that
    receives it."""

    event: EventNameView = Field(description="attributes that identify the event")
    accepted: bool = Field(description="true if the event would be accepted")
    refused: Problem | None = Field(description="problem that the sender would receive")
    needs_producer: bool = Field(
        description="true if the rights of no producer were checked, although a request without the credential of "
        "a producer is answered 401"
    )
    routes: list[RouteVerdictView] = Field(description="every route and its decision")
    key: KeyView | None = Field(
        description="key of the record, and how it was computed; null if no route takes the event"
    )
    hops: list[HopView] = Field(description="topics that receive the event")
    outside: list[HopView] = Field(
        [],
        description="topics that subscriptions read and no route or mirror writes to, in case another client "
        "writes the event there",
    )


def to_json(
    journey: Journey,
    kinds: Mapping[str, str],
    partitions: Partitions,
    states: Mapping[str, SubscriptionStatus],
    *,
    needs_producer: bool = False,
) -> dict[str, Any]:
    """Return the members of ``JourneyView`` for a journey. ``states`` has the status of each subscription that
    the service runs, by id."""
    attributes, refused = journey.event.attributes, journey.refused
    return {
        "event": {name: attributes.get(name) for name in EventNameView.model_fields},
        "accepted": refused is None,
        "needs_producer": needs_producer,
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
    """A converter of the topics that an event passes (its hops) to JSON."""

    def __init__(
        self,
        kinds: Mapping[str, str],
        partitions: Partitions,
        states: Mapping[str, SubscriptionStatus],
    ) -> None:
        self._kinds, self._partitions, self._states = kinds, partitions, states

    def hop(self, hop: JourneyHop) -> dict[str, Any]:
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
        status = self._states.get(verdict.id)
        return SubscriptionVerdictView.members(
            verdict,
            state=None if status is None else status.state,
            paused_for=None if status is None else status.paused_for,
            lane=verdict.lane or None,
            fault=verdict.fault or None,
            filters=msgspec.to_builtins(verdict.filters),
            onward=None if verdict.onward is None else self.hop(verdict.onward),
            request=None if verdict.request is None else msgspec.to_builtins(verdict.request),
        )
