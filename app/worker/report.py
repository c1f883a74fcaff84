"""Report the status of a dispatcher and its waiting events, without changing anything."""

from __future__ import annotations

from dataclasses import dataclass

from app.delivery.endpoint import BreakerState
from app.interfaces import Consumer, WaitingEvent
from app.model.subscription_status import SubscriptionStatus
from app.worker.components import Components
from app.worker.shared import DispatcherPart


@dataclass(eq=False, repr=False)
class StatusReport(DispatcherPart):
    """Builds the status of one dispatcher. The ``trouble`` of this object has precedence over the ``trouble`` of
    the other parts."""

    _components: Components

    def status(self, state: str, consumer: Consumer | None) -> SubscriptionStatus:
        """Return the status of the subscription.

        Args:
            state: the state of the dispatcher.
            consumer: the consumer of the dispatcher, or None before it has joined its group.
        """
        components = self._components
        lanes, gate, parking = components.lanes, components.gate, components.parking
        endpoint, partitions = gate.endpoint, components.ownership.partitions
        paused_for = None  # a halted endpoint is not probed
        if endpoint.flow is not BreakerState.FLOWING and not gate.halted:
            paused_for = max(0.0, endpoint.until - self._clock.monotonic())
        if state == "running" and not gate.is_open:
            state = "disabled" if gate.disabled else "paused"
        windows = () if consumer is None else map(consumer.window, partitions)
        return SubscriptionStatus(
            id=self._subscription.id,
            sink=self._subscription.sink_text,
            broker=self._subscription.source.broker,
            group=components.group,
            state=state,
            cause=self._cause(consumer),
            partitions=tuple(sorted(partitions, key=str)),
            held=lanes.held + parking.unwritten,
            in_flight=lanes.sending,
            waiting=lanes.waiting + components.sink.queued(),
            window=max(windows, default=0),
            paused_for=paused_for,
            oldest=self._oldest(),
            parked_rows=parking.lanes.rows,
            parked_keys=parking.lanes.keys,
            queue_bound=self._subscription.queue_bound,
        )

    def waiting(self, event_id: str) -> list[WaitingEvent]:
        """Return the held events with this id that are not in the store and were not tried yet."""
        return [
            WaitingEvent(
                subscription=self._subscription.id,
                partition=delivery.message.partition,
                position=delivery.message.position,
                event=name,
                behind=head.name if ahead else None,
                parked=False,
            )
            for head, *others in self._components.lanes.queues()
            for ahead, delivery in enumerate((head, *others))
            if delivery.origin.parked_since_ms is None and not delivery.attempts
            if (name := delivery.name).id == event_id
        ]

    def _cause(self, consumer: Consumer | None) -> str:
        of = self._components
        parts: list[DispatcherPart] = [of.ownership, of.gate, of.conclusions, of.parking]
        parts += (of.rows, of.drain, of.redrive, of.replays)
        causes = (
            self.trouble,
            *(watch.trouble for watch in of.watches),
            of.gate.halted,
            of.gate.endpoint.cause,
            *(part.trouble for part in parts),
            of.parking.full_cause,
            _lacking(consumer),
        )
        return next(filter(None, causes), "")

    def _oldest(self) -> float | None:
        heads = (head for head in self._components.lanes.heads() if head.origin.age_limited)
        came = min((head.message.time_ms for head in heads), default=None)
        return None if came is None else max(0.0, self._clock.now() - came / 1000)


def _lacking(consumer: object) -> str:
    """Return the attribute ``trouble`` of consumers that have it: what the consumer cannot read or store, why, and the
    cure. Return "" for others."""
    trouble: str = getattr(consumer, "trouble", "")
    return trouble
