"""Dead letters, stored before their message counts as finished (rule 2), and the word of a 410."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from app.delivery.backoff import doubling
from app.errors import StoreUnavailable
from app.interfaces import Clock, DeadLetter, Log, Notify, Store, silence
from app.interfaces.notify import DEAD_LETTERED, DISABLED
from app.model.subscription import Subscription
from app.sinks.dead_letter_topic import DeadLetterTopic
from app.worker.intake import Held, Verdict, name_of

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between tries at a store or topic that refuses

_log = logging.getLogger("skybridge.worker")


class Burial:
    """``copies``  the log of the ``dead_letter`` topic, None where none is set. The copy is acknowledged
                before the letter is stored (``DeadLetterTopic``).
    ``notify``  is told what was stored.
    """

    def __init__(
        self,
        subscription: Subscription,
        store: Store,
        clock: Clock,
        jitter: Callable[[], float],
        copies: Log | None,
        notify: Notify = silence,
    ) -> None:
        target = subscription.dead_letter
        self._subscription = subscription
        self._store = store
        self._clock = clock
        self._jitter = jitter
        self._topic = DeadLetterTopic(copies, target.topic) if copies and target else None
        self._notify = notify
        self.trouble = ""

    async def bury(self, held: Held, verdict: Verdict) -> None:
        """The message is finished when this returns; the row that it was until now went in the same
        step. StoreUnavailable and BrokerError: it is not, and this may be repeated. StaleOwner: a newer
        owner has the partition, and the message is its affair now."""
        letter = DeadLetter(
            subscription=self._subscription.id,
            broker=self._subscription.source.broker,
            message=held.message,
            cause=verdict.cause,
            detail=verdict.detail,
            attempts=held.attempts,
            status=verdict.status,
            at_ms=int(self._clock.now() * 1000),
            lane=held.lane,
            event=name_of(held),
        )
        if self._topic is not None and not held.copied:
            await self._topic.put([letter])
            held.copied = True  # a store that is full is asked again and again
        await self._store.letters.add(letter, None if held.row is None else held.row.id)
        self._notify(DEAD_LETTERED, self._subscription.id, {"cause": verdict.cause})
        name = name_of(held)
        _log.info(
            "dead letter",
            extra={
                "subscription": self._subscription.id,
                "cause": verdict.cause,
                "event_id": name.id,
                "event_source": name.source,
                "event_type": name.type,
            },
        )

    async def disable(self, cause: str) -> None:
        """W5: the target is gone; remembered through restarts."""
        now_ms = int(self._clock.now() * 1000)
        halts, name = self._store.halts, self._subscription.id
        await self._until_done(lambda: halts.halt(name, "disabled", cause, now_ms))
        self._notify(DISABLED, name, {"cause": cause})

    async def _until_done(self, step: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            try:
                await step()
            except StoreUnavailable as error:
                failures += 1
                self.trouble = f"that it is disabled cannot be stored: {error}"
                _log.error("%s: %s", self._subscription.id, self.trouble)
                pause = doubling(FIRST_WAIT, LONGEST_WAIT, failures, self._jitter())
                await self._clock.sleep(pause)
            else:
                self.trouble = ""
                return
