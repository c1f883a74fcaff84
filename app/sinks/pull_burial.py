"""What was handed out for the last time: from the queue of a pull subscription to the dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.interfaces import Clock, DeadLetter, Offered, PullQueue
from app.sinks.dead_letter_topic import DeadLetterTopic

MAX_DELIVERIES, REJECTED = "max-deliveries", "rejected"


class PullBurial:
    """``topic``: where the subscription wants a copy, None where it wants none."""

    def __init__(self, queue: PullQueue, topic: DeadLetterTopic | None, clock: Clock) -> None:
        self._queue = queue
        self._topic = topic
        self._clock = clock
        self._copied: set[int] = set()  # rows whose letters were not stored yet

    async def bury(self, rows: Sequence[Offered], cause: str, detail: str) -> Mapping[str, bool]:
        """By token: False where the lock ran out meanwhile, and the message is another's affair. The copy
        is acknowledged before the letter is stored (rule 2). Raises BrokerError and StoreUnavailable:
        nothing is finished then, and the locks hold.
        """
        letters = {row.token: self._letter(row, cause, detail) for row in rows}
        if not letters:
            return {}
        if self._topic is not None:
            await self._copy(
                self._topic, [row for row in rows if row.id not in self._copied], letters
            )
        buried = await self._queue.bury(letters, self._now_ms())
        self._copied.difference_update(row.id for row in rows)
        return buried

    async def _copy(
        self, topic: DeadLetterTopic, rows: Sequence[Offered], letters: Mapping[str, DeadLetter]
    ) -> None:
        await topic.put([letters[row.token] for row in rows])
        self._copied.update(row.id for row in rows)

    def _letter(self, row: Offered, cause: str, detail: str) -> DeadLetter:
        return DeadLetter(
            subscription=row.subscription,
            broker=row.broker,
            message=row.message,
            cause=cause,
            detail=detail,
            attempts=row.deliveries,
            status=None,
            at_ms=self._now_ms(),
            lane=row.lane,
            event=row.event,
        )

    def _now_ms(self) -> int:
        return int(self._clock.now() * 1000)
