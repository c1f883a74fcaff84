"""What the verbs of pull subscriptions take and answer, as OpenAPI shows it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from app.api.answers import MessageView

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
        description="at most so many; fewer are given where events are large",
    )
    max_wait: float = Field(
        10.0,
        ge=0,
        le=LONGEST_WAIT,
        allow_inf_nan=False,
        description="seconds to wait for the first of them; 0: look once",
    )


class Tokens(_Strict):
    tokens: list[Token] = Field(
        min_length=1, max_length=MOST_EVENTS, description="of the locks, as they were received"
    )


class Release(Tokens):
    delay: float = Field(
        0.0,
        ge=0,
        le=LONGEST_DELAY,
        allow_inf_nan=False,
        description="seconds until it is handed out again; what is behind it in order waits too",
    )


class Reject(Tokens):
    reason: str = Field("", max_length=500, description="kept with the dead letter, for a person")


class BrokerProperties(BaseModel):
    """Beside the event, never in it."""

    lock_token: str = Field(description="what acknowledge, release, reject and renew take")
    delivery_count: int = Field(description="how often it was handed out, this time included")
    traceparent: str | None = Field(
        None,
        description="of the trace that stored it, where there is one: the context to go on from",
    )
    tracestate: str | None = Field(None, description="what goes with it")


class Received(BaseModel):
    event: dict[str, Any] | None = Field(
        description="the CloudEvent in the JSON format; null where `record` stands for it"
    )
    broker_properties: BrokerProperties
    record: MessageView | None = Field(
        None, description="of a document in a format that is not read here: the record as it is"
    )


class ReceivedEvents(BaseModel):
    events: list[Received]
    lock: float = Field(description="seconds for which they are locked")


class Failed(BaseModel):
    token: str
    code: str = Field(examples=["lock-lost"])
    detail: str


class Fates(BaseModel):
    """Of each token that was given, once."""

    succeeded: list[str]
    failed: list[Failed]
