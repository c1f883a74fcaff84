"""Answers about one subscription, without its document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from app.api.asked.registry import Origin
from app.api.http.views import Attention, CopyingView, HealthView

FILTER_ERRORS = (
    "number of failures of its filter expressions on events since the start; the log has an example"
)
"""The description of a field that counts failed filter expressions."""


class ParkedOfSubscription(BaseModel):
    """Parked events of a subscription in the store, which all processes share."""

    rows: int = Field(0, description="number of parked events")
    keys: int = Field(0, description="number of their keys")
    keyless: int = Field(
        0, description="number of parked events without a key; each waits on its own"
    )
    redriven: int = Field(
        0, description="number of these events that were dead letters and are being redriven"
    )
    oldest_seconds: float | None = Field(
        None, description="age of the oldest parked event in seconds"
    )


class PullQueueView(BaseModel):
    """The pull queue of a subscription in the store, which all processes share."""

    waiting: int | None = Field(
        description="events that wait to be pulled or acknowledged; null if the store does not answer"
    )
    most: int = Field(description="most events of the queue, from sink.pull.max_waiting")
    oldest_seconds: float | None = Field(
        description="age of the oldest event in the queue in seconds; null if there is none, or if the store "
        "does not answer"
    )


class SubscriptionView(CopyingView):
    """A subscription as its worker reports it."""

    id: str = Field(description="id of the subscription")
    sink: str = Field(description="sink to which it delivers")
    broker: str = Field(description="broker from which it reads")
    broker_health: HealthView = Field(description="health of that broker")
    group: str = Field(description="consumer group that it uses")
    state: str = Field(
        description="starting, running, paused, disabled, restarting, stopping, stopped, broken "
        "(stored, but it cannot run) or elsewhere (another process runs it)"
    )
    ready: bool = Field(description="true if it can deliver")
    cause: str = Field(description="why it does not run or deliver")
    partitions: list[str] = Field(description="partitions that this process owns")
    lag: int | None = Field(
        description="unfinished records, with the events of its pull queue; null if unknown"
    )
    lag_grew: int = Field(
        description="records by which the lag has grown; 0 if it fell within a minute"
    )
    lag_grows_for: float = Field(description="seconds since the lag began to grow")
    queue: PullQueueView | None = Field(description="its pull queue; null for other sinks")
    held: int = Field(description="messages that were read and are not finished")
    in_flight: int = Field(description="messages in a request to the sink now")
    waiting: int = Field(description="messages that wait for their next attempt")
    window: int = Field(description="distance from the commit position to the newest message read")
    paused_for: float | None = Field(
        description="seconds until the next probe of the endpoint; null if it is not at fault"
    )
    oldest: float | None = Field(
        description="seconds since the oldest unfinished message was stored in the log"
    )
    restarts: int = Field(description="how often its worker was restarted after an error")
    last_error: str = Field(
        description="status and text of the answer to the last failed attempt; the text is shown only with the scope data"
    )
    failures: int = Field(description="failed attempts of this process since its last success")
    failing_for: float = Field(description="seconds since the first of these failures, or 0")
    parked: ParkedOfSubscription | None = Field(
        description="parked events of the subscription; null if the store does not answer"
    )
    dead_letters: dict[str, int] | None = Field(
        description="number of dead letters by cause; null if the store does not answer"
    )
    delivered: int = Field(description="events that this process delivered since its start")
    answers: dict[str, int] = Field(
        description="attempts of this process by status of the answer, or by fault if there was none, such as "
        "timeout, connect or tls"
    )
    filter_errors: int = Field(description=FILTER_ERRORS)
    attention: list[Attention] = Field(
        [], description="what of this subscription needs a person, the gravest first"
    )


def retry_command(health: SubscriptionView) -> str:
    """Return the command that tries the waiting events of a subscription now, or "" if none waits for its target.

    Parked events that the store does not report count as none. A subscription that an operator or a 410 stopped has
    to be resumed instead."""
    stopped = health.state == "paused" and health.paused_for is None
    if stopped or health.state not in {"running", "paused", "elsewhere"}:
        return ""
    is_parked = health.parked is not None and health.parked.rows > 0
    waits = is_parked or health.waiting > 0 or health.paused_for is not None
    return f"skybridge retry {health.id}" if waits else ""


class Standing(CopyingView):
    """The status of a subscription. It has everything that is not in the document of the subscription."""

    id: str = Field(description="id of the subscription")
    origin: Origin = Field(
        description="where it was declared; the API cannot change a subscription of the file or of a Kubernetes object"
    )
    place: str = Field(
        description="its line in the file, or its object; empty for one from the API"
    )
    etag: str = Field(description="ETag of the document")
    created_ms: int | None = Field(
        description="time of creation, in ms since the epoch; null for one of the file"
    )
    updated_ms: int | None = Field(
        description="time of the last change, in ms since the epoch; null for one of the file"
    )
    faults: list[str] = Field(description="why it cannot run although it is stored")
    warnings: list[str] = Field(description="settings that look wrong but may be intended")
    health: SubscriptionView = Field(
        description="state that its worker reports; `elsewhere` if another process runs it"
    )


class Listed(Standing):
    """A subscription with its document and its status."""

    document: dict[str, Any] = Field(
        description="document, which can be pasted into the configuration file"
    )
