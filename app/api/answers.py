"""The shapes of the admin listener's answers, as OpenAPI shows them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str = Field(examples=["urn:skybridge:problem:unknown-topic"])
    title: str
    status: int
    detail: str = ""


class RoleReadiness(BaseModel):
    ready: bool
    causes: list[str] = Field(description="why not, each with its cure")


class Readiness(BaseModel):
    ready: bool
    roles: dict[str, RoleReadiness]


class HealthView(BaseModel):
    healthy: bool
    cause: str = ""


class TargetView(BaseModel):
    broker: str
    topic: str


class RouteView(BaseModel):
    name: str
    to: list[TargetView]
    content_mode: str
    key: str = Field(description="the key mapper")


class SubscriptionView(BaseModel):
    id: str
    sink: str
    broker: str
    group: str
    state: str = Field(
        description="starting, running, paused, disabled, restarting, stopping or stopped"
    )
    ready: bool
    cause: str = Field(description="why it does not run, or what hinders it")
    partitions: list[str]
    lag: int | None = Field(description="records not finished yet; null where nobody can say")
    held: int = Field(description="messages taken and not finished")
    in_flight: int = Field(description="of them: on the wire")
    waiting: int = Field(description="of them: waiting for their next attempt")
    window: int = Field(description="distance from the commit position to the newest message taken")
    paused_for: float | None = Field(description="seconds until the endpoint is tried again")
    oldest: float | None = Field(
        description="seconds since the oldest message not finished came into the log"
    )
    restarts: int
    last_error: str
    dead_letters: dict[str, int] = Field(description="count by cause")


class Status(BaseModel):
    version: str
    installation: str
    roles: list[str]
    ready: bool
    uptime_seconds: float
    routes: list[RouteView]
    brokers: dict[str, HealthView]
    store: HealthView = Field(description="where dead letters are kept")
    subscriptions: list[SubscriptionView]
    counters: dict[str, dict[str, int]] = Field(
        description="by name, then by labels joined with a comma"
    )


class PartitionView(BaseModel):
    number: int
    leader: int | None
    replicas: list[int]
    isr: list[int]
    earliest: str
    latest: str


class TopicView(BaseModel):
    broker: str
    name: str
    partitions: list[PartitionView]


class MessageView(BaseModel):
    """A record of a log. ``event`` is the CloudEvent in the JSON format; where the record is none,
    ``fault`` says why and ``headers`` and ``body_base64`` show it as it is."""

    topic: str
    partition: int
    position: str
    time_ms: int
    key: str | None = Field(description="as text; see key_base64 where it is not UTF-8")
    key_base64: str | None = None
    event: dict[str, Any] | None = None
    fault: str = ""
    headers: list[tuple[str, str | None]] = []
    body_base64: str | None = None


class DeadLetterView(BaseModel):
    subscription: str
    broker: str
    cause: str
    detail: str
    attempts: int
    status: int | None
    at_ms: int
    message: MessageView
