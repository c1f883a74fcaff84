"""Carry out what was decided about a delivery: it ends at its origin or waits in the queue of its key (its lane).

If the store refuses a write, later events of the key wait, and the write is repeated later without another attempt.
Nothing is finished before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from app.delivery.backoff import backoff_delay
from app.delivery.lanes import Lane, Lanes
from app.delivery.plan import (
    DeadLetterIt,
    Disable,
    Expire,
    Park,
    PauseEndpoint,
    RetryAt,
    Settle,
)
from app.errors import BrokerError, StaleOwner, StoreUnavailable
from app.interfaces import DeadLetter
from app.sinks.dead_letters import DeadLetterWriter
from app.worker.attempts import DELIVERED, EXPIRED
from app.worker.delivery import Delivery, Verdict
from app.worker.gate import EndpointState
from app.worker.parking import KeyParking
from app.worker.shared import LEASE_RECHECK, DispatcherPart


@dataclass(eq=False, repr=False)
class Conclusions(DispatcherPart):
    """Carries out what was decided about the deliveries of one subscription."""

    _lanes: Lanes[Delivery]
    _gate: EndpointState
    _parking: KeyParking
    _letters: DeadLetterWriter

    async def carry_out(self, lane: Lane[Delivery], verdict: Verdict) -> None:
        """Carry out the verdict on the first event of a lane (the queue of one key), whose request has ended."""
        delivery = lane.head
        delivery.last = verdict
        match verdict.decision:
            case Settle():
                self.delivered(lane)
            case Expire():
                self._finish(lane, EXPIRED)
            case RetryAt(at, step):
                delivery.steps += step
                self.wait(lane, at)
            case PauseEndpoint(until, sent):
                await self._retry_after_pause(lane, until, sent=sent)
            case Park() | DeadLetterIt():
                parks = isinstance(verdict.decision, Park) and verdict.decision.step
                delivery.steps += parks and not delivery.store_pending
                await self._store_outcome(lane, verdict)
            case Disable(
                cause
            ):  # the lane stays in flight until this is stored, so that a stop waits
                await self._gate.disable(cause)
                await self._retry_after_pause(lane, self._clock.monotonic())

    def carry_out_now(self, lane: Lane[Delivery], verdict: Verdict) -> bool:
        """Carry out a verdict that lets the first event of a lane wait in memory. Return False for others, which
        may have to wait for the store."""
        delivery = lane.head
        match verdict.decision:
            case RetryAt(at, step):
                delivery.last = verdict
                delivery.steps += step
                self.wait(lane, at)
            case PauseEndpoint(_, sent) if delivery.origin.parked_since_ms is None:
                delivery.last = verdict
                self._return_to_queue(lane, sent=sent)
            case _:
                return False
        return True

    def _return_to_queue(self, lane: Lane[Delivery], *, sent: bool) -> None:
        if lane.head.origin.owned.lost:
            self._release(lane)
        else:
            self._lanes.give_back(lane, first=not sent)

    def delivered(self, lane: Lane[Delivery]) -> None:
        """Finish the delivered events of one key (its lane), without waiting for the store."""
        if lane.sending != 1:
            self._finish(lane, DELIVERED)
            return
        delivery = self._lanes.finish_one(lane)
        self._budget.release(delivery.size)
        delivery.origin.finish(delivery)
        self._attempts.count_finished(DELIVERED)

    def delivered_first(self, lane: Lane[Delivery], delivered: Collection[Delivery]) -> None:
        """Finish the first events of one key (its lane). The other events of the request stay in flight."""
        for delivery in self._lanes.drop_sent(lane, lambda each: each in delivered):
            self._budget.release(delivery.size)
            delivery.origin.finish(delivery)
        self._attempts.count_finished(DELIVERED, len(delivered))

    async def carry_out_batch(self, lane: Lane[Delivery], verdict: Verdict) -> None:
        """Carry out the verdict on the events of one key (its lane) that were in a batch request.

        A failure decides only the first event. The others return to the queue."""
        if not isinstance(verdict.decision, Settle):
            for delivery in self._lanes.drop_sent(lane, lambda each: each.origin.owned.lost):
                self.release(delivery)
            if not lane.sending:
                self._lanes.finish(lane)
                return
            self._lanes.head_only(lane)
        await self.carry_out(lane, verdict)

    def wait(self, lane: Lane[Delivery], until: float) -> None:
        """Hold the events of one key (its lane) until the given time (monotonic seconds). Release them if their
        partition was lost."""
        if lane.head.origin.owned.lost:
            self._release(lane)
        else:
            self._lanes.hold(lane, until)
            self._timekeeper.wake_at(until)

    def park_waiting(self, lane: Lane[Delivery]) -> None:
        """Move the events of one key (its lane) from memory to the store, if the store has room. The first of them
        waits for its next attempt."""
        head = lane.head
        retries = isinstance(head.last.decision, RetryAt) and not head.store_pending
        if (
            retries
            and head.origin.parked_since_ms is None
            and self._parking.has_room(len(lane.items))
        ):
            until = lane.until
            self._move_to_store(self._lanes.take_lane(lane), until)

    def release(self, delivery: Delivery) -> None:
        """Release a delivery whose partition this process no longer owns."""
        self._budget.release(delivery.size)
        delivery.origin.release(delivery)

    async def dead_letter(self, delivery: Delivery, verdict: Verdict) -> None:
        """Store the dead letter of a delivery, which finishes the message in the same transaction.

        Raises:
            StoreUnavailable: the message is not finished; the call may be repeated.
            BrokerError: the copy for the dead-letter topic failed; the call may be repeated.
            StaleOwner: a newer owner has the partition.
        """
        letter = DeadLetter(
            subscription=self._subscription.id,
            broker=self._subscription.source.broker,
            message=delivery.message,
            cause=verdict.cause,
            detail=verdict.detail,
            attempts=delivery.attempts,
            status=verdict.status,
            at_ms=self._letters.now_ms(),
            lane=delivery.lane,
            event=delivery.name,
        )

        async def store() -> Sequence[bool]:
            await delivery.origin.dead_letter(delivery, letter)
            return (True,)

        await self._letters.put((letter,), store)

    async def _store_outcome(self, lane: Lane[Delivery], verdict: Verdict) -> None:
        """Store the dead letter or the parked row of the lane's first event. Schedule another try if the store
        refuses."""
        delivery = lane.head
        if delivery.origin.owned.lost:
            self._release(lane)
            return
        if not delivery.origin.owned.holds():  # the lease is checked before each write
            self._retry_store(lane, self._clock.monotonic() + LEASE_RECHECK)
            return
        try:
            if isinstance(verdict.decision, Park):
                await delivery.origin.save(delivery, verdict.decision.at)
            else:
                await self.dead_letter(delivery, verdict)
        except StaleOwner as error:
            delivery.origin.owned.replaced(error)
            self._release(lane)
        except (StoreUnavailable, BrokerError) as error:
            delivery.refusals += 1
            what = "parked event" if isinstance(verdict.decision, Park) else "dead letter"
            self.trouble = f"a {what} cannot be stored: {error}"
            pause = backoff_delay(delivery.refusals, self._jitter())
            self._retry_store(lane, self._clock.monotonic() + pause)
        else:
            delivery.store_pending = False
            if isinstance(verdict.decision, Park):
                self._move_to_store(lane, verdict.decision.at)
            else:
                self.trouble = ""
                self._take_in_flight(lane)

    async def _retry_after_pause(
        self, lane: Lane[Delivery], until: float, *, sent: bool = True
    ) -> None:
        """Return the first event of a lane to its queue, to be sent when the endpoint allows it.

        For a stored row, the number of attempts and the new time are saved. If the store refuses that, the row
        keeps its old values, which loses no event."""
        delivery = lane.head
        owned = delivery.origin.owned
        is_row = delivery.origin.parked_since_ms is not None
        if is_row and not owned.lost and owned.holds():
            try:
                await delivery.origin.save(delivery, until)
            except StaleOwner as error:
                owned.replaced(error)
                self._release(lane)
                return
            except StoreUnavailable as error:
                self.trouble = f"a parked event cannot be stored: {error}"
            else:
                self.trouble = ""
        self._return_to_queue(lane, sent=sent)

    def _retry_store(self, lane: Lane[Delivery], at: float) -> None:
        lane.head.store_pending = True
        self.wait(lane, at)

    def _move_to_store(self, lane: Lane[Delivery], at: float) -> None:
        """Remove the events of one key (its lane) from memory and park them in the store.

        Live events do not wait for a redriven event. If such an event is the first, only redriven events are
        parked."""
        head = lane.head
        if head.origin.owned.lost:
            self._release(lane)
            return
        if not head.origin.holds_lane:
            self._move_redriven_to_store(lane, at)
            return
        for delivery in self._lanes.remove(lane):
            if delivery is head or delivery.origin.holds_lane:
                self._defer(delivery, at)
            else:
                self.release(delivery)
        self._timekeeper.wake_at(at)

    def _move_redriven_to_store(self, lane: Lane[Delivery], at: float) -> None:
        """Return the redriven events at the start of a lane (the queue of one key) to the store. Live events of the
        key go on."""
        head = lane.head
        behind = self._lanes.drop_behind(lane, lambda each: not each.origin.holds_lane)
        self._take_in_flight(lane)
        for delivery in (head, *behind):
            if delivery is not head:
                self._budget.release(delivery.size)
            delivery.origin.retry_at(delivery, at)

    def _defer(self, delivery: Delivery, at: float) -> None:
        """Schedule the next attempt of a delivery. A delivery that is no stored row yet stays in memory until its
        row is written."""
        if delivery.origin.parked_since_ms is not None:
            self._budget.release(delivery.size)
        delivery.origin.retry_at(delivery, at)

    def _finish(self, lane: Lane[Delivery], outcome: str) -> None:
        landed = self._take_in_flight(lane)
        for delivery in landed:
            delivery.origin.finish(delivery)
        self._attempts.count_finished(outcome, len(landed))

    def _release(self, lane: Lane[Delivery]) -> None:
        for delivery in self._take_in_flight(lane):
            delivery.origin.release(delivery)

    def _take_in_flight(self, lane: Lane[Delivery]) -> list[Delivery]:
        """Remove the events of the finished request from their lane (the queue of one key). Free their memory, and
        return them."""
        landed = self._lanes.finish(lane)
        for delivery in landed:
            self._budget.release(delivery.size)
        return landed
