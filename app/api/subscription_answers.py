"""The shapes of what ``/v1/subscriptions`` answers, as OpenAPI shows them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from app.api.answers import SubscriptionView, View


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


class TestAnswer(BaseModel):
    """What the target said to a test event."""

    delivered: bool
    status: int | None = Field(description="null: no answer came")
    fault: str = Field(description="why none came: dns, connect, tls, timeout, blocked-address ...")
    detail: str
    duration_ms: float
    response: str = Field(description="the answer's body, clipped")
    event: str = Field(description="id of the event that was sent")


class ReplayView(View):
    """What is left of a replay in one partition."""

    id: int
    topic: str
    partition: int
    next: str = Field(description="the first position that is not known to be finished")
    until: str = Field(description="the first that is not wanted")
    remaining: int | None = Field(description="at most; null where positions cannot be counted")
    done: int
    rate: float = Field(description="events a second; 0 for any")
    asked_ms: int


class ReplayPlan(BaseModel):
    """What was asked for, or, with dry_run, what would be."""

    dry_run: bool
    replays: list[ReplayView] = Field(description="one a partition; empty ones are left out")
    total: int | None = Field(
        description="records, filtered ones included, at most; null where the log cannot tell"
    )
