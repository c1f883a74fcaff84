"""The one way into the dead letters: a copy on the user's topic, then the store, then it is told.

A copy is the record as it was, marked with where it comes from and why.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from app.bindings.record import Header, Record
from app.errors import BrokerError, BrokerRefused, StaleOwner
from app.interfaces import Clock, DeadLetter, Log, Notify, Offered, PullQueue
from app.interfaces.notify import DEAD_LETTERED
from app.model.message import Partition
from app.model.subscription import Subscription
from app.telemetry import Counters

MARK = (
    "skybridge-dead-letter-"  # how the names of headers begin that a copy has more than its record
)
MAX_DELIVERIES, REJECTED = "max-deliveries", "rejected"

_log = logging.getLogger("skybridge.worker")


@dataclass(eq=False, repr=False)
class DeadLettering:
    """Of one subscription. A copy is made *before* its letter is stored, for storing is what finishes the message,
    wherever it is read from (rule 2). So a letter in the store has its copy; a copy may be made twice, or of a
    message that is delivered after all, when the process dies in between.

    ``copies``  the log of its ``dead_letter`` topic, None where none is set.
    ``notify``  is told what was stored.
    """

    _subscription: Subscription
    _clock: Clock
    _counters: Counters
    _copies: Log | None
    _notify: Notify

    def __post_init__(self) -> None:
        self._target = self._subscription.dead_letter
        self._copied: set[tuple[Partition, str]] = set()  # places whose letters were not stored yet

    def now_ms(self) -> int:
        return int(self._clock.now() * 1000)

    async def put(
        self, letters: Sequence[DeadLetter], store: Callable[[], Awaitable[Sequence[bool]]]
    ) -> Sequence[bool]:
        """``store`` writes them, and says of each whether it did. Whatever it raises, and BrokerError of the
        topic: nothing is finished, and this may be repeated. A store that is full is asked again and
        again, so each is copied once."""
        await self._copy([letter for letter in letters if _place(letter) not in self._copied])
        try:
            stored = await store()
        except StaleOwner:
            self._copied.difference_update(map(_place, letters))  # they are another's
            raise
        self._copied.difference_update(map(_place, letters))
        for letter, is_stored in zip(letters, stored, strict=True):
            if is_stored:
                self._tell(letter)
        return stored

    async def put_rows(
        self, queue: PullQueue, rows: Sequence[Offered], cause: str, detail: str
    ) -> Mapping[str, bool]:
        """Of messages that wait to be pulled, by token: False where the lock ran out meanwhile, and the
        message is another's."""
        letters = {row.token: self._of_row(row, cause, detail) for row in rows}
        if not letters:
            return {}

        async def store() -> Sequence[bool]:
            fates = await queue.bury(letters, self.now_ms())
            return [fates[token] for token in letters]

        stored = await self.put(list(letters.values()), store)
        return dict(zip(letters, stored, strict=True))

    async def _copy(self, letters: Sequence[DeadLetter]) -> None:
        """Copy the letters to the user's topic. A copy that the topic refuses for good, such as one too large with
        its marks, is left out, logged and counted. Raises BrokerError for what time may mend: then the others
        are copied again."""
        if self._copies is None or self._target is None or not letters:
            return
        copies = [marked(letter) for letter in letters]
        results = await self._copies.submit(self._target.topic, copies)
        for letter, result in zip(letters, results, strict=True):
            if isinstance(result, BrokerRefused) and result.of_record:
                _log.error(
                    "%s: a dead letter does not fit its topic, and is only in the store: %s",
                    letter.subscription,
                    result,
                )
                self._counters.add("dead_letter_copies_refused", letter.subscription, result.kind)
            elif isinstance(result, BrokerError):
                raise result
            self._copied.add(_place(letter))

    def _of_row(self, row: Offered, cause: str, detail: str) -> DeadLetter:
        return DeadLetter(
            subscription=row.subscription,
            broker=row.broker,
            message=row.message,
            cause=cause,
            detail=detail,
            attempts=row.deliveries,
            status=None,
            at_ms=self.now_ms(),
            lane=row.lane,
            event=row.event,
        )

    def _tell(self, letter: DeadLetter) -> None:
        name = letter.subscription
        self._counters.add("dead_letters", name, letter.cause)
        self._counters.add("deliveries", name, "dead-lettered")
        self._notify(DEAD_LETTERED, name, {"cause": letter.cause})
        _log.info(
            "dead letter",
            extra={
                "subscription": name,
                "cause": letter.cause,
                "event_id": letter.event.id,
                "event_source": letter.event.source,
                "event_type": letter.event.type,
            },
        )


def _place(letter: DeadLetter) -> tuple[Partition, str]:
    return letter.message.partition, letter.message.position


def marked(letter: DeadLetter) -> Record:
    """The record as it was, and behind its own headers where it comes from and why, and the typed values
    that are no text, for few brokers have them. The names are outside ``ce_``, so the event is untouched."""
    record, message = letter.message.record, letter.message
    said = {
        "subscription": letter.subscription,
        "cause": letter.cause,
        "topic": message.partition.topic,
        "partition": str(message.partition.number),
        "position": message.position,
        "attempts": str(letter.attempts),
    }
    natives = record.natives
    typed = {
        name: natives[name] for name, text in record.headers if text is None and name in natives
    }
    if typed:
        said["typed"] = msgspec.json.encode(typed).decode()
    marks: tuple[Header, ...] = tuple(
        (f"{MARK}{name}", text.encode()) for name, text in said.items()
    )
    return replace(record, headers=record.headers + marks)
