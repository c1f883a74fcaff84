"""What is sent of a record, and how: to a topic of Kafka, or of an embedded log through its Kafka listener, in
order per key. What marks a replay stands beside the event: its names begin with no ``ce_``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

from app.bindings import kafka
from app.bindings.record import Header, Record
from app.bindings.transcode import Writing
from app.errors import BrokerError, BrokerRefused, SenderError
from app.event.versions import NEWEST
from app.interfaces import Clock, Log
from app.model.receipt import Receipt

Form = Literal["recorded", "1.0"]
"""``recorded``: byte for byte. ``1.0``: events of older versions brought up; those of 1.0 byte for byte."""

MARK: Final = "skybridge-replay"
"""Header whose value is the replay's id."""

REDRIVEN: Final = "skybridge-redrive"
"""Header of what ``redrive`` brings back to a topic."""

UPGRADED: Final = Writing(mode="as_received", version=NEWEST)

Write = Callable[[Record], Record]
"""Raises SenderError for a record that cannot be written so."""

FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0  # seconds between attempts
PATIENCE: Final = 120.0
"""Seconds without any progress until a replay gives up: it can be resumed."""


def writer(form: Form, mark: str | None, name: str = MARK) -> Write:
    """``mark``: the value of a last header of that name; None: nothing is put to a record."""
    marks: tuple[Header, ...] = () if mark is None else ((name, mark.encode()),)

    def write(record: Record) -> Record:
        made = record if form == "recorded" else upgraded(record)
        return Record(made.key, made.headers + marks, made.body) if marks else made

    return write


def upgraded(record: Record) -> Record:
    decoded = kafka.decode(record)
    if decoded.opaque or decoded.event.version == NEWEST:
        return record
    return kafka.encode(decoded, UPGRADED, record.key)


class Outlet(Protocol):
    """Where records go. Records of one key arrive in their order."""

    async def send(self, records: Sequence[Record]) -> Mapping[str, int]:
        """Returns when each is stored, or will never be: how many of those, by the code of why. Raises
        BrokerError where nothing goes on; some are stored then.
        """


class Topic:
    """Fills ``Outlet``. After a failure all from the first that failed on is sent again: the last copy of
    each key's records is in order.
    """

    def __init__(self, log: Log, name: str, write: Write, clock: Clock) -> None:
        self._log, self._name, self._write, self._clock = log, name, write, clock

    async def send(self, records: Sequence[Record]) -> Mapping[str, int]:
        refused: Counter[str] = Counter()
        left = list(self._written(records, refused))
        trying = Patience(self._clock)
        while left:
            results = await self._log.submit(self._name, left)
            for at, result in enumerate(results):
                if isinstance(result, BrokerRefused) and result.of_record:
                    refused[result.kind] += 1
                elif not isinstance(result, Receipt):
                    left = left[at:]
                    await trying.after(result, progress=at > 0)
                    break
            else:
                break
        return refused

    def _written(self, records: Sequence[Record], refused: Counter[str]) -> list[Record]:
        found = []
        for record in records:
            try:
                found.append(self._write(record))
            except SenderError as error:
                refused[error.code] += 1
        return found


class Patience:
    """Waits between attempts, and ends when there was no progress for long."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic()
        self._delay = FIRST_WAIT

    async def after(self, error: BrokerError, *, progress: bool = False) -> None:
        """Raises ``error`` where another attempt makes no sense."""
        now = self._clock.monotonic()
        if progress:
            self._since, self._delay = now, FIRST_WAIT
        if not error.retryable or now - self._since > PATIENCE:
            raise error
        await self._clock.sleep(max(self._delay, error.retry_after or 0.0))
        self._delay = min(self._delay * 2, LONGEST_WAIT)
