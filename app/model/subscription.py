"""The settings of a subscription, equal in configuration file and API."""

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
from app.model.outlet_presets import RequestSetting
from app.model.outlet_rules import contradictions, with_secret_sink
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
from app.model.webhook import ApiKey, Auth, SecretSink, Signing, StaticHeaders, Together, WebhookTls

DEFAULT_SCHEDULE = ("100ms", "500ms", "2s", "10s", "1m", "5m", "30m", "2h", "5h", "10h", "24h")


class Source(Strict):
    """The broker and the topics that a subscription reads."""

    broker: Name = Field(description="name of a broker under brokers")
    topics: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)] = Field(
        description="names of the topics to read, not patterns"
    )


class Retry(Strict):
    """The setting ``retry``: the waits before a failed attempt is retried."""

    schedule: Annotated[tuple[Duration, ...], Field(min_length=1)] = Field(
        DEFAULT_SCHEDULE,
        validate_default=True,
        description="waits between attempts; each actual wait is random between 0 and its value",
    )
    hold: Annotated[Count, Field(ge=0)] = Field(
        3,
        description="number of first waits during which the key is blocked in memory; then its events are "
        "parked in the store",
    )
    retry_after_max: Duration = Field(
        "24h", validate_default=True, description="longest Retry-After that is obeyed"
    )
    statuses: tuple[Annotated[Count, Field(ge=400, le=599)], ...] = Field(
        (404, 408, 409, 425, 429),
        description="answer statuses that are retried; 5xx, time-outs and network faults always are",
    )


class Parking(Strict):
    """The setting ``parked``: the limits of parked events, which wait in the store because their key cannot be
    delivered yet."""

    max_rows: Annotated[Count, Field(ge=1)] = Field(
        100_000, description="most parked events of one worker, which stops reading at this number"
    )
    retention: Annotated[Duration, Field(gt=0)] = Field(
        "7d",
        validate_default=True,
        description="time after which a parked event becomes a dead letter at its next attempt; "
        "cause parked-too-long",
    )


class OrderBy(Strict):
    """The setting ``order_by`` as a value in the data, for records without a key: ``{pointer: /customer/id}``."""

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
    if isinstance(value, SecretSink) or (isinstance(value, dict) and "url" in value):
        return "secret url"
    if isinstance(value, Pull) or (isinstance(value, dict) and "pull" in value):
        return "to be pulled"  # a tag must not be the name of a setting
    return "place" if isinstance(value, dict | Target | Exchange) else "url"


Sink = Annotated[
    Annotated[str, Field(pattern=r"^https?://[^/?#]"), Tag("url")]
    | Annotated[SecretSink, Tag("secret url")]
    | Annotated[RouteTarget, Tag("place")]
    | Annotated[Pull, Tag("to be pulled")],
    Discriminator(_sink_form),
]
"""The setting ``sink``: the URL of a webhook, also as ``{url: ..., secret: true}``, a target on a broker as in
routes, or ``{pull: ...}``."""

OF_WEBHOOKS = (
    *("signing", "auth", "tls", "handshake", "request_rate", "strict_webhook"),
    *("batch", "reply", "headers", "request"),
)
IGNORE = "ignore"
TO_WEBHOOKS = ("traceparent", "tracestate")  # forwarded to a webhook by default


class Subscription(Strict):
    """The delivery of a log's messages to one sink: a webhook, a topic (as a mirror) or a pull queue."""

    id: Name = Field(description="name of the subscription, part of its group's name")
    source: Source = Field(description="broker and topics of the messages")
    start: StartSetting = Field(
        "latest",
        description="where reading begins: earliest, latest, {time: ...} or {position: {...}}; used only at the first "
        "start",
    )
    filters: tuple[Filter, ...] = Field(
        (), description="conditions that must all hold; an empty list matches every event"
    )
    sink: Sink = Field(
        description="URL to which events are posted, as {url, secret: true} if it is a secret; or {broker, topic}, a mirror, whose topic "
        "may be a template with attributes (on RabbitMQ also {broker, exchange, "
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
        description="headers of the message that are forwarded next to the event: names in lower case, or "
        "prefixes followed by *. Default: traceparent and tracestate to a webhook, "
        "all headers to a topic",
    )
    sharing: Literal["none", "topic"] = Field(
        "none",
        description="topic: the subscriptions of one Kafka topic share one group membership, and their positions are "
        "in the store; for more than 50 of a topic",
    )
    ordering: Literal["per_key", "per_producer_key", "none"] = Field(
        "per_key",
        description="per_key: one attempt per key at a time; per_producer_key: one per producer and key, so that a failing "
        "event of one producer does not delay other producers; none: no order",
    )
    order_by: OrderSetting | None = Field(
        None,
        description="attribute used as the key for ordering, or {pointer: /customer/id}, a value "
        "in the data; absent: the record key. An event without the value has no order",
    )
    retry: Retry = Field(Retry(), description="retries of failed attempts")
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
    parked: Parking = Field(Parking(), description="limits of events parked in the store")
    max_age: Annotated[Duration, Field(gt=0)] | None = Field(
        None, description="age in the log at which events become dead letters, cause max-age"
    )
    expirytime: Literal["ignore", "honour"] = Field(
        "ignore",
        description="honour: an event after its attribute expirytime is finished without "
        "delivery and without a dead letter",
    )
    response_limit: Size = Field(
        "64KiB", validate_default=True, description="most bytes read of an answer"
    )
    on_foreign: Literal["dead_letter", "skip", "forward", "wrap"] = Field(
        "dead_letter",
        description="what happens to a record that is no CloudEvent; forward, only to a topic, "
        "copies it unchanged without filters; wrap puts it into an event of type "
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
        None, description="deliveries per minute that the handshake requests; absent: no limit"
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
    request: RequestSetting | None = Field(
        None,
        description="the request for a target that does not speak CloudEvents: {preset: slack, ...}, or method, path, "
        "query, headers and body as templates; without it, a CloudEvent",
    )
    dead_letter: Target | None = Field(None, description="also copy dead letters to this topic")
    paused: bool = Field(False, description="deliver nothing, and keep the position")

    @model_validator(mode="before")
    @classmethod
    def signed_means_structured(cls, given: object) -> object:
        """Set the content mode ``structured`` for signed CloudEvents by default: the signature covers only the body."""
        if not isinstance(given, dict) or "content_mode" in given:
            return given
        signed = given.get("signing") and not given.get("request")  # a request has no content mode
        return {**given, "content_mode": "structured"} if signed else given

    @model_validator(mode="before")
    @classmethod
    def url_of_a_preset_is_secret(cls, given: object) -> object:
        """Hide the URL of a webhook if the ``request`` of the subscription has a preset."""
        return with_secret_sink(given) if isinstance(given, dict) else given

    @property
    def forwarded_names(self) -> tuple[str, ...]:
        """Return the message headers that go into a request: names, or prefixes that end with ``*``."""
        return TO_WEBHOOKS if self.forward_headers is None else self.forward_headers

    @property
    def retried_statuses(self) -> frozenset[int]:
        """Return the statuses of ``retry``."""
        return frozenset(self.retry.statuses)

    @property
    def queue_bound(self) -> int | None:
        """Return the most events that its pull queue holds, or None if it is not a pull subscription."""
        return self.sink.pull.max_waiting if isinstance(self.sink, Pull) else None

    @property
    def sink_text(self) -> str:
        """Return the sink as text for people."""
        match self.sink:
            case Pull():
                return "pull"
            case SecretSink() as sink:
                return sink.shown
            case str(url):
                return url
            case target:
                return f"{target.broker}/{target.place}"

    @property
    def webhook_url(self) -> str:
        """Return the URL of the webhook, which may be a secret; empty for another sink."""
        if isinstance(self.sink, SecretSink):
            return self.sink.url.get_secret_value()
        return self.sink if isinstance(self.sink, str) else ""

    @property
    def hides_sink(self) -> bool:
        """Return True if the URL of the webhook is a secret."""
        return isinstance(self.sink, SecretSink)

    @model_validator(mode="after")
    def only_topics_take_anything(self) -> Subscription:
        if self.on_foreign == "forward" and isinstance(self.sink, str | SecretSink | Pull):
            raise ValueError(
                "The setting on_foreign: forward needs a topic as sink, because foreign messages are no events and a webhook gets only events. "
                "Cure: Set on_foreign to dead_letter, skip or wrap."
            )
        return self

    @model_validator(mode="after")
    def only_webhooks_are_dressed(self) -> Subscription:
        if not self.webhook_url:
            for name in OF_WEBHOOKS:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(
                        f"The setting {name} is only for webhooks, because {self._unlike_a_webhook}. Cure: Remove {name}."
                    )
        return self

    @property
    def _unlike_a_webhook(self) -> str:
        if isinstance(self.sink, Pull):
            return "a pull subscription calls no target"
        return "the settings of the broker apply to a topic"

    @model_validator(mode="after")
    def nothing_is_sent_where_it_is_pulled(self) -> Subscription:
        for name in NOT_FOR_PULL if isinstance(self.sink, Pull) else ():
            if getattr(self, name, None) != getattr(_with_defaults(), name, None):
                raise ValueError(
                    f"The setting {name} has no effect, because a pull subscription sends nothing. "
                    f"Cure: Remove {name}. The settings of a pull subscription are under sink.pull."
                )
        return self

    @model_validator(mode="after")
    def format_has_batches(self) -> Subscription:
        if self.batch is not None and self.format == "avro":
            raise ValueError(
                "The format avro has no batches, but the setting batch needs them. Cure: Set format: json or protobuf, or remove batch."
            )
        return self

    @model_validator(mode="after")
    def request_fits(self) -> Subscription:
        """Refuse settings that contradict ``request``, all of them at once."""
        if self.request is not None and (faults := [*contradictions(self.request, self)]):
            raise ValueError(" ".join(faults))
        return self

    @model_validator(mode="after")
    def headers_come_once(self) -> Subscription:
        """Refuse a forwarded header that the subscription sets itself. Otherwise the producer of a record could
        change its value."""
        for name in self.headers:
            if is_wanted(name, self.forwarded_names):
                raise ValueError(
                    f"The header {name} is set in headers, and forward_headers also takes it from the message. "
                    "Cure: Remove the header from headers or from forward_headers."
                )
            if isinstance(self.auth, ApiKey) and self.auth.header == name:
                raise ValueError(
                    f"The header {name} is set in headers and also by auth. Cure: Remove the header from headers."
                )
        return self

    @model_validator(mode="after")
    def order_fits(self) -> Subscription:
        if self.order_by == "data":
            raise ValueError(
                "The setting order_by names data, which is no attribute. Cure: Name an attribute, for example subject."
            )
        if self.order_by is not None and self.ordering == "none":
            raise ValueError(
                "The setting order_by has no effect with ordering: none. Cure: Remove order_by or ordering."
            )
        return self


@lru_cache(maxsize=1)
def _with_defaults() -> Subscription:
    """Return a subscription with default settings, for comparison."""
    source = Source(broker="any", topics=("any",))
    return Subscription(id="any", source=source, sink="https://any.example")
