"""How a dispatcher fares: its status, and which of its events wait. It looks, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from app.delivery.endpoint import Flow
from app.delivery.lanes import Lanes
from app.interfaces import Consumer, Sink, Waiting
from app.model.subscription_status import SubscriptionStatus
from app.worker.delivery import Delivery
from app.worker.gate import Gate
from app.worker.ownership import Ownership
from app.worker.parking import Parking
from app.worker.shared import DispatcherPart, Shared


class StatusReport(DispatcherPart):
    """Of one subscription. ``watches`` and ``parts``: what may be in trouble, the gravest first; graver
    than all of it is the ``trouble`` of the report itself."""

    def __init__(
        self,
        shared: Shared,
        group: str,
        sink: Sink,
        lanes: Lanes[Delivery],
        gate: Gate,
        parking: Parking,
        ownership: Ownership,
        watches: Sequence[DispatcherPart],
        parts: Sequence[DispatcherPart],
    ) -> None:
        super().__init__(shared)
        self._group = group
        self._sink = sink
        self._lanes = lanes
        self._gate = gate
        self._parking = parking
        self._ownership = ownership
        self._watches = watches
        self._parts = parts

    def status(self, state: str, consumer: Consumer | None) -> SubscriptionStatus:
        """``state``: of the dispatcher. ``consumer``: None while it has none."""
        endpoint, lanes, partitions = self._gate.endpoint, self._lanes, self._ownership.partitions
        paused_for = None
        if endpoint.flow is not Flow.FLOWING:
            paused_for = max(0.0, endpoint.until - self._clock.monotonic())
        if state == "running" and not self._gate.is_open:
            state = "disabled" if self._gate.disabled else "paused"
        windows = () if consumer is None else map(consumer.window, partitions)
        return SubscriptionStatus(
            id=self._subscription.id,
            sink=self._subscription.sink_text,
            broker=self._subscription.source.broker,
            group=self._group,
            state=state,
            cause=self._cause(),
            partitions=tuple(sorted(partitions, key=str)),
            held=lanes.held,
            in_flight=lanes.flying,
            waiting=lanes.waiting + self._sink.queued(),
            window=max(windows, default=0),
            paused_for=paused_for,
            oldest=self._oldest(),
            parked_rows=self._parking.kept,
            parked_keys=len(self._parking.lanes),
        )

    def waiting(self, event_id: str) -> list[Waiting]:
        """The events of this id that are held, are no rows of the store and were not tried yet."""
        return [
            Waiting(
                subscription=self._subscription.id,
                partition=delivery.message.partition,
                position=delivery.message.position,
                event=name,
                behind=head.name if ahead else None,
                parked=False,
            )
            for head, *others in self._lanes.queues()
            for ahead, delivery in enumerate((head, *others))
            if delivery.origin.since_ms is None and not delivery.attempts
            if (name := delivery.name).id == event_id
        ]

    def _cause(self) -> str:
        """What hinders it, in words for a person."""
        causes = (
            self.trouble,
            *(watch.trouble for watch in self._watches),
            self._gate.halted,
            self._gate.endpoint.cause,
            *(part.trouble for part in self._parts),
            self._parking.full_cause,
        )
        return next(filter(None, causes), "")

    def _oldest(self) -> float | None:
        heads = (head for head in self._lanes.heads() if head.origin.ages)
        came = min((head.message.time_ms for head in heads), default=None)
        return None if came is None else max(0.0, self._clock.now() - came / 1000)
