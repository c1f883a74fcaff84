"""The configuration as a value: every setting with its meaning and its default.

The descriptions are the reference: ``skybridge schema`` prints them, editors show them. What a later
version of Skybridge will know is refused here until it works.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from app.config.brokers import Broker, SqliteStore
from app.model.duration import Count, Duration, Size
from app.model.route import Name, Route, Strict
from app.model.subscription import Subscription

MIN_BODY = 87_819  # 64 KiB times 1.34: an event of 64 KiB must pass (I1), its data in base64 too
MIN_HEADERS = 192 << 10  # the same event made of headers, each byte percent-encoded

Port = Annotated[Count, Field(ge=0, le=65535)]


class ServerTls(Strict):
    """TLS of a listener. The files are read again when they change."""

    cert: Path = Field(description="PEM file of the certificate chain")
    key: Path = Field(description="PEM file of the key, without a pass phrase")


class Events(Strict):
    """The listener that takes events."""

    host: str = Field("127.0.0.1", description="address to listen on; 0.0.0.0 for all")
    port: Port = Field(8080, description="port to listen on; 0 takes a free one")
    tls: ServerTls | None = Field(None, description="serve https")


class Admin(Strict):
    """The listener for operators: health, status, metrics, API."""

    host: str = Field("127.0.0.1", description="address to listen on; off loopback needs a token")
    port: Port = Field(8081, description="port to listen on; 0 takes a free one")
    token: SecretStr | None = Field(
        None, description='bearer token that callers must show; best "${env:NAME}"'
    )
    tls: ServerTls | None = Field(None, description="serve https")


class Server(Strict):
    """The two listeners."""

    events: Events = Field(Events(), description="the listener that takes events")
    admin: Admin = Field(Admin(), description="the listener for operators")


class Limits(Strict):
    """Bounds. A full one pauses or answers 4xx or 503, and loses nothing (rule 8)."""

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
        description="most bytes of unfinished request bodies, over all connections; beyond: 503",
    )
    connections: Annotated[Count, Field(ge=1)] = Field(
        10_000,
        description="open connections of the events listener; one more is answered 503 and closed",
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


class Webhooks(Strict):
    """What all webhooks share."""

    allow_private: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (),
        description="networks (10.0.0.0/8) and hosts (*.svc.cluster.local) that webhooks may have "
        "although they are private; plain http goes only to these",
    )


class Logging(Strict):
    """What Skybridge writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="the least important lines that are written"
    )
    format: Literal["text", "json"] = Field("text", description="for people or for machines")


class Config(Strict):
    """One installation of Skybridge."""

    version: Literal[1] = Field(description="version of this file's format: 1")
    installation: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")] = Field(
        "skybridge",
        description="part of every consumer group's name; differs between installations",
    )
    server: Server = Field(Server(), description="the two listeners")
    store: SqliteStore = Field(
        SqliteStore(kind="sqlite", path=Path("./skybridge-data/store.db")),
        description="where dead letters are kept",
    )
    brokers: Annotated[dict[Name, Broker], Field(min_length=1)] = Field(
        description="the logs that events are published to and read from, by name"
    )
    routes: tuple[Route, ...] = Field((), description="where events go; the first match wins")
    subscriptions: tuple[Subscription, ...] = Field(
        (), description="which events of a log go to which webhook"
    )
    webhooks: Webhooks = Field(Webhooks(), description="what all webhooks share")
    limits: Limits = Field(Limits(), description="bounds")
    timeouts: Timeouts = Field(Timeouts(), description="time-outs")
    log: Logging = Field(Logging(), description="what is written to standard error")
