"""The shapes of the admin listener's answers, as OpenAPI shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field

from app.api.running import Cause, Outcome
from app.errors import Fault


class View(BaseModel):
    """An answer whose members are those of a value inside, but for a few that are given."""

    @classmethod
    def members(cls, value: object, **given: object) -> dict[str, Any]:
        """Those of ``value`` that the answer names, under the same names, and what is ``given``."""
        own = {name: getattr(value, name) for name in cls.model_fields if hasattr(value, name)}
        return own | given

    @classmethod
    def of(cls, value: object, **given: object) -> Self:
        """The same, checked; values inside it become answers likewise."""
        return cls.model_validate(cls.members(value, **given), from_attributes=True)


class FaultView(BaseModel):
    """One thing wrong with an event that was sent."""

    code: str
    detail: str
    at: str = Field("", description="where: a header, a JSON Pointer, a query parameter")
    rule: str = Field("", description="the clause that it breaks")
    index: int | None = Field(None, description="of an event in a batch")


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str = Field(examples=["urn:skybridge:problem:unknown-topic"])
    title: str
    status: int
    detail: str = ""
    faults: list[FaultView] = Field([], description="of an event that is not valid: all of them")


class RoleReadiness(BaseModel):
    ready: bool
    causes: list[str] = Field(description="why not, each with its cure")


class Readiness(BaseModel):
    ready: bool
    roles: dict[str, RoleReadiness] | None = Field(
        None, description="only with the admin token, or where none is needed"
    )


class HealthView(BaseModel):
    healthy: bool
    cause: str = ""


class TargetView(BaseModel):
    broker: str
    topic: str


_FILTER_ERRORS = (
    "expressions of its filters that failed on an event since the start; the log has an example"
)


class RouteView(View):
    name: str
    to: list[TargetView]
    content_mode: str
    key: str = Field(description="the key mapper")
    filter_errors: int = Field(description=_FILTER_ERRORS)


class ParkedOfSubscription(BaseModel):
    """Events that wait in the store, of all processes; zeros where it cannot be asked."""

    rows: int = 0
    keys: int = 0
    oldest_seconds: float | None = Field(None, description="since the oldest of them waits")


class SubscriptionView(View):
    id: str
    sink: str
    broker: str
    broker_health: HealthView = Field(description="whether it answers, and why not")
    group: str
    state: str = Field(
        description="starting, running, paused, disabled, restarting, stopping, stopped, broken (it is "
        "kept and cannot run) or elsewhere (another process runs it)"
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
    parked: ParkedOfSubscription
    dead_letters: dict[str, int] = Field(description="count by cause")
    filter_errors: int = Field(description=_FILTER_ERRORS)


class Standing(View):
    """How a subscription fares: all that is no part of its document."""

    id: str
    origin: Literal["file", "api"] = Field(description="who made it; the file's are read-only here")
    place: str = Field(description="where in the file; empty for the API's")
    etag: str = Field(description="of the document")
    created_ms: int | None = Field(description="null for the file's")
    updated_ms: int | None
    faults: list[str] = Field(description="why it does not run although it is kept")
    warnings: list[str] = Field(description="what looks wrong and may be meant")
    health: SubscriptionView = Field(
        description="as its worker sees it; state `elsewhere` where another process runs it"
    )


class Listed(Standing):
    document: dict[str, Any] = Field(description="what can be pasted into the configuration file")


class KafkaListenerView(BaseModel):
    broker: str = Field(description="name of the embedded log that it serves")
    address: str = Field(description="where clients of Kafka are told to come to")
    connections: int = Field(description="open now")
    held_bytes: int = Field(description="of requests that have no answer yet")
    refused_connections: int = Field(description="closed at the bound of connections")
    refused_frames: int = Field(
        description="requests that could not be read; their connections were closed"
    )


def _rfc3339(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def _details(faults: Sequence[Fault]) -> list[str]:
    return [each.detail for each in faults]


class ReloadView(View):
    at: Annotated[str, BeforeValidator(_rfc3339)] = Field(description="when, RFC 3339")
    cause: Cause = Field(
        description="what asked for it: the start, SIGHUP, the file itself, this API"
    )
    outcome: Outcome
    digest: str = Field(description="of the configuration in force afterwards")
    changes: list[str] = Field(description="by setting; values of secrets are not told")
    anew: list[str] = Field(description="subscriptions that ended and began anew")
    faults: Annotated[list[str], BeforeValidator(_details)] = Field(
        description="why it was refused, each with its line"
    )
    warnings: list[str]


class ConfigurationState(View):
    """Digests are of what may be shown: a secret that changed does not change them."""

    source: str = Field(description="the file; empty without one")
    digest: str = Field(description="of what is in force; pods that agree have the same")
    taken: ReloadView = Field(description="the last one that was not refused, or the start")
    last: ReloadView


class ConfigurationView(ConfigurationState):
    configuration: dict[str, Any] = Field(
        description="every setting, defaults too; secrets hidden, references as references"
    )


class Status(View):
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
    kafka_listeners: list[KafkaListenerView] = Field(
        [], description="of Kafka's protocol, on embedded logs"
    )
    configuration: ConfigurationState = Field(description="what it runs on, and its last reload")


class RecordHeader(BaseModel):
    """``value`` null: the header has none, or none that is text; ``typed`` then has it. Not UTF-8:
    ``value_base64`` stands in its place."""

    name: str
    value: str | None = None
    value_base64: str | None = None
    typed: Any = Field(None, description="of RabbitMQ, where it is no string: a number, a table")


class RecordView(BaseModel):
    """A record as it is on the wire: headers in their order, with repeats and nulls. Not UTF-8:
    ``body_base64`` stands in the place of ``body``, of which null is no value at all."""

    headers: list[RecordHeader]
    body: str | None = None
    body_base64: str | None = None
    content_type: str | None = Field(
        None, description="the broker's own property, where it has one"
    )
    message_id: str | None = Field(None, description="the broker's own property, where it has one")
    time_ms: int | None = Field(None, description="the producer's time, where the broker keeps one")


class MessageView(BaseModel):
    """A record of a log. ``event`` is the CloudEvent in the JSON format, whatever format it lies there
    in; ``mode`` and ``content_type`` say which. A document in a format that is not read here shows
    ``attributes``, those of mirrored headers, and ``body_base64``. Where the record is no CloudEvent,
    ``fault`` says why and ``headers`` and ``body_base64`` show it as it is."""

    topic: str
    partition: int
    position: str
    time_ms: int
    key: str | None = Field(description="as text; see key_base64 where it is not UTF-8")
    key_base64: str | None = None
    mode: Literal["binary", "structured", "batch"] | None = None
    content_type: str | None = Field(None, description="of the document; null in binary mode")
    event: dict[str, Any] | None = None
    attributes: dict[str, str] | None = None
    foreign: list[tuple[str, str | None]] = Field([], description="headers beside the event")
    fault: str = ""
    headers: list[tuple[str, str | None]] = []
    body_base64: str | None = None
    record: RecordView | None = Field(None, description="where it was asked for: raw=true")


class PageView(BaseModel):
    """What was read, and where to go on: ``next`` is what ``from`` takes."""

    messages: list[MessageView]
    next: str
    complete: bool = Field(description="no bound was met: this is all up to the end as it was")
