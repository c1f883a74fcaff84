"""Stands where a sink would: events of this subscription are fetched, nothing is sent."""

from __future__ import annotations

from app.interfaces import Outgoing, Sink, SinkAnswer

_ANSWER = SinkAnswer(
    None, fault="bad-request", detail="nothing is sent where events are pulled: :receive them"
)


class NullSink(Sink):
    """For whoever tries all the same, as a test of the subscription does."""

    async def send(self, outgoing: Outgoing) -> SinkAnswer:  # noqa: ARG002 - whatever it is
        return _ANSWER

    async def stop(self) -> None:
        """There is nothing to close."""
