"""Carries out what was decided of a message: finished, held, parked, buried, or given back.

What the store does not take now holds its lane: it is done again later, without another attempt, and
nothing is finished before (rule 2).
"""

from __future__ import annotations

from collections.abc import Callable

from app.delivery.backoff import doubling
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
from app.interfaces import Clock
from app.model.message import Message
from app.worker.attempts import DELIVERED, EXPIRED, AttemptLog
from app.worker.burial import FIRST_WAIT, LONGEST_WAIT, Burial
from app.worker.intake import Held, Verdict
from app.worker.parking import Parking
from app.worker.timing import Timekeeper

LEASE_RECHECK = 0.2  # seconds until a message whose partition is in doubt is looked at again


class Conclusions:
    """``finished``  messages to settle; whoever settles them empties it.
    ``released``  told of each message that is held no more.
    ``halt``      told that nothing may be sent any more, and why.
    """

    def __init__(
        self,
        clock: Clock,
        lanes: Lanes[Held],
        parked: Parking,
        burial: Burial,
        timekeeper: Timekeeper,
        attempts: AttemptLog,
        jitter: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._lanes = lanes
        self._burial = burial
        self._timekeeper = timekeeper
        self._attempts = attempts
        self._jitter = jitter
        self._holds: Callable[[Message], bool] = lambda _: False
        self._released: Callable[[Held], None] = lambda _: None
        self._halt: Callable[[str], None] = lambda _: None
        self.disabling = 0  # words of a 410 that are being stored
        self.parked = parked
        self.finished: list[Message] = []
        self.trouble = ""

    def begin(
        self,
        holds: Callable[[Message], bool],
        released: Callable[[Held], None],
        halt: Callable[[str], None],
    ) -> None:
        self._holds, self._released, self._halt = holds, released, halt

    async def carry_out(self, lane: Lane[Held], verdict: Verdict) -> None:
        """``lane`` is in flight, and its head came down."""
        held = lane.head
        held.last = verdict
        match verdict.decision:
            case Settle():
                self._finish(lane, DELIVERED)
            case Expire():
                self._finish(lane, EXPIRED)
            case RetryAt(at):
                held.steps += 1
                self.wait(lane, at)
            case PauseEndpoint(until):
                await self._hold_on(lane, until)
            case Park(at) if held.row is None:
                held.steps += 1
                self._park(lane, at)
            case Park() | DeadLetterIt():
                held.steps += not held.due and isinstance(verdict.decision, Park)
                await self._store(lane, verdict)
            case Disable(cause):
                self._halt(f"disabled: {cause}")
                self.disabling += 1
                await self._burial.disable(cause)  # in flight till then: whoever stops waits for it
                self.disabling -= 1
                await self._hold_on(lane, self._clock.monotonic())

    async def carry_out_together(self, lane: Lane[Held], verdict: Verdict) -> None:
        """Of a request of several events, those of one lane: what did not come down is decided for its
        head, and the others are behind it again."""
        if not isinstance(verdict.decision, Settle):
            for held in self._lanes.sift(lane, lambda held: held.gone):
                self._released(held)
            if not lane.flying:
                self._lanes.finish(lane)
                return
            self._lanes.head_only(lane)
        await self.carry_out(lane, verdict)

    def wait(self, lane: Lane[Held], until: float) -> None:
        """Its head is to be looked at again then."""
        if lane.head.gone:
            self._release(lane)
        else:
            self._lanes.hold(lane, until)
            self._timekeeper.at(until)

    def park_waiting(self, lane: Lane[Held]) -> None:
        """A lane whose head waits for its next attempt, and nothing else."""
        head = lane.head
        retries = head.last is not None and isinstance(head.last.decision, RetryAt)
        if retries and not head.due and head.row is None and self.parked.room(len(lane.items)):
            until = lane.until
            self._park(self._lanes.take_this(lane), until)

    def stored(self, held: Held) -> None:
        """It is a row now, and finished: also where its partition is being handed over."""
        self._settle(held)
        self._attempts.parked()
        self._released(held)

    def passed_on(self, held: Held) -> None:
        """It was to be a row, and concerns others now."""
        self._released(held)

    def _park(self, lane: Lane[Held], at: float) -> None:
        """Head and followers leave together. Some are rows already: those redriven, and those of a
        parked lane behind what was replayed, which is read again from its beginning."""
        if lane.head.gone:
            self._release(lane)
            return
        items = self._lanes.remove(lane)
        for held in items:
            if held.row is not None:
                held.until = at if held.parked is not None else 0.0
                self._released(held)
        waiting = [held for held in items if held.row is None]
        self.parked.park(waiting, at, self._lanes.next_turn())
        self._timekeeper.at(at)

    async def _store(self, lane: Lane[Held], verdict: Verdict) -> None:
        """What needs the store before it is done: a dead letter, or a row that waits again."""
        held = lane.head
        if held.gone:
            self._release(lane)
            return
        if not self._holds(held.message):  # rule 5: before each store write too
            self._again(lane, self._clock.monotonic() + LEASE_RECHECK)
            return
        try:
            await self._write(lane, verdict)
        except StaleOwner as error:
            self._pass_on(held, error)
            self._release(lane)
        except (StoreUnavailable, BrokerError) as error:
            held.refusals += 1
            what = "parked event" if isinstance(verdict.decision, Park) else "dead letter"
            self.trouble = f"a {what} cannot be stored: {error}"
            pause = doubling(FIRST_WAIT, LONGEST_WAIT, held.refusals, self._jitter())
            self._again(lane, self._clock.monotonic() + pause)
        else:
            self.trouble = ""

    async def _hold_on(self, lane: Lane[Held], until: float) -> None:
        """Its head is sent again when the endpoint may be. A row says so meanwhile, and how often it was
        tried; one that the store does not take stays as it was, which loses nothing."""
        held = lane.head
        if held.row is not None and self._is_ours(held):
            try:
                await self.parked.defer(held, until)
            except StaleOwner as error:
                self._pass_on(held, error)
            except StoreUnavailable as error:
                self.trouble = f"a parked event cannot be stored: {error}"
            else:
                self.trouble = ""
        self._give_back(lane)

    def _pass_on(self, held: Held, error: StaleOwner) -> None:
        """A newer owner has it. Raises StaleOwner where the log says that we have it all the same."""
        if self._is_ours(held):
            place = held.message.partition
            raise StaleOwner(f"{place}: the store and the log differ on its owner") from error
        held.gone = True

    def _is_ours(self, held: Held) -> bool:
        return not held.gone and self._holds(held.message)

    async def _write(self, lane: Lane[Held], verdict: Verdict) -> None:
        held = lane.head
        match verdict.decision:
            case Park(at):
                await self.parked.defer(held, at)
                self._deferred(lane, at)
            case DeadLetterIt(cause):
                await self._burial.bury(held, verdict)
                self._attempts.buried(cause)
                if held.row is None:
                    self._settle(held)
                else:
                    held.done = True
                    self.parked.sweeper.uncount(held)
                self._release(lane)

    def _again(self, lane: Lane[Held], at: float) -> None:
        lane.head.due = True
        self.wait(lane, at)

    def _deferred(self, lane: Lane[Held], at: float) -> None:
        """The row waits in the store. Of a parked lane all leave: what follows comes from there again, and
        what is no row yet (replayed, or of another partition) goes there; a redriven one lets those
        behind it go on."""
        held = lane.head
        held.until = at
        if held.row is not None and held.row.redriven:
            self._release(lane)
            return
        for each in self._lanes.remove(lane):
            if each.row is None:
                self.parked.follow(each)
            else:
                self._released(each)

    def _finish(self, lane: Lane[Held], outcome: str) -> None:
        for held in self._lanes.on_the_wire(lane):
            if held.row is None:
                self._settle(held)
            elif not held.gone or self._holds(held.message):  # revoked, and still ours
                self.parked.sweeper.finished(held)
            self._attempts.finished(outcome)
        self._release(lane)

    def _settle(self, held: Held) -> None:
        if not held.replayed:
            self.finished.append(held.message)

    def _release(self, lane: Lane[Held]) -> None:
        landed = self._lanes.on_the_wire(lane)
        self._lanes.finish(lane)
        for held in landed:
            self._released(held)

    def _give_back(self, lane: Lane[Held]) -> None:
        if lane.head.gone:
            self._release(lane)
        else:
            self._lanes.give_back(lane)
