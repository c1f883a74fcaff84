"""A subscription as a user writes it, in the file and over the API alike."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

from pydantic import (
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from app.bindings.forwarding import is_wanted
from app.model.duration import Count, Duration, Size
from app.model.forwarding import ForwardHeaders
from app.model.pull import NOT_FOR_PULL, Pull
from app.model.rates import RateText
from app.model.route import (
    AttributeName,
    DataPointer,
    Exchange,
    Filter,
    FormatName,
    Name,
    RouteTarget,
    SpecVersion,
    Strict,
    Target,
)
from app.model.start import StartSetting
from app.model.webhook import ApiKey, Auth, Signing, StaticHeaders, Together, WebhookTls

DEFAULT_SCHEDULE = ("100ms", "500ms", "2s", "10s", "1m", "5m", "30m", "2h", "5h", "10h", "24h")


class Source(Strict):
    """Where the messages come from."""

    broker: Name = Field(description="a name under brokers")
    topics: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)] = Field(
        description="topics to read; names, not patterns"
    )


class Retry(Strict):
    """When a failed attempt is retried."""

    schedule: Annotated[tuple[Duration, ...], Field(min_length=1)] = Field(
        DEFAULT_SCHEDULE,
        validate_default=True,
        description="waits between attempts; each wait is random between 0 and its value",
    )
    hold: Annotated[Count, Field(ge=0)] = Field(
        3,
        description="how many of the first waits block the key in memory; then its events are "
        "parked in the store",
    )
    retry_after_max: Duration = Field(
        "24h", validate_default=True, description="longest Retry-After that is honoured"
    )
    statuses: tuple[Annotated[Count, Field(ge=400, le=599)], ...] = Field(
        (404, 408, 409, 425, 429),
        description="statuses that are retried; 5xx, time-outs and network faults always are",
    )


class Parking(Strict):
    """Events of keys that cannot be delivered for long, kept in the store."""

    max_rows: Annotated[Count, Field(ge=1)] = Field(
        100_000, description="most parked events of one worker; beyond, it reads no more events"
    )
    retention: Annotated[Duration, Field(gt=0)] = Field(
        "7d",
        validate_default=True,
        description="a parked event becomes a dead letter after this time, at its next turn; "
        "cause parked-too-long",
    )


class OrderBy(Strict):
    """``{pointer: /customer/id}``: for records of other producers, which have no key."""

    pointer: DataPointer = Field(
        description="JSON Pointer to a text, number or boolean in the data of the event"
    )


def _order_form(value: object) -> str:
    return "mapping" if isinstance(value, dict | OrderBy) else "word"


OrderSetting = Annotated[
    Annotated[AttributeName, Tag("word")] | Annotated[OrderBy, Tag("mapping")],
    Discriminator(_order_form),
]


def _sink_form(value: object) -> str:
    if isinstance(value, Pull) or (isinstance(value, dict) and "pull" in value):
        return "to be pulled"  # no tag is the name of a setting
    return "place" if isinstance(value, dict | Target | Exchange) else "url"


Sink = Annotated[
    Annotated[str, Field(pattern=r"^https?://[^/?#]"), Tag("url")]
    | Annotated[RouteTarget, Tag("place")]
    | Annotated[Pull, Tag("to be pulled")],
    Discriminator(_sink_form),
]
"""The URL of a webhook, a place on a broker as routes have them, or ``{pull: ...}``."""

_OF_WEBHOOKS = (
    *("signing", "auth", "tls", "handshake", "request_rate", "strict_webhook"),
    *("batch", "reply", "headers"),
)
IGNORE = "ignore"
TO_WEBHOOKS = ("traceparent", "tracestate")  # forwarded where a subscription does not say


class Subscription(Strict):
    """Delivers messages of a log to a webhook or, as a mirror, to a topic."""

    id: Name = Field(description="name of the subscription, part of its group's name")
    source: Source = Field(description="broker and topics of the messages")
    start: StartSetting = Field(
        "latest",
        description="earliest, latest, {time: ...} or {position: {...}}; used only at the first "
        "start",
    )
    filters: tuple[Filter, ...] = Field(
        (), description="all must match; an empty list matches everything"
    )
    sink: Sink = Field(
        description="URL that events are posted to; or {broker, topic}, a mirror, whose topic "
        "may be a template over attributes (on RabbitMQ also {broker, exchange, "
        "routing_key}); or {pull: {}}, for consumers that fetch their events"
    )
    content_mode: Literal["binary", "structured", "as_received"] = Field(
        "binary",
        description="content mode of the request or the record; the default with signing is "
        "structured, because a signature covers only the body",
    )
    format: FormatName = "as_received"
    specversion: SpecVersion = "as_received"
    forward_headers: ForwardHeaders | None = Field(
        None,
        description="forwarded headers of the message beside the event: names in lower case, or "
        "prefixes followed by *. Default: traceparent and tracestate to a webhook, "
        "all headers to a topic",
    )
    ordering: Literal["per_key", "per_producer_key", "none"] = Field(
        "per_key",
        description="per_key: one attempt per key at a time; per_producer_key: one per producer and key, so that "
        "an event of one producer that fails holds up no other's; none: no order",
    )
    order_by: OrderSetting | None = Field(
        None,
        description="attribute used as the key for ordering, or {pointer: /customer/id}, a value "
        "in the data; without it the record key. An event without the value has no order",
    )
    retry: Retry = Field(Retry(), description="when a failed attempt is retried")
    timeout: Annotated[Duration, Field(gt=0)] = Field(
        "15s", validate_default=True, description="time-out of one attempt, including the answer"
    )
    concurrency: Annotated[Count, Field(ge=1, le=10_000)] = Field(
        64, description="most attempts at once"
    )
    window: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(
        10_000, description="most messages between the commit position and the newest message read"
    )
    rate_limit: RateText | None = Field(
        None, description="most attempts in any span of time: 100/s, 600/min, 10000/h"
    )
    parked: Parking = Field(Parking(), description="bounds of events parked in the store")
    max_age: Annotated[Duration, Field(gt=0)] | None = Field(
        None, description="events stored in the log longer ago become dead letters, cause max-age"
    )
    expirytime: Literal["ignore", "honour"] = Field(
        "ignore",
        description="honour: an event past its attribute expirytime is finished without "
        "delivery and without a dead letter",
    )
    response_limit: Size = Field(
        "64KiB", validate_default=True, description="most bytes read of an answer"
    )
    on_foreign: Literal["dead_letter", "skip", "forward", "wrap"] = Field(
        "dead_letter",
        description="what happens to a record that is no CloudEvent; forward, only to a topic, "
        "copies it unchanged without filters; wrap makes it an event of type "
        "dev.skybridge.record, which filters see",
    )
    signing: Signing | None = Field(None, description="sign requests to the webhook")
    auth: Auth | None = Field(None, description="credentials for the webhook")
    headers: StaticHeaders = Field(
        {},
        description="headers of every request to the webhook: names in lower case, each with its "
        'value; values are hidden where settings are shown; best "${file:/path}" for a secret',
    )
    tls: WebhookTls | None = Field(None, description="TLS towards the webhook")
    handshake: Literal["off", "ask", "require"] = Field(
        "ask",
        description="ask the webhook for its consent (OPTIONS) before the first event: off, ask "
        "(and send without consent too), or require",
    )
    request_rate: Annotated[Count, Field(ge=1)] | None = Field(
        None, description="deliveries a minute that the handshake requests; without it, no bound"
    )
    strict_webhook: bool = Field(
        False,
        description="follow the webhook specification exactly: only https, and events without "
        "data or its content type are sent as documents",
    )
    batch: Together | None = Field(
        None, description="several events in one request, as application/cloudevents-batch+json"
    )
    reply: Name = Field(
        IGNORE,
        description="name of the route that publishes an event in a 2xx answer, or ignore",
    )
    dead_letter: Target | None = Field(None, description="also copy dead letters to this topic")
    paused: bool = Field(False, description="keep the position, deliver nothing")

    @model_validator(mode="before")
    @classmethod
    def signed_means_structured(cls, given: object) -> object:
        """The signature covers the body alone: the attributes belong there."""
        if isinstance(given, dict) and given.get("signing") and "content_mode" not in given:
            return {**given, "content_mode": "structured"}
        return given

    @property
    def forwarded_names(self) -> tuple[str, ...]:
        """Headers of the message that go onto a request: names, or beginnings with ``*`` behind."""
        return TO_WEBHOOKS if self.forward_headers is None else self.forward_headers

    @property
    def sink_text(self) -> str:
        """Where it goes, for a person."""
        if isinstance(self.sink, Pull):
            return "pull"
        return self.sink if isinstance(self.sink, str) else f"{self.sink.broker}/{self.sink.place}"

    @model_validator(mode="after")
    def only_topics_take_anything(self) -> Subscription:
        if self.on_foreign == "forward" and isinstance(self.sink, str | Pull):
            raise ValueError(
                "The setting on_foreign: forward needs a topic as sink, because a webhook accepts only events. "
                "Cure: Use dead_letter, skip or wrap."
            )
        return self

    @model_validator(mode="after")
    def only_webhooks_are_dressed(self) -> Subscription:
        if not isinstance(self.sink, str):
            for name in _OF_WEBHOOKS:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(
                        f"The setting {name} is only for webhooks: {self._unlike_a_webhook}. Cure: Remove it."
                    )
        return self

    @property
    def _unlike_a_webhook(self) -> str:
        if isinstance(self.sink, Pull):
            return "a pull subscription calls no target"
        return "the broker's settings apply to a topic"

    @model_validator(mode="after")
    def nothing_is_sent_where_it_is_pulled(self) -> Subscription:
        for name in NOT_FOR_PULL if isinstance(self.sink, Pull) else ():
            if getattr(self, name, None) != getattr(_with_defaults(), name, None):
                raise ValueError(
                    f"The setting {name} has no effect, because a pull subscription sends nothing. "
                    "Cure: Remove it, and see the settings of sink.pull."
                )
        return self

    @model_validator(mode="after")
    def format_has_batches(self) -> Subscription:
        if self.batch is not None and self.format == "avro":
            raise ValueError(
                "The format avro has no batches. Cure: Set format: json or protobuf, or remove batch."
            )
        return self

    @model_validator(mode="after")
    def headers_come_once(self) -> Subscription:
        """A producer of records must not be able to change a header that the subscription sets."""
        for name in self.headers:
            if is_wanted(name, self.forwarded_names):
                raise ValueError(
                    f"The header {name} of headers is also forwarded from the message. "
                    "Cure: Remove it from headers or from forward_headers."
                )
            if isinstance(self.auth, ApiKey) and self.auth.header == name:
                raise ValueError(
                    f"The header {name} of headers is also the header of auth. Cure: Remove it from headers."
                )
        return self

    @model_validator(mode="after")
    def order_fits(self) -> Subscription:
        if self.order_by == "data":
            raise ValueError(
                "The setting order_by names no attribute. Cure: Name an attribute, not data."
            )
        if self.order_by is not None and self.ordering == "none":
            raise ValueError(
                "The setting order_by has no effect with ordering: none. Cure: Remove one of the two."
            )
        return self


@lru_cache(maxsize=1)
def _with_defaults() -> Subscription:
    """One whose settings say nothing: what a default means when it is read."""
    source = Source(broker="any", topics=("any",))
    return Subscription(id="any", source=source, sink="https://any.example")
