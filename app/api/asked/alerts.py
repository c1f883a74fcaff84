"""The protocol through which ``/v1/alerts`` and ``/status`` use the alerts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pydantic import BaseModel, Field


class ReportedView(BaseModel):
    """A problem that an alert has reported and that is not over."""

    verdict: str = Field(description="kind of the problem")
    subject: str = Field(description="part that has the problem")
    since: str = Field(description="when the problem was first found")


class AlertView(BaseModel):
    """An alert, and what it has sent."""

    name: str = Field(description="name of the alert")
    channel: str = Field(description="preset of its channel")
    host: str = Field(description="host of its channel; the URL is a secret")
    when: list[str] = Field(description="problems that it reports")
    sends: bool = Field(
        description="true if this process sends the alerts; one process of an installation does"
    )
    last_sent: str | None = Field(
        description="when it last reported problems; null if it never has"
    )
    reported: list[ReportedView] = Field(description="problems that it has reported and that last")
    failures: int = Field(description="tries of the current message that failed; 0 if none did")
    error: str = Field(description="why the last try failed, or empty")


class SentView(BaseModel):
    """The channel's answer to a test message."""

    delivered: bool = Field(description="true if the channel has taken the message")
    status: int | None = Field(description="HTTP status of the answer; null without an answer")
    detail: str = Field(description="why the channel has not taken it, or empty")
    duration_ms: float = Field(description="duration of the try in ms")


class Alerting(Protocol):
    """The alerts of this process."""

    def views(self) -> Sequence[AlertView]:
        """Return the alerts and what they have sent."""

    async def test(self, name: str) -> SentView | None:
        """Send a test message to a channel, and return its answer. Return None if the alert does not exist."""
