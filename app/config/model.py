"""The configuration as a value: every setting with its meaning and its default.

The descriptions are the reference: ``skybridge schema`` prints them, editors show them. What a later
version of Skybridge will know is refused here until it works.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from app.config.brokers import Broker
from app.config.parts import Port
from app.config.parts import ServerTls as ServerTls  # noqa: PLC0414 - part of the model
from app.config.pipeline import Pipeline
from app.config.store import SqliteStore, Store
from app.config.telemetry import Telemetry
from app.model.duration import Count, Duration, Size
from app.model.forwarding import ForwardedNames
from app.model.route import Name, Route, Strict, Target
from app.model.secret import FileSecret, Secret
from app.model.subscription import Subscription

MIN_BODY = 87_819  # 64 KiB times 1.34: an event of 64 KiB must pass (I1), its data in base64 too
MIN_HEADERS = 192 << 10  # the same event made of headers, each byte percent-encoded
MIN_TOKEN = 16  # characters of the admin token, which nobody may guess

Origin = Annotated[str, Field(pattern=r"^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)$")]
"""A DNS name that stands for a sending system as a whole (webhook specification), or ``*``."""


class Events(Strict):
    """The listener that takes events."""

    host: str = Field("127.0.0.1", description="address to listen on; 0.0.0.0 for all")
    port: Port = Field(8080, description="port to listen on; 0 takes a free one")
    reuse_port: bool = Field(
        False,
        description="let other gateways of this installation listen on the same port; the system spreads "
        "connections over them (SO_REUSEPORT, Linux)",
    )
    tls: ServerTls | None = Field(None, description="serve https")
    strict_percent: bool = Field(
        False,
        description="answer 400 to a malformed % or a stray quote in a header, instead of keeping it",
    )
    unknown_formats: Literal["forward", "refuse"] = Field(
        "forward",
        description="events in a format that is not read here: passed on untouched, or answered 415",
    )
    forward_headers: ForwardedNames = Field(
        ("traceparent", "tracestate"),
        description="request headers, in lower case, that are kept beside the event: never of it",
    )
    allowed_origins: Annotated[tuple[Origin, ...], Field(min_length=1)] = Field(
        ("*",),
        description="origins that the webhook handshake (OPTIONS) consents to; * is all. It tells senders what is "
        "welcome and restricts nobody: whatever reaches the listener may post",
    )
    allowed_rate: Annotated[Count, Field(ge=1)] | None = Field(
        None, description="requests a minute that the handshake allows; without it, any"
    )


class Admin(Strict):
    """The listener for operators: health, status, metrics, API."""

    host: str = Field("127.0.0.1", description="address to listen on; off loopback needs a token")
    port: Port = Field(8081, description="port to listen on; 0 takes a free one")
    token: SecretStr | None = Field(
        None,
        description=f'bearer token that callers must show, of at least {MIN_TOKEN} characters; best "${{env:NAME}}"',
    )
    tls: ServerTls | None = Field(None, description="serve https")


class Server(Strict):
    """The two listeners."""

    events: Events = Field(Events(), description="the listener that takes events")
    admin: Admin = Field(Admin(), description="the listener for operators")


class Limits(Strict):
    """Bounds. A full one pauses or answers 4xx or 503, and loses nothing (rule 8). Those of requests and
    connections hold for each listener by itself."""

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
        16, description="requests of one connection in work before its reading pauses"
    )
    receiving: Annotated[Size, Field(ge=MIN_BODY)] = Field(
        "256MiB",
        validate_default=True,
        description="most bytes of requests whose body is unfinished, over all connections; beyond: 503",
    )
    connections: Annotated[Count, Field(ge=1)] = Field(
        10_000,
        description="open connections of a listener; one more is answered 503 and closed, or closed where it speaks TLS",
    )
    requests_in_flight: Annotated[Count, Field(ge=1)] = Field(
        10_000, description="requests that may wait for a log before others are answered 503"
    )
    in_flight_records: Annotated[Count, Field(ge=1)] = Field(
        50_000, description="records given to one broker and not answered yet"
    )
    in_flight_bytes: Annotated[Size, Field(ge=1)] = Field(
        "64MiB", validate_default=True, description="their bytes"
    )
    subscriptions: Annotated[Count, Field(ge=0)] = Field(
        1000, description="most subscriptions that the API has made; beyond: 409"
    )
    subscription_bytes: Annotated[Size, Field(ge=1024)] = Field(
        "64KiB", validate_default=True, description="most bytes of such a document; beyond: 413"
    )
    deliveries_in_flight: Annotated[Count, Field(ge=1)] = Field(
        2_000, description="attempts on the wire, shared fairly by the subscriptions of a process"
    )
    held_bytes: Annotated[Size, Field(ge=1)] = Field(
        "256MiB",
        validate_default=True,
        description="events taken and not delivered, shared fairly by the subscriptions of a process",
    )


Timeout = Annotated[Duration, Field(gt=0)]


class Timeouts(Strict):
    """Time-outs. The total of a webhook attempt is ``timeout`` of its subscription."""

    request_head: Timeout = Field(10.0, description="until the head of a request is there: 408")
    request_body: Timeout = Field(30.0, description="until its body is there: 408")
    keep_alive: Timeout = Field(75.0, description="an idle connection is closed")
    publish: Timeout = Field(10.0, description="until a broker has stored an event: 503, unknown")
    store: Timeout = Field(5.0, description="until the store has answered")
    not_ready: Duration = Field(5.0, description="after SIGTERM: not ready, still accepting")
    drain: Timeout = Field(25.0, description="then: time to finish what is in work")
    webhook_dns: Timeout = Field(2.0, description="to resolve a webhook's host name")
    webhook_connect: Timeout = Field(3.0, description="to connect to a webhook, TLS included")
    webhook_token: Timeout = Field(10.0, description="to get an access token for a webhook")
    webhook_handshake: Timeout = Field(10.0, description="for the validation handshake")


def _proxy(url: FileSecret) -> FileSecret:
    """It may hold a password, and is never repeated."""
    if not url.get_secret_value().startswith(("http://", "https://")):
        raise ValueError("begin with http:// or https://")
    return url


ProxyUrl = Annotated[Secret, AfterValidator(_proxy)]


class Webhooks(Strict):
    """What all webhooks share."""

    allow_private: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (),
        description="networks (10.0.0.0/8) and hosts (*.svc.cluster.local) that webhooks may have "
        "although they are private; plain http goes only to these",
    )
    origin: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")] | None = Field(
        None,
        description="DNS name of this system, by which webhooks consent in the handshake; without it, "
        "installation",
    )
    callback: Annotated[str, Field(pattern=r"^https?://[^/?#]")] | None = Field(
        None,
        description="URL of the events listener as webhooks reach it: where they may consent later",
    )
    proxy: ProxyUrl | None = Field(
        None,
        description="URL of a proxy that all requests to webhooks go through, http://proxy:3128; it keeps "
        "names from private addresses then",
    )


class Logging(Strict):
    """What Skybridge writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="the least important lines that are written"
    )
    format: Literal["text", "json"] = Field("text", description="for people or for machines")


class Reload(Strict):
    """When a running service reads this file again; SIGHUP and ``POST /v1/config:reload`` always make it."""

    watch: Duration = Field(
        5.0, description="time between looks at the file, whose change is taken up; 0s never looks"
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
        description="where messages that wait, dead letters, attempts and subscriptions of the API are "
        "kept",
    )
    brokers: Annotated[dict[Name, Broker], Field(min_length=1)] = Field(
        description="the logs that events are published to and read from, by name"
    )
    routes: tuple[Route, ...] = Field((), description="where events go; the first match wins")
    subscriptions: tuple[Subscription, ...] = Field(
        (), description="which events of a log go to which webhook"
    )
    operator_events: Target | None = Field(
        None,
        description="where operators are told of subscriptions that are disabled, paused or late and of "
        "dead letters, as CloudEvents",
    )
    webhooks: Webhooks = Field(Webhooks(), description="what all webhooks share")
    pipeline: Pipeline = Field(
        Pipeline(), description="the data pipeline on Spark: events in a lake, and back again"
    )
    limits: Limits = Field(Limits(), description="bounds")
    timeouts: Timeouts = Field(Timeouts(), description="time-outs")
    log: Logging = Field(Logging(), description="what is written to standard error")
    reload: Reload = Field(Reload(), description="changes of this file while the service runs")
    telemetry: Telemetry = Field(Telemetry(), description="what is told to a collector")
