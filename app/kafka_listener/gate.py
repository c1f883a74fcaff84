"""``validate: cloudevents``: what may enter a topic is what the worker could read from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from app.bindings.kafka import decode
from app.bindings.record import Record
from app.errors import SenderError

CLIPPED = 300  # characters of a reason
NAMED = 50  # records named in one answer


class CloudEventsGate:
    """Of the topics named; everything may enter the others."""

    def __init__(self, topics: Collection[str] = ()) -> None:
        self._topics = frozenset(topics)

    def guards(self, topic: str) -> bool:
        return topic in self._topics

    def refusals(self, topic: str, records: Sequence[Record]) -> Mapping[int, str]:
        """Read as the worker reads them: with the Kafka binding, liberally."""
        found: dict[int, str] = {}
        if topic not in self._topics:
            return found
        for index, record in enumerate(records):
            try:
                decode(record)
            except SenderError as error:
                found[index] = str(error)[:CLIPPED]
                if len(found) >= NAMED:
                    break
        return found
