"""Requests and answers of the operations of pull subscriptions, as OpenAPI shows them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from app.api.topics.answers import MessageView

MOST_EVENTS = 1_000
LONGEST_WAIT = 60.0  # seconds
LONGEST_DELAY = 3_600.0  # seconds

Token = Annotated[str, Field(min_length=1, max_length=200)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Receive(_Strict):
    """The number of events to receive, and the time to wait for the first. Every member may be absent."""

    max_events: int = Field(
        1,
        ge=1,
        le=MOST_EVENTS,
        description="maximum number of events; fewer are returned if events are large",
    )
    max_wait: float = Field(
        10.0,
        ge=0,
        le=LONGEST_WAIT,
        allow_inf_nan=False,
        description="seconds to wait for the first event; 0 returns at once",
    )


class Tokens(_Strict):
    """Locked events, by their lock tokens."""

    tokens: list[Token] = Field(
        min_length=1, max_length=MOST_EVENTS, description="lock tokens, as receive returned them"
    )


class Release(Tokens):
    """Locked events to give back."""

    delay: float = Field(
        0.0,
        ge=0,
        le=LONGEST_DELAY,
        allow_inf_nan=False,
        description="seconds until the events can be received again; later events of their keys wait too",
    )


class Reject(Tokens):
    """Locked events to give up as dead letters."""

    reason: str = Field("", max_length=500, description="stored with the dead letter, for people")


class BrokerProperties(BaseModel):
    """Properties of a received event, separate from the event itself."""

    lock_token: str = Field(description="token for acknowledge, release, reject and renew")
    delivery_count: int = Field(description="how often the event was received, including this time")
    traceparent: str | None = Field(
        None,
        description="W3C trace context of the record, to continue its trace; null if it has none",
    )
    tracestate: str | None = Field(None, description="W3C trace state of the record")


class Received(BaseModel):
    """One received event, or the raw record if it cannot be decoded."""

    event: dict[str, Any] | None = Field(
        description="the CloudEvent in the JSON event format; null if `record` is set"
    )
    broker_properties: BrokerProperties = Field(description="properties of the delivery")
    record: MessageView | None = Field(
        None,
        description="the unchanged record, if it is a document in a format that Skybridge "
        "cannot read",
    )


class ReceivedEvents(BaseModel):
    """Received events. Each is locked for this consumer."""

    events: list[Received] = Field(description="the received events")
    lock: float = Field(description="seconds for which the events are locked")


class Failed(BaseModel):
    """A lock token for which the operation failed."""

    token: str = Field(description="the lock token")
    code: str = Field(description="kind of the failure, for programs", examples=["lock-lost"])
    detail: str = Field(description="the failure in words, for people")


class Fates(BaseModel):
    """The result for each lock token. A repeated token is listed once."""

    succeeded: list[str] = Field(description="lock tokens for which the operation succeeded")
    failed: list[Failed] = Field(description="lock tokens for which it failed, with the cause")
