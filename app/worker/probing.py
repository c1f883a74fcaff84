"""What a paused endpoint is tried with once its pause is over (rule 6): one delivery, tried longest ago."""

from __future__ import annotations

from app.delivery.endpoint import Flow
from app.worker.delivery import Delivery
from app.worker.drain_parked import Drain
from app.worker.gate import Gate
from app.worker.origins import LEASE_RECHECK
from app.worker.parking import Parking
from app.worker.scheduler import Scheduler


class Probing:
    """Of one subscription. It chooses between what is held in memory and what is parked."""

    def __init__(self, gate: Gate, scheduler: Scheduler, parking: Parking, drain: Drain) -> None:
        self._gate = gate
        self._scheduler = scheduler
        self._parking = parking
        self._drain = drain

    def act(self, now: float) -> float | None:
        """Begin the probe if it is due, and when it is due else."""
        endpoint = self._gate.endpoint
        if self._gate.halted or endpoint.flow is not Flow.PAUSED:
            return None
        if now < endpoint.until:
            return endpoint.until
        if not self._scheduler.paced() and endpoint.probe_if_due(now):
            self._probe(now)
        return endpoint.until if endpoint.until > now else None

    def _probe(self, now: float) -> None:
        lanes, endpoint = self._scheduler.lanes, self._gate.endpoint
        new = lanes.oldest(untried) if endpoint.doubtful else None
        lane, parked = new or lanes.oldest(), self._parking.lanes.oldest()
        if not new and parked is not None and (lane is None or parked.since < lane.since):
            self._drain.probe(parked)
        elif lane is not None:
            self._scheduler.probe(lane)
        elif lanes.held:  # all of it is still on the wire
            endpoint.probe_came_to_nothing(now + LEASE_RECHECK)
        else:
            endpoint.nothing_to_probe()
            self._scheduler.wake()


def untried(delivery: Delivery) -> bool:
    return not delivery.attempts
