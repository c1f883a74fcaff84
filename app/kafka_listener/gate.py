"""The setting ``validate: cloudevents``: a topic accepts only records that the worker can read as
events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from app.bindings.kafka import decode
from app.bindings.record import Record
from app.errors import SenderError

MAX_REASON = 300  # characters of a reason in a response
MAX_FAULTS = 50  # records named in one response


class CloudEventsGate:
    """Checks that records of the given topics are CloudEvents. Other topics accept all records."""

    def __init__(self, topics: Collection[str] = ()) -> None:
        self._topics = frozenset(topics)

    def guards(self, topic: str) -> bool:
        return topic in self._topics

    def refusals(self, topic: str, records: Sequence[Record]) -> Mapping[int, str]:
        """Return the reason for each record that is no CloudEvent, by index. Records are decoded by
        the Kafka binding, as in the worker.
        """
        found: dict[int, str] = {}
        if topic not in self._topics:
            return found
        for index, record in enumerate(records):
            try:
                decode(record)
            except SenderError as error:
                found[index] = str(error)[:MAX_REASON]
                if len(found) >= MAX_FAULTS:
                    break
        return found
