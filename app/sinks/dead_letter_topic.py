"""Copies of dead letters on a topic of the user's: the record as it was, marked with where from and why."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from app.bindings.record import Header, Record
from app.errors import BrokerError, BrokerRefused
from app.interfaces import DeadLetter, Log

_log = logging.getLogger("skybridge.worker")

_UNFIT = {"record-too-large", "not-capable"}  # no time will mend it


class DeadLetterTopic:
    """A copy is made *before* its letter is stored, for storing is what finishes the message, wherever it
    is read from: a log, a parked row, the queue of those that are pulled (rule 2). So a letter in the
    store has its copy; a copy may be made twice, or of a message that is delivered after all, when
    the process dies in between.
    """

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        self._topic = topic

    async def put(self, letters: Sequence[DeadLetter]) -> None:
        """Acknowledged when it returns. One that its topic can never take, such as one too large with its
        marks, is left out. Raises BrokerError for what time may mend: then all of them are put again.
        """
        if not letters:
            return
        results = await self._log.submit(self._topic, [marked(letter) for letter in letters])
        for letter, result in zip(letters, results, strict=True):
            if isinstance(result, BrokerRefused) and result.kind in _UNFIT:
                _log.error(
                    "%s: a dead letter does not fit its topic: %s", letter.subscription, result
                )
            elif isinstance(result, BrokerError):
                raise result


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
        (f"skybridge-dead-letter-{name}", text.encode()) for name, text in said.items()
    )
    return replace(record, headers=record.headers + marks)
