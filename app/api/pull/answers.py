"""What the verbs of pull subscriptions take and answer, as OpenAPI shows it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from app.api.topics.answers import MessageView

MOST_EVENTS = 1_000
LONGEST_WAIT = 60.0  # seconds
LONGEST_DELAY = 3_600.0

Token = Annotated[str, Field(min_length=1, max_length=200)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Receive(_Strict):
    """How many events, and how long to wait where there are none. All of it may be left out."""

    max_events: int = Field(
        1,
        ge=1,
        le=MOST_EVENTS,
        description="most events; fewer are returned if events are large",
    )
    max_wait: float = Field(
        10.0,
        ge=0,
        le=LONGEST_WAIT,
        allow_inf_nan=False,
        description="seconds to wait for the first event; 0: do not wait",
    )


class Tokens(_Strict):
    tokens: list[Token] = Field(
        min_length=1, max_length=MOST_EVENTS, description="tokens of the locks, as received"
    )


class Release(Tokens):
    delay: float = Field(
        0.0,
        ge=0,
        le=LONGEST_DELAY,
        allow_inf_nan=False,
        description="seconds until it is handed out again; later events of its key wait too",
    )


class Reject(Tokens):
    reason: str = Field("", max_length=500, description="kept with the dead letter, for people")


class BrokerProperties(BaseModel):
    """Properties beside the event, never in it."""

    lock_token: str = Field(description="the token for acknowledge, release, reject and renew")
    delivery_count: int = Field(description="how often it was handed out, including this time")
    traceparent: str | None = Field(
        None,
        description="trace context of the record, if it has one, to continue the trace",
    )
    tracestate: str | None = Field(None, description="properties of the delivery")


class Received(BaseModel):
    event: dict[str, Any] | None = Field(
        description="the CloudEvent in the JSON format; null if `record` is set"
    )
    broker_properties: BrokerProperties
    record: MessageView | None = Field(
        None,
        description="the unchanged record, if it is a document in a format that Skybridge "
        "cannot read",
    )


class ReceivedEvents(BaseModel):
    events: list[Received]
    lock: float = Field(description="seconds for which they are locked")


class Failed(BaseModel):
    token: str
    code: str = Field(examples=["lock-lost"])
    detail: str


class Fates(BaseModel):
    """The result of each token, once."""

    succeeded: list[str]
    failed: list[Failed]
