"""Dead letters, stored before their message counts as finished (rule 2), and the word of a 410."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from app.bindings.record import Header, Record
from app.delivery.backoff import doubling
from app.errors import BrokerError, BrokerRefused, StaleOwner, StoreUnavailable
from app.interfaces import Clock, DeadLetter, Log, Store
from app.model.message import Message
from app.model.subscription import Subscription

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between tries at a store or topic that refuses

_log = logging.getLogger("skybridge.worker")


class Burial:
    """Tries until it is stored: until then the message is not finished, and its lane waits.

    ``copies``  the log of the ``dead_letter`` topic, None where none is set. Its acknowledgement is
                part of *finished*; a copy may be made twice when the process dies in between, and one
                that is too large with its marks is left out: its letter is in the store.
    """

    def __init__(
        self,
        subscription: Subscription,
        store: Store,
        clock: Clock,
        jitter: Callable[[], float],
        copies: Log | None,
    ) -> None:
        self._subscription = subscription
        self._store = store
        self._clock = clock
        self._jitter = jitter
        self._copies = copies
        self.trouble = ""

    async def bury(
        self, message: Message, *, cause: str, detail: str, attempts: int, status: int | None
    ) -> bool:
        """False: a newer owner has the partition, and the message is its affair now."""
        letter = DeadLetter(
            subscription=self._subscription.id,
            broker=self._subscription.source.broker,
            message=message,
            cause=cause,
            detail=detail,
            attempts=attempts,
            status=status,
            at_ms=int(self._clock.now() * 1000),
        )
        try:
            await self._until_done(lambda: self._store.add_dead_letter(letter))
        except StaleOwner as error:
            _log.warning("%s", error)
            return False
        if self._copies is not None:
            await self._until_done(lambda: self._copy(letter))
        return True

    async def disable(self, cause: str) -> None:
        """W5: the target is gone; remembered through restarts."""
        await self._until_done(lambda: self._store.set_disabled(self._subscription.id, cause))

    async def _copy(self, letter: DeadLetter) -> None:
        target = self._subscription.dead_letter
        if target is None or self._copies is None:
            return
        (result,) = await self._copies.submit(target.topic, [marked(letter)])
        if isinstance(result, BrokerRefused) and result.kind == "record-too-large":
            _log.error(
                "%s: a dead letter is too large for its topic: %s", letter.subscription, result
            )
        elif isinstance(result, BrokerError):
            raise result

    async def _until_done(self, step: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            try:
                await step()
            except (StoreUnavailable, BrokerError) as error:
                failures += 1
                self.trouble = f"a dead letter cannot be stored: {error}"
                _log.error("%s: %s", self._subscription.id, self.trouble)
                pause = doubling(FIRST_WAIT, LONGEST_WAIT, failures, self._jitter())
                await self._clock.sleep(pause)
            else:
                self.trouble = ""
                return


def marked(letter: DeadLetter) -> Record:
    """The record as it was, and behind its own headers where it comes from and why. The names are
    outside ``ce_``, so the event is untouched."""
    record, message = letter.message.record, letter.message
    said = {
        "subscription": letter.subscription,
        "cause": letter.cause,
        "topic": message.partition.topic,
        "partition": str(message.partition.number),
        "position": message.position,
        "attempts": str(letter.attempts),
    }
    marks: tuple[Header, ...] = tuple(
        (f"skybridge-dead-letter-{name}", text.encode()) for name, text in said.items()
    )
    return Record(record.key, record.headers + marks, record.body, record.content_type)
