"""The answers of the probes and of ``/status``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.api.asked.alerts import AlertView
from app.api.asked.readiness import RoleReadiness
from app.api.http.views import Attention, CopyingView, HealthView
from app.api.status.configuration_answers import ConfigurationState
from app.api.subscriptions.answers import FILTER_ERRORS, SubscriptionView


class Readiness(BaseModel):
    """The readiness of a process and of its roles, with the causes if it is not ready."""

    ready: bool = Field(description="true if every role is ready")
    roles: dict[str, RoleReadiness] | None = Field(
        None, description="each role; absent without a token with the scope read"
    )


class TargetView(BaseModel):
    """A target of a route."""

    broker: str = Field(description="name of the broker")
    topic: str = Field(description="name of the topic")


class RouteView(CopyingView):
    """A route, and its events since the start of this process."""

    name: str = Field(description="name of the route")
    to: list[TargetView] = Field(description="targets of the route")
    content_mode: str = Field(description="content mode of its records")
    key: str = Field(description="key mapper of the route")
    events: int = Field(description="events that its brokers stored")
    unpublished: int = Field(description="events that a broker did not store")
    filter_errors: int = Field(description=FILTER_ERRORS)


class KafkaListenerView(BaseModel):
    """A Kafka listener of an embedded log."""

    broker: str = Field(description="name of the embedded log")
    address: str = Field(description="address announced to Kafka clients")
    connections: int = Field(description="open connections")
    held_bytes: int = Field(description="bytes of requests that are not answered yet")
    refused_connections: int = Field(description="connections closed at the limit")
    refused_frames: int = Field(
        description="requests that could not be parsed; their connections were closed"
    )


class SpoolView(BaseModel):
    """The spool of a route."""

    route: str = Field(description="name of the route")
    broker: str = Field(description="name of the embedded log that stores the spool")
    state: Literal["empty", "spooling", "draining", "removed"] = Field(
        description="spooling if the target is unavailable; removed if its setting is gone and events are left"
    )
    cause: str = Field(
        description="why events were last sent to the spool; empty while the spool is empty"
    )
    records: int = Field(description="events that wait in the spool")
    bytes: int = Field(description="size of these events, approximately")
    most: int = Field(description="spool.max in bytes; 0 for a removed spool")
    oldest_seconds: float = Field(description="age of the oldest event in seconds, or 0")
    repeats: int = Field(
        description="events since the start that the target may have twice, because a publish was not answered"
    )
    drained: list[int] = Field(
        [],
        description="for each partition of the spool, the position of the first event that the target may lack",
    )


class SenderView(CopyingView):
    """Events of one sender since the start of this process."""

    name: str = Field(description="name in the configuration")
    events_per_second: float = Field(description="rate over about the last minute")
    last_event_seconds: float | None = Field(
        description="seconds since the last event; null if there was none"
    )


class ProducerView(SenderView):
    """Events of a producer since the start of this process."""

    events: int = Field(description="events within its quota, over HTTP and Kafka listeners")
    refused: int = Field(description="refused requests with valid credentials")


class IntakeView(SenderView):
    """Events of an intake since the start of this process."""

    events: int = Field(
        description="requests accepted as events, without duplicates and challenges"
    )
    refused: int = Field(description="requests that were refused or not published")


class DiskView(BaseModel):
    """A volume on which this process stores data."""

    free: int = Field(description="bytes that this process can still write")
    size: int = Field(description="size of the volume in bytes")


class Status(CopyingView):
    """The state of this process."""

    version: str = Field(description="version of Skybridge")
    installation: str = Field(description="name that the processes of this installation share")
    roles: list[str] = Field(description="roles of this process: gateway, worker or both")
    ready: bool = Field(description="true if every role is ready")
    readiness: dict[str, RoleReadiness] = Field(description="readiness of each role, as in /readyz")
    attention: list[Attention] = Field(
        description="everything that needs a person, the gravest first"
    )
    uptime_seconds: float = Field(description="seconds since the start of this process")
    routes: list[RouteView] = Field(description="routes of the configuration")
    brokers: dict[str, HealthView] = Field(description="health of each broker, by name")
    store: HealthView = Field(
        description="the database of subscriptions, attempts, parked events and dead letters"
    )
    disks: dict[str, DiskView] = Field(
        description="volumes of embedded logs and of the SQLite store, by folder"
    )
    subscriptions: list[SubscriptionView] = Field(
        description="subscriptions that this process runs"
    )
    producers: list[ProducerView] = Field([], description="configured producers")
    intakes: list[IntakeView] = Field([], description="intakes of webhooks, under /in")
    counters: dict[str, dict[str, int]] = Field(
        description="counters by name, then by labels joined with commas"
    )
    kafka_listeners: list[KafkaListenerView] = Field(
        [], description="Kafka listeners of embedded logs"
    )
    spools: list[SpoolView] = Field([], description="spools of routes")
    alerts: list[AlertView] = Field([], description="alerts, and what they have sent")
    configuration: ConfigurationState = Field(
        description="the current configuration and the last reload"
    )
