"""What the API answers of one subscription, beside its document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from app.api.http.views import HealthView, View

FILTER_ERRORS = (
    "how often expressions of its filters failed on an event since the start; the "
    "log has an example"
)


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
    filter_errors: int = Field(description=FILTER_ERRORS)


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
