"""The configuration as a pydantic model: every setting with its meaning and its default.

The descriptions are the reference, which ``skybridge schema`` prints and editors show. A setting
that does not exist is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from app.config.model.brokers import Broker
from app.config.model.operator import Operator
from app.config.model.parts import Port
from app.config.model.parts import ServerTls as ServerTls  # noqa: PLC0414 - part of the model
from app.config.model.pipeline import Pipeline
from app.config.model.store import SqliteStore, Store
from app.config.model.telemetry import Telemetry
from app.event.masking import is_mask
from app.model.alert import Alert
from app.model.duration import Count, Duration, Size
from app.model.forwarding import ForwardedNames
from app.model.intake import Intake
from app.model.producer import Patterns, Producer
from app.model.quota import EventQuota
from app.model.route import Name, Route, Strict, Target
from app.model.scopes import Scope
from app.model.secret import FileSecret, Secret, Token
from app.model.subscription import Subscription

MIN_BODY = (
    87_819  # 64 KiB times 1.34: an event of 64 KiB must pass (core: size limits), also as base64
)
MIN_HEADERS = 192 << 10  # the same event made of headers, each byte percent-encoded
MIN_TOKEN = 16  # characters of an admin token, so that it cannot be guessed

Origin = Annotated[str, Field(pattern=r"^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)$")]
"""The DNS name of a sending system (webhook specification 4.1), or ``*`` for any."""


class Events(Strict):
    """The listener that accepts events."""

    host: str = Field("127.0.0.1", description="address to listen on; 0.0.0.0 for all")
    port: Port = Field(8080, description="port to listen on; 0 takes a free one")
    reuse_port: bool = Field(
        False,
        description="let other gateways of this installation listen on the same port; the system spreads "
        "connections over them (SO_REUSEPORT, Linux)",
    )
    access: Literal["producers", "open"] | None = Field(
        None,
        description="producers: only a producer may send, see producers; open: every client that reaches "
        "the listener. Off loopback one of the two must be set; on loopback the default is open",
    )
    address_quota: EventQuota | None = Field(
        None,
        description="with open access, how many events the clients of one address that are no "
        "producers may send; without it, any number",
    )
    tls: ServerTls | None = Field(None, description="serve https")
    strict_percent: bool = Field(
        False,
        description="answer 400 to a malformed % or a stray quote in a header, instead of keeping it",
    )
    unknown_formats: Literal["forward", "refuse"] = Field(
        "forward",
        description="events in a format that Skybridge cannot read: forward them unchanged, or "
        "answer 415",
    )
    forward_headers: ForwardedNames = Field(
        ("traceparent", "tracestate"),
        description="request headers, in lower case, that are stored with the event; they are "
        "never attributes",
    )
    allowed_origins: Annotated[tuple[Origin, ...], Field(min_length=1)] = Field(
        ("*",),
        description="origins that the webhook handshake (OPTIONS) accepts; * is all. This "
        "informs senders and protects nothing: see access",
    )
    allowed_rate: Annotated[Count, Field(ge=1)] | None = Field(
        None, description="requests a minute that the handshake allows; without it, any"
    )


class AdminToken(Strict):
    """A token of the admin listener with limited rights."""

    name: Name = Field(description="name of the token, as the audit shows it")
    token: Token = Field(
        description=f'bearer token, of at least {MIN_TOKEN} characters; best "${{file:/path}}"'
    )
    previous_token: Token | None = Field(
        None, description="the token before it, which still works until it is removed"
    )
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)] = Field(
        description="what it may do; no scope includes another"
    )
    subscriptions: Patterns | None = Field(
        None,
        description="ids of the subscriptions that it reaches, or prefixes with *; without it, any",
    )
    topics: Patterns | None = Field(
        None,
        description="topics that it reaches, also by a subscription: a name, BROKER/NAME, or a prefix with "
        "*; without it, any",
    )
    owner: Literal["kubernetes"] | None = Field(
        None,
        description="kubernetes: for the role operator; the subscriptions that it writes belong to Kubernetes "
        "objects, and it changes no others",
    )
    event_sources: Patterns | None = Field(
        None,
        description="values of source that events may have which it publishes, or prefixes with *; "
        "without it, any",
    )


def _is_mask(pointer: str) -> str:
    if not is_mask(pointer):
        raise ValueError(
            "The value is not a JSON Pointer into the data. Cure: Write for example /customer/email."
        )
    return pointer


class Admin(Strict):
    """The listener for operators: health, status, metrics, API."""

    host: str = Field("127.0.0.1", description="address to listen on; off loopback needs a token")
    port: Port = Field(8081, description="port to listen on; 0 takes a free one")
    token: Token | None = Field(
        None,
        description=f'bearer token with every scope, of at least {MIN_TOKEN} characters; best "${{env:NAME}}"',
    )
    tokens: tuple[AdminToken, ...] = Field((), description="more tokens, each with its scopes")
    mask: tuple[Annotated[str, AfterValidator(_is_mask)], ...] = Field(
        (),
        description="JSON Pointers into event data; * means every item of an array and every member of "
        "an object. Callers without the scope data see JSON data with these values hidden; without a mask "
        "they see no data",
    )
    console: bool = Field(True, description="serve the console, a page for browsers, at /console/")
    public_url: Annotated[str, Field(pattern=r"^https?://[^/?#]+[^?#]*$")] | None = Field(
        None,
        description="URL of this listener as people reach it; alerts have links to the console below it",
    )
    tls: ServerTls | None = Field(None, description="serve https")


class Server(Strict):
    """The two listeners."""

    events: Events = Field(Events(), description="the listener for events")
    admin: Admin = Field(Admin(), description="the listener for operators")


class Limits(Strict):
    """Limits. A reached limit pauses reading, or requests are answered 4xx or 503; no event is
    lost. Limits of requests and connections apply to each listener separately.
    """

    body: Annotated[Size, Field(ge=MIN_BODY)] = Field(
        "1MiB", validate_default=True, description="most bytes of a request body; beyond: 413"
    )
    header_bytes: Annotated[Size, Field(ge=MIN_HEADERS)] = Field(
        "256KiB", validate_default=True, description="most bytes of a request head; beyond: 431"
    )
    header_fields: Annotated[Count, Field(ge=16)] = Field(
        256, description="most header fields of a request; beyond: 431"
    )
    max_batch: Annotated[Count, Field(ge=1)] = Field(1000, description="most events of one batch")
    requests_per_connection: Annotated[Count, Field(ge=1)] = Field(
        16, description="most unfinished requests of one connection; beyond, reading pauses"
    )
    keep_alive_requests: Annotated[Count, Field(ge=0)] = Field(
        1000,
        description="answers of one connection after which it is closed, with Connection: close in the last "
        "one, so that senders spread over new processes; 0: any number. A sender that always has "
        "requests under way keeps its connection",
    )
    receiving: Annotated[Size, Field(ge=MIN_BODY)] = Field(
        "256MiB",
        validate_default=True,
        description="most bytes of requests whose body is unfinished, over all connections; beyond: 503. Half "
        "is for authenticated producers, a quarter is divided among the intakes and requests of unknown senders, "
        "and a quarter is common",
    )
    connections: Annotated[Count, Field(ge=1)] = Field(
        10_000,
        description="most open connections of a listener; one more is answered 503 and closed, "
        "or with TLS just closed",
    )
    requests_in_flight: Annotated[Count, Field(ge=1)] = Field(
        10_000, description="most requests that wait for a log; beyond: 503"
    )
    in_flight_records: Annotated[Count, Field(ge=1)] = Field(
        50_000, description="most records sent to one broker and not answered yet"
    )
    in_flight_bytes: Annotated[Size, Field(ge=1)] = Field(
        "64MiB", validate_default=True, description="most bytes of these records"
    )
    subscriptions: Annotated[Count, Field(ge=0)] = Field(
        1000, description="most subscriptions created by the API; beyond: 409"
    )
    subscription_bytes: Annotated[Size, Field(ge=1024)] = Field(
        "64KiB",
        validate_default=True,
        description="most bytes of the document of a subscription; beyond: 413",
    )
    deliveries_in_flight: Annotated[Count, Field(ge=1)] = Field(
        2_000,
        description="most attempts on the wire, shared fairly by the subscriptions of a process",
    )
    held_bytes: Annotated[Size, Field(ge=1)] = Field(
        "256MiB",
        validate_default=True,
        description="most bytes of events read and not delivered, shared fairly by the "
        "subscriptions of a process",
    )


Timeout = Annotated[Duration, Field(gt=0)]


class Timeouts(Strict):
    """Time-outs. The total time of a webhook attempt is ``timeout`` of its subscription."""

    request_head: Timeout = Field(10.0, description="to receive the head of a request; beyond: 408")
    request_body: Timeout = Field(30.0, description="to receive the body of a request; beyond: 408")
    keep_alive: Timeout = Field(75.0, description="an idle connection is closed after this time")
    publish: Timeout = Field(
        10.0,
        description="for a broker to store an event; beyond: 503 with Retry-After, outcome unknown",
    )
    store: Timeout = Field(5.0, description="for the store to answer; beyond: the step is retried")
    not_ready: Duration = Field(
        5.0, description="after SIGTERM: not ready, still accepting; then the drain begins"
    )
    drain: Timeout = Field(
        25.0, description="then: time to finish work in progress; beyond: the rest is released"
    )
    webhook_dns: Timeout = Field(
        2.0,
        description="to resolve a webhook's host name; beyond: the subscription pauses, and no retry is used",
    )
    webhook_connect: Timeout = Field(
        3.0,
        description="to connect to a webhook, TLS included; beyond: the subscription pauses, and no retry is used",
    )
    webhook_token: Timeout = Field(
        10.0,
        description="to get an access token for a webhook; beyond: the subscription pauses, and no retry is used",
    )
    webhook_handshake: Timeout = Field(
        10.0,
        description="for the validation handshake; beyond: no consent, and with handshake: ask events are sent anyway",
    )


def _proxy(url: FileSecret) -> FileSecret:
    """Check the URL of a proxy. The message does not repeat it, because it may have a password."""
    from app.sinks.http_connect import read_proxy_url  # noqa: PLC0415 - few installations have a proxy

    text = url.get_secret_value()
    if not text.startswith(("http://", "https://")):
        raise ValueError("The value is not a URL. Cure: Begin the value with http:// or https://.")
    try:
        read_proxy_url(text)
    except ValueError:
        raise ValueError(
            "The value is not the URL of a proxy. Cure: Write for example http://proxy:3128."
        ) from None
    return url


ProxyUrl = Annotated[Secret, AfterValidator(_proxy)]


ConfigurableTarget = Annotated[
    str,
    Field(
        pattern=r"^([^\s/:@?#]+(/\d{1,3})?|[0-9A-Fa-f:.]+(/\d{1,3})?|https?://[^\s/*?#@]+(/[^\s*]*\*?)?)$"
    ),
]
"""A host, a network, or a URL. A URL may end with ``*``, which matches any rest of its path."""


class Webhooks(Strict):
    """Settings of all webhooks."""

    allow_private: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (),
        description="private networks (10.0.0.0/8) and hosts (*.svc.cluster.local) that "
        "webhooks may have; plain http is allowed only to these",
    )
    configurable_targets: tuple[ConfigurableTarget, ...] | None = Field(
        None,
        description="targets that a token without the scope data may give a subscription: hosts (*.example.com), "
        "networks (10.0.0.0/8), or URLs with * at the end; [] is none; without it, any",
    )
    origin: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")] | None = Field(
        None,
        description="DNS name of this system, as webhooks know it in the handshake; without it, "
        "installation",
    )
    callback: Annotated[str, Field(pattern=r"^https?://[^/?#]")] | None = Field(
        None,
        description="URL of the events listener as webhooks reach it, for consent given later",
    )
    proxy: ProxyUrl | None = Field(
        None,
        description="URL of a proxy for all requests to webhooks, http://proxy:3128; the proxy "
        "must then refuse private addresses",
    )


class Logging(Strict):
    """The log of Skybridge on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="the lowest level that is written"
    )
    format: Literal["text", "json"] = Field("text", description="for people or for machines")


class Reload(Strict):
    """The automatic reload of this file by a running service. SIGHUP and ``POST /v1/config:reload``
    always reload it.
    """

    watch: Duration = Field(
        5.0, description="time between checks of the file for changes; 0s: never"
    )


class Config(Strict):
    """One installation of Skybridge."""

    version: Literal[1] = Field(description="version of this file's format: 1")
    installation: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")] = Field(
        "skybridge",
        description="part of every consumer group's name; differs between installations",
    )
    server: Server = Field(Server(), description="the two listeners")
    store: Store = Field(
        SqliteStore(kind="sqlite", path=Path("./skybridge-data/store.db")),
        description="keeps parked messages, dead letters, attempts and subscriptions of the API",
    )
    brokers: Annotated[dict[Name, Broker], Field(min_length=1)] = Field(
        description="the logs that events are published to and read from, by name"
    )
    routes: tuple[Route, ...] = Field((), description="where events go; the first match wins")
    intakes: tuple[Intake, ...] = Field(
        (), description="webhooks of others, whose requests become events: POST /in/{name}"
    )
    producers: tuple[Producer, ...] = Field(
        (), description="senders of events: how each is known, what it may send, and how much"
    )
    subscriptions: tuple[Subscription, ...] = Field(
        (), description="selections of events, each with its target"
    )
    operator_events: Target | None = Field(
        None,
        description="topic of CloudEvents for operators: disabled, paused or late "
        "subscriptions, and dead letters",
    )
    alerts: tuple[Alert, ...] = Field(
        (), description="channels to which Skybridge reports what needs a person"
    )
    webhooks: Webhooks = Field(Webhooks(), description="settings of all webhooks")
    operator: Operator | None = Field(
        None,
        description="subscriptions as Kubernetes objects, which the process skybridge operator writes",
    )
    pipeline: Pipeline = Field(
        Pipeline(), description="the data pipeline on Spark: events into a lake and out of it"
    )
    limits: Limits = Field(Limits(), description="bounds")
    timeouts: Timeouts = Field(Timeouts(), description="time-outs")
    log: Logging = Field(Logging(), description="the log on standard error")
    reload: Reload = Field(Reload(), description="changes of this file while the service runs")
    telemetry: Telemetry = Field(Telemetry(), description="data for a collector")
