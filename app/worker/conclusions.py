"""Carries out what was decided of a delivery: each ends with a verb of its origin, or waits in its lane.

What the store does not take now holds its lane: it is done again later, without another attempt, and
nothing is finished before (rule 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.delivery.backoff import try_again_in
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
from app.sinks.dead_letters import DeadLettering
from app.worker.attempts import DELIVERED, EXPIRED
from app.worker.delivery import Delivery, Verdict
from app.worker.gate import Gate
from app.worker.parking import Parking
from app.worker.shared import LEASE_RECHECK, DispatcherPart


@dataclass(eq=False, repr=False)
class Conclusions(DispatcherPart):
    """What the attempts of a subscription end in."""

    _lanes: Lanes[Delivery]
    _gate: Gate
    _parking: Parking
    _letters: DeadLettering

    async def carry_out(self, lane: Lane[Delivery], verdict: Verdict) -> None:
        """``lane`` is in flight, and its head came down."""
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
                await self._hold_on(lane, until, sent=sent)
            case Park() | DeadLetterIt():
                parks = isinstance(verdict.decision, Park) and verdict.decision.step
                delivery.steps += parks and not delivery.due
                await self._keep(lane, verdict)
            case Disable(cause):  # in flight till it is stored: a stop waits for it
                await self._gate.disable(cause)
                await self._hold_on(lane, self._clock.monotonic())

    def delivered(self, lane: Lane[Delivery]) -> None:
        """The same of what is on the wire of it where that was delivered: nothing is waited for."""
        self._finish(lane, DELIVERED)

    async def carry_out_together(self, lane: Lane[Delivery], verdict: Verdict) -> None:
        """Of a request of several events, those of one lane: what did not come down is decided for its
        head, and the others are behind it again."""
        if not isinstance(verdict.decision, Settle):
            for delivery in self._lanes.sift(lane, lambda each: each.origin.owned.lost):
                self.release(delivery)
            if not lane.flying:
                self._lanes.finish(lane)
                return
            self._lanes.head_only(lane)
        await self.carry_out(lane, verdict)

    def wait(self, lane: Lane[Delivery], until: float) -> None:
        """Its head is to be looked at again then."""
        if lane.head.origin.owned.lost:
            self._release(lane)
        else:
            self._lanes.hold(lane, until)
            self._timekeeper.at(until)

    def park_waiting(self, lane: Lane[Delivery]) -> None:
        """A lane whose head waits in memory for its next attempt, and nothing else."""
        head = lane.head
        retries = isinstance(head.last.decision, RetryAt) and not head.due
        if retries and head.origin.since_ms is None and self._parking.room(len(lane.items)):
            until = lane.until
            self._leave(self._lanes.take_this(lane), until)

    def release(self, delivery: Delivery) -> None:
        """It concerns others now."""
        self._part.release(delivery.size)
        delivery.origin.release(delivery)

    async def dead_letter(self, delivery: Delivery, verdict: Verdict) -> None:
        """The message is finished when this returns, in the step in which its dead letter is stored.
        StoreUnavailable and BrokerError: it is not, and this may be repeated. StaleOwner: a newer
        owner has the partition."""
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

    async def _keep(self, lane: Lane[Delivery], verdict: Verdict) -> None:
        """What needs the store before it is done: a dead letter, or a wait that is a row."""
        delivery = lane.head
        if delivery.origin.owned.lost:
            self._release(lane)
            return
        if not delivery.origin.owned.holds():  # rule 5: before each store write too
            self._again(lane, self._clock.monotonic() + LEASE_RECHECK)
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
            pause = try_again_in(delivery.refusals, self._jitter())
            self._again(lane, self._clock.monotonic() + pause)
        else:
            delivery.due = False
            if isinstance(verdict.decision, Park):
                self._leave(lane, verdict.decision.at)
            else:
                self.trouble = ""
                self._landed(lane)

    async def _hold_on(self, lane: Lane[Delivery], until: float, *, sent: bool = True) -> None:
        """Its head is sent again when the endpoint may be. A row says so meanwhile, and how often it was
        tried; one that the store does not take stays as it was, which loses nothing."""
        delivery = lane.head
        owned = delivery.origin.owned
        is_row = delivery.origin.since_ms is not None
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
        if owned.lost:
            self._release(lane)
        else:
            self._lanes.give_back(lane, first=not sent)

    def _again(self, lane: Lane[Delivery], at: float) -> None:
        lane.head.due = True
        self.wait(lane, at)

    def _leave(self, lane: Lane[Delivery], at: float) -> None:
        """Head and followers leave the memory together, but for those behind a head that nobody waits for."""
        head = lane.head
        if head.origin.owned.lost:
            self._release(lane)
            return
        if not head.origin.holds_lane:
            self._leave_alone(lane, at)
            return
        for delivery in self._lanes.remove(lane):
            if delivery is head or delivery.origin.holds_lane:
                self._put_off(delivery, at)
            else:
                self.release(delivery)
        self._timekeeper.at(at)

    def _leave_alone(self, lane: Lane[Delivery], at: float) -> None:
        """Put a redriven head off, and the redriven ones behind it, which must not overtake it. Live events of
        the key go on."""
        head = lane.head
        behind = self._lanes.drop_behind(lane, lambda each: not each.origin.holds_lane)
        self._landed(lane)
        for delivery in (head, *behind):
            if delivery is not head:
                self._part.release(delivery.size)
            delivery.origin.retry_at(delivery, at)

    def _put_off(self, delivery: Delivery, at: float) -> None:
        """Until it is a row it costs memory as before (``Parking``)."""
        if delivery.origin.since_ms is not None:
            self._part.release(delivery.size)
        delivery.origin.retry_at(delivery, at)

    def _finish(self, lane: Lane[Delivery], outcome: str) -> None:
        landed = self._landed(lane)
        for delivery in landed:
            delivery.origin.finish(delivery)
        self._attempts.finished(outcome, len(landed))

    def _release(self, lane: Lane[Delivery]) -> None:
        for delivery in self._landed(lane):
            delivery.origin.release(delivery)

    def _landed(self, lane: Lane[Delivery]) -> list[Delivery]:
        """What was on the wire of it is held no more."""
        landed = self._lanes.finish(lane)
        for delivery in landed:
            self._part.release(delivery.size)
        return landed
