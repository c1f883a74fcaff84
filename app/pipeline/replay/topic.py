"""The form of the records that a replay sends, and publishing them to a topic in order for each
key.

The topic may be of Kafka, or of an embedded log through its Kafka listener. The header that marks a
replay is not part of the event, because its name does not begin with ``ce_``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

from app.bindings import kafka
from app.bindings.record import Header, Record
from app.bindings.transcode import EncodeOptions
from app.errors import BrokerError, BrokerRefused, SenderError
from app.event.versions import NEWEST
from app.interfaces import Clock, Log
from app.model.receipt import Receipt

Form = Literal["recorded", "1.0"]
"""The form of a sent record: ``recorded`` byte for byte, or ``1.0``, which converts events of older
versions.
"""

MARK: Final = "skybridge-replay"
"""The header that marks a replayed record; its value is the id of the replay."""

REDRIVEN: Final = "skybridge-redrive"
"""The header that marks a record that ``redrive`` sends to a topic."""

UPGRADED: Final = EncodeOptions(mode="as_received", version=NEWEST)

Write = Callable[[Record], Record]
"""A function that returns a record as it is sent. It raises SenderError for a record that cannot be
converted.
"""

FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0  # seconds between attempts
PATIENCE: Final = 120.0
"""The seconds without progress after which a replay stops. A stopped replay can be resumed."""


def writer(form: Form, mark: str | None, name: str = MARK) -> Write:
    """Return a function that converts records and appends a header.

    Args:
        form: The form in which records are sent.
        mark: The value of the header; None appends no header.
        name: The name of the header.
    """
    marks: tuple[Header, ...] = () if mark is None else ((name, mark.encode()),)

    def write(record: Record) -> Record:
        made = record if form == "recorded" else upgraded(record)
        return Record(made.key, made.headers + marks, made.body) if marks else made

    return write


def upgraded(record: Record) -> Record:
    """Return the record with its event converted to version 1.0. Other records are returned
    unchanged.
    """
    decoded = kafka.decode(record)
    if decoded.opaque or decoded.event.version == NEWEST:
        return record
    return kafka.encode(decoded, UPGRADED, record.key)


class ReplayWriter(Protocol):
    """The target of a replay, to which the records of one key are sent in order."""

    async def send(self, records: Sequence[Record]) -> Mapping[str, int]:
        """Send records, and return when each is stored or permanently refused.

        Returns:
            The number of refused records by error code.

        Raises:
            BrokerError: The target accepts no more records; some of these records may be stored.
        """


class TopicOutlet:
    """The outlet of a replay to a topic.

    After a failure all records from the first failed one on are sent again, so the last copies of a
    key's records are in order.
    """

    def __init__(self, log: Log, name: str, write: Write, clock: Clock) -> None:
        self._log, self._name, self._write, self._clock = log, name, write, clock

    async def send(self, records: Sequence[Record]) -> Mapping[str, int]:
        refused: Counter[str] = Counter()
        left = list(self._written(records, refused))
        trying = RetryWaits(self._clock)
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


class RetryWaits:
    """The waits between attempts. They end when there was no progress for ``PATIENCE`` seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic()
        self._delay = FIRST_WAIT

    async def after(self, error: BrokerError, *, progress: bool = False) -> None:
        """Wait before the next attempt, or raise ``error`` if another attempt is useless.
        ``progress`` resets the waits.
        """
        now = self._clock.monotonic()
        if progress:
            self._since, self._delay = now, FIRST_WAIT
        if not error.retryable or now - self._since > PATIENCE:
            raise error
        await self._clock.sleep(max(self._delay, min(error.retry_after or 0.0, PATIENCE)))
        self._delay = min(self._delay * 2, LONGEST_WAIT)
