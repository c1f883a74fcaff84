"""The shapes of the admin listener's answers, as OpenAPI shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field

from app.errors import Fault
from app.model.scopes import Scope


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
    """One fault of an event."""

    code: str
    detail: str
    at: str = Field(
        "", description="place of the fault: a header, a JSON Pointer, a query parameter"
    )
    rule: str = Field("", description="the broken clause")
    index: int | None = Field(None, description="index of the event in a batch")


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str = Field(examples=["urn:skybridge:problem:unknown-topic"])
    title: str
    status: int
    detail: str = ""
    faults: list[FaultView] = Field([], description="all faults of an invalid event")
    scope: Scope | None = Field(None, description="the scope that the token lacks")


class RoleReadiness(BaseModel):
    ready: bool
    causes: list[str] = Field(description="causes, each with its cure")


class Readiness(BaseModel):
    ready: bool
    roles: dict[str, RoleReadiness] | None = Field(
        None, description="only with a token that has the scope read, or where none is needed"
    )


class HealthView(BaseModel):
    healthy: bool
    cause: str = ""


class TargetView(BaseModel):
    broker: str
    topic: str


_FILTER_ERRORS = (
    "how often expressions of its filters failed on an event since the start; the "
    "log has an example"
)


class RouteView(View):
    name: str
    to: list[TargetView]
    content_mode: str
    key: str = Field(description="the key mapper")
    events: int = Field(description="events that its brokers stored, since the start")
    unpublished: int = Field(description="events that a broker did not store, since the start")
    filter_errors: int = Field(description=_FILTER_ERRORS)


class ParkedOfSubscription(BaseModel):
    """Parked events in the store, of all processes; zeros if the store does not answer."""

    rows: int = 0
    keys: int = 0
    oldest_seconds: float | None = Field(None, description="age of the oldest parked event")


class SubscriptionView(View):
    id: str
    sink: str
    broker: str
    broker_health: HealthView = Field(description="whether the store answers, and if not, why")
    group: str
    state: str = Field(
        description="starting, running, paused, disabled, restarting, stopping, stopped, broken "
        "(stored, but it cannot run) or elsewhere (another process runs it)"
    )
    ready: bool
    cause: str = Field(description="why it does not run or deliver")
    partitions: list[str]
    lag: int | None = Field(description="unfinished records; null if unknown")
    held: int = Field(description="messages read and not finished")
    in_flight: int = Field(description="messages on the wire")
    waiting: int = Field(description="messages that wait for their next attempt")
    window: int = Field(description="distance from the commit position to the newest message read")
    paused_for: float | None = Field(description="seconds until the next probe of the endpoint")
    oldest: float | None = Field(
        description="seconds since the oldest unfinished message was stored in the log"
    )
    restarts: int
    last_error: str
    parked: ParkedOfSubscription
    dead_letters: dict[str, int] = Field(description="count by cause")
    delivered: int = Field(description="events delivered by this process, since its start")
    answers: dict[str, int] = Field(
        description="attempts of this process by the status of the answer, or by the fault where "
        "none came: timeout, connect, tls ..."
    )
    filter_errors: int = Field(description=_FILTER_ERRORS)


class Standing(View):
    """The status of a subscription: everything outside its document."""

    id: str
    origin: Literal["file", "api"] = Field(
        description="its origin; subscriptions of the file are read-only here"
    )
    place: str = Field(description="its line in the file; empty for the API's")
    etag: str = Field(description="of the document")
    created_ms: int | None = Field(description="null for the file's")
    updated_ms: int | None
    faults: list[str] = Field(description="why it cannot run although it is stored")
    warnings: list[str] = Field(description="doubtful settings")
    health: SubscriptionView = Field(
        description="as its worker sees it; state `elsewhere` where another process runs it"
    )


class Listed(Standing):
    document: dict[str, Any] = Field(
        description="the document, which can be pasted into the configuration file"
    )


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


def rfc3339(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def _details(faults: Sequence[Fault]) -> list[str]:
    return [each.detail for each in faults]


Cause = Literal["start", "signal", "file", "api"]
Outcome = Literal["ok", "unchanged", "refused"]


class ReloadView(View):
    at: Annotated[str, BeforeValidator(rfc3339)] = Field(description="when, RFC 3339")
    cause: Cause = Field(
        description="its trigger: the start, SIGHUP, a change of the file, this API"
    )
    outcome: Outcome
    digest: str = Field(description="digest of the configuration in force afterwards")
    changes: list[str] = Field(description="changes by setting; values of secrets are hidden")
    restarted: list[str] = Field(description="restarted subscriptions")
    faults: Annotated[list[str], BeforeValidator(_details)] = Field(
        description="reasons of the refusal, each with its line"
    )
    warnings: list[str]


class ConfigurationState(View):
    """Digests cover only settings that may be shown: a changed secret does not change them."""

    source: str = Field(description="the file; empty without one")
    digest: str = Field(
        description="digest of the configuration in force; pods with the same configuration have "
        "the same digest"
    )
    taken: ReloadView = Field(description="the last one that was not refused, or the start")
    last: ReloadView


class ConfigurationView(ConfigurationState):
    configuration: dict[str, Any] = Field(
        description="every setting, including defaults; secrets are hidden, references are "
        "shown as written"
    )


class RemarkView(View):
    level: Literal["error", "warning"]
    setting: str
    line: int = Field(description="0: of no line")
    message: str
    cure: str


class PlannedChangeView(View):
    setting: str
    what: str = Field(description="added, removed, changed or moved")
    effect: Literal["live", "restart"]
    old: Any = Field(description="as it may be shown; null where there is none")
    new: Any = Field(description="as it may be shown; null where there is none")


class CheckView(BaseModel):
    """What is wrong, or looks wrong, with a proposed configuration."""

    valid: bool = Field(description="false: one remark is an error")
    remarks: list[RemarkView] = Field(description="errors before warnings, the first 1,000")
    more_remarks: int = Field(0, description="how many remarks are not listed")


class PlanView(View):
    """What a reload to a proposed configuration would change."""

    result: Literal["no-change", "changes", "needs-restart"] = Field(
        description="needs-restart: a reload would be refused"
    )
    digest: str = Field(description="digest of the proposed configuration")
    changes: list[PlannedChangeView] = Field(description="the first 1,000")
    more_changes: int = Field(0, description="how many changes are not listed")
    restarted: list[str] = Field(
        description="subscriptions that would end and continue at their position"
    )
    warnings: list[str] = Field(
        description="effects of the changes on events that wait, the first 1,000"
    )
    more_warnings: int = Field(0, description="how many warnings are not listed")
    remarks: list[RemarkView] = Field(description="warnings of the check, the first 1,000")
    more_remarks: int = Field(0, description="how many remarks are not listed")


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


class RecordHeader(BaseModel):
    """A header. ``value`` is null if the header has no value or its value is not a string;
    ``typed`` then has it. A value that is not UTF-8 is in ``value_base64``."""

    name: str
    value: str | None = None
    value_base64: str | None = None
    typed: Any = Field(
        None, description="type of a RabbitMQ header that is not a string: a number, a table"
    )


class RecordView(BaseModel):
    """A record as it is on the wire: headers in their order, with repeats and nulls. A body that is
    not UTF-8 is in ``body_base64``; ``body`` null means no value."""

    headers: list[RecordHeader]
    body: str | None = None
    body_base64: str | None = None
    content_type: str | None = Field(None, description="the broker's own property, if it has one")
    message_id: str | None = Field(None, description="the broker's own property, if it has one")
    time_ms: int | None = Field(None, description="the producer's time, if the broker keeps it")


class MessageView(BaseModel):
    """A record of a log. ``event`` is the CloudEvent in the JSON format; ``mode`` and
    ``content_type`` name its stored form. A document in a format that Skybridge cannot read has
    ``attributes``, from its mirrored headers, and ``body_base64``. If the record is no
    CloudEvent, ``fault`` says why, and ``headers`` and ``body_base64`` show the unchanged
    record."""

    topic: str
    partition: int
    position: str
    time_ms: int
    key: str | None = Field(description="the key as text; see key_base64 if it is not UTF-8")
    key_base64: str | None = None
    mode: Literal["binary", "structured", "batch"] | None = None
    content_type: str | None = Field(
        None, description="format of the document; null in binary mode"
    )
    event: dict[str, Any] | None = None
    attributes: dict[str, str] | None = None
    foreign: list[tuple[str, str | None]] = Field([], description="headers beside the event")
    fault: str = ""
    headers: list[tuple[str, str | None]] = []
    body_base64: str | None = None
    record: RecordView | None = Field(
        None, description="only with raw=true, and only with the scope data"
    )
    withheld: Literal["", "masked", "data"] = Field(
        "",
        description="without the scope data: masked where server.admin.mask hides parts of the data, data "
        "where none of it is shown; then there are no keys and no headers either",
    )


class PageView(BaseModel):
    """A page of messages; ``next`` is the ``from`` of the next page."""

    messages: list[MessageView]
    next: str
    complete: bool = Field(description="true: the page reached the end of the topic")
    looked_at: int = Field(description="records read for this page, wanted or not")
