"""What probes and ``/status`` answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.api.asked.readiness import RoleReadiness
from app.api.http.views import HealthView, View
from app.api.status.configuration_answers import ConfigurationState
from app.api.subscriptions.answers import FILTER_ERRORS, SubscriptionView


class Readiness(BaseModel):
    ready: bool
    roles: dict[str, RoleReadiness] | None = Field(
        None, description="only with a token that has the scope read, or where none is needed"
    )


class TargetView(BaseModel):
    broker: str
    topic: str


class RouteView(View):
    name: str
    to: list[TargetView]
    content_mode: str
    key: str = Field(description="the key mapper")
    events: int = Field(description="events that its brokers stored, since the start")
    unpublished: int = Field(description="events that a broker did not store, since the start")
    filter_errors: int = Field(description=FILTER_ERRORS)


class KafkaListenerView(BaseModel):
    broker: str = Field(description="name of the embedded log that it serves")
    address: str = Field(description="address announced to Kafka clients")
    connections: int = Field(description="open now")
    held_bytes: int = Field(description="bytes of requests without an answer yet")
    refused_connections: int = Field(description="connections closed at the bound")
    refused_frames: int = Field(
        description="requests that could not be read; their connections were closed"
    )


class SpoolView(BaseModel):
    route: str = Field(description="name of the route")
    broker: str = Field(description="name of the embedded log that keeps the spool")
    state: Literal["empty", "spooling", "draining", "removed"] = Field(
        description="spooling: the target is away; removed: its setting is gone, and it is kept until it is "
        "empty"
    )
    cause: str = Field(description="why events went to the spool last; empty while it is empty")
    records: int = Field(description="events that wait")
    bytes: int = Field(description="about how many bytes they take")
    most: int = Field(description="spool.max in bytes; 0 for one that is removed")
    oldest_seconds: float = Field(description="age of the oldest event that waits, or 0")
    repeats: int = Field(
        description="events since the start that the target may have twice, because a publish had no answer"
    )
    drained: list[int] = Field(
        [],
        description="by partition of the spool: position of the first event that is not known to be at "
        "the target",
    )


class SenderView(View):
    """What came by one way, since the start of this process."""

    name: str
    events_per_second: float = Field(description="over about the last minute")
    last_event_seconds: float | None = Field(
        description="seconds since its last event; null if there was none"
    )


class ProducerView(SenderView):
    """A sender of events, since the start of this process."""

    events: int = Field(description="events within its quota, over HTTP and Kafka listeners")
    refused: int = Field(description="requests that were refused although it was known")


class IntakeView(SenderView):
    """An intake, since the start of this process."""

    events: int = Field(description="requests accepted as events; no duplicates, no challenges")
    refused: int = Field(description="requests refused or not published")


class DiskView(BaseModel):
    free: int = Field(description="bytes that this process may still write")
    size: int = Field(description="bytes of the volume")


class Attention(BaseModel):
    """Something that does not recover by itself, or has not for five minutes."""

    subject: str = Field(
        description="the broken part", examples=["subscription billing", "broker main"]
    )
    detail: str = Field(description="what is wrong with it")
    next: str = Field(description="the command that repairs it, or shows more")


class Status(View):
    version: str
    installation: str
    roles: list[str]
    ready: bool
    readiness: dict[str, RoleReadiness] = Field(description="of each role, as in /readyz")
    attention: list[Attention] = Field(description="what needs a person, the gravest first")
    uptime_seconds: float
    routes: list[RouteView]
    brokers: dict[str, HealthView]
    store: HealthView = Field(description="where dead letters are kept")
    disks: dict[str, DiskView] = Field(
        description="volumes of the embedded logs and of the SQLite store, by folder"
    )
    subscriptions: list[SubscriptionView]
    producers: list[ProducerView] = Field([], description="known senders of events")
    intakes: list[IntakeView] = Field([], description="webhooks taken in under /in")
    counters: dict[str, dict[str, int]] = Field(
        description="values by name, then by labels joined with a comma"
    )
    kafka_listeners: list[KafkaListenerView] = Field(
        [], description="Kafka listeners of embedded logs"
    )
    spools: list[SpoolView] = Field([], description="spools of routes")
    configuration: ConfigurationState = Field(
        description="the configuration in force and the last reload"
    )
