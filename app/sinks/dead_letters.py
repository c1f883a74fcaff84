"""Store every dead letter in one way: copy it to the topic of the user, store it, then report it.

A copy is the original record. Additional headers name its source and its cause.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from app.bindings.record import Header, Record
from app.errors import BrokerError, BrokerRefused, StaleOwner
from app.interfaces import Clock, DeadLetter, Log, Notify, PullMessage, PullQueue
from app.interfaces.notify import DEAD_LETTERED
from app.model.message import Partition
from app.model.subscription import Subscription
from app.telemetry import Counters

HEADER_PREFIX = (
    "skybridge-dead-letter-"  # prefix of the header names that a copy adds to its record
)
MAX_DELIVERIES, REJECTED = "max-deliveries", "rejected"

_log = logging.getLogger("skybridge.worker")


@dataclass(eq=False, repr=False)
class DeadLetterWriter:
    """Writer of the dead letters of one subscription.

    A copy is made *before* its dead letter is stored, because storing the letter finishes the
    message. So each stored letter has its copy. If the process dies between the two steps, a copy
    may be made twice. Then there may also be a copy of a message that is delivered after all.

    ``_copies`` is the log of the ``dead_letter`` topic, or None if the subscription has no such
    topic. ``_notify`` receives each letter that was stored.
    """

    _subscription: Subscription
    _clock: Clock
    _counters: Counters
    _copies: Log | None
    _notify: Notify

    def __post_init__(self) -> None:
        self._target = self._subscription.dead_letter
        self._copied: set[tuple[Partition, str]] = set()  # copied, but not stored yet

    def now_ms(self) -> int:
        """Return the wall clock time in ms since the epoch."""
        return int(self._clock.now() * 1000)

    async def put(
        self, letters: Sequence[DeadLetter], store: Callable[[], Awaitable[Sequence[bool]]]
    ) -> Sequence[bool]:
        """Copy the letters, store them with ``store``, and report those that were stored.

        A letter whose storing failed may be passed again. Such a letter is not copied again,
        because a full store is tried many times.

        Args:
            letters: the dead letters, in order.
            store: writes the letters. It returns for each letter True if that letter was stored.

        Returns:
            The result of ``store``.

        Raises:
            BrokerError: the topic of the copies failed; no message is finished.
            StaleOwner: the partition has a newer owner. Other errors of ``store`` pass through,
                too.
        """
        await self._copy(
            [letter for letter in letters if _message_position(letter) not in self._copied]
        )
        try:
            stored = await store()
        except StaleOwner:
            self._copied.difference_update(
                map(_message_position, letters)
            )  # the new owner of the partition copies them
            raise
        self._copied.difference_update(map(_message_position, letters))
        for letter, is_stored in zip(letters, stored, strict=True):
            if is_stored:
                self._report(letter)
        return stored

    async def put_rows(
        self, queue: PullQueue, rows: Sequence[PullMessage], cause: str, detail: str
    ) -> Mapping[str, bool]:
        """Make dead letters of messages that wait in a pull queue.

        Returns:
            For each lock token, True if the letter was stored. False means that the lock expired
                and another consumer may have the message.
        """
        letters = {row.token: self._of_row(row, cause, detail) for row in rows}
        if not letters:
            return {}

        async def store() -> Sequence[bool]:
            fates = await queue.bury(letters, self.now_ms())
            return [fates[token] for token in letters]

        stored = await self.put(list(letters.values()), store)
        return dict(zip(letters, stored, strict=True))

    async def _copy(self, letters: Sequence[DeadLetter]) -> None:
        """Copy the letters to the topic of the user.

        A copy that the topic refuses for good, for example as too large, is skipped, logged and
        counted. Raise BrokerError for a failure that may pass; the failed letters are then copied
        again by a later call.
        """
        if self._copies is None or self._target is None or not letters:
            return
        copies = [marked_copy(letter) for letter in letters]
        results = await self._copies.submit(self._target.topic, copies)
        for letter, result in zip(letters, results, strict=True):
            if isinstance(result, BrokerRefused) and result.of_record:
                _log.error(
                    "%s: the dead-letter topic refused a copy, which is only in the store: %s",
                    letter.subscription,
                    result,
                )
                self._counters.add("dead_letter_copies_refused", letter.subscription, result.kind)
            elif isinstance(result, BrokerError):
                raise result
            self._copied.add(_message_position(letter))

    def _of_row(self, row: PullMessage, cause: str, detail: str) -> DeadLetter:
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

    def _report(self, letter: DeadLetter) -> None:
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


def _message_position(letter: DeadLetter) -> tuple[Partition, str]:
    return letter.message.partition, letter.message.position


def marked_copy(letter: DeadLetter) -> Record:
    """Return the record with headers that name its source and the cause of the dead letter.

    The header ``typed`` holds, as JSON, the typed values that are no text, because few brokers
    support them. No name begins with ``ce_``, so the event is unchanged.
    """
    record, message = letter.message.record, letter.message
    marks = {
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
        marks["typed"] = msgspec.json.encode(typed).decode()
    headers: tuple[Header, ...] = tuple(
        (f"{HEADER_PREFIX}{name}", text.encode()) for name, text in marks.items()
    )
    return replace(record, headers=record.headers + headers)
