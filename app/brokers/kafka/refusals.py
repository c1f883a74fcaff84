"""Apply the refusal of a wire batch to its records.

The broker may reject a whole batch because of one record. Then that record is found, and the others are sent again.
"""

from __future__ import annotations

from collections.abc import Callable

from app.bindings.record import Record
from app.brokers.kafka.batcher import Batcher
from app.brokers.kafka.errors import FailureAction, KafkaRefusal, explain, refused
from app.errors import BrokerError, BrokerRefused


class Refusals:
    """Applies the refusals of one cluster to the records of wire batches."""

    def __init__(
        self, name: str, *, compressed: bool, no_right: Callable[[str, BrokerError], None]
    ) -> None:
        """Create the rules of one cluster.

        Args:
            name: The name of the broker in the configuration.
            compressed: Whether wire batches are compressed.
            no_right: Called with a topic that Skybridge may not write to.
        """
        self.name = name
        self._compressed = compressed
        self._no_right = no_right

    def apply(self, batcher: Batcher, refusal: KafkaRefusal, action: FailureAction) -> None:
        """Resolve the records in flight, or queue them again."""
        if refusal.is_too_large:
            batcher.learn_size(compressed=self._compressed)
        if action is FailureAction.AGAIN:
            batcher.requeue()
        elif action is FailureAction.NARROW:
            self._narrow(batcher, refusal)
        else:
            self._fail(batcher, refusal)

    def _narrow(self, batcher: Batcher, refusal: KafkaRefusal) -> None:
        """Handle a batch in which the broker rejects a record. If the broker names the rejected records, they
        fail and the others are sent again. Otherwise smaller batches are sent until the rejected record is
        found."""
        topic = batcher.topic.name

        def named(index: int, record: Record) -> BrokerError:
            error = explain(refusal, self.name, topic, record.key, refusal.records[index])
            if isinstance(error, BrokerRefused) and refusal.demands_key(index):
                batcher.topic.demand_keys(error)
            return error

        if refusal.kind == "rejected" and batcher.refuse(refusal.records, named):
            return
        if len(batcher.in_flight) > 1:
            batcher.narrow()
            batcher.requeue()
            return
        [(_, _, record)] = batcher.in_flight
        if refusal.is_clear:
            batcher.fail(explain(refusal, self.name, topic, record.key))
        elif batcher.is_at_fault():
            batcher.fail(refused(refusal, self.name, topic, record.key, refusal.words))
        else:
            batcher.give_up_suspects(explain(refusal, self.name, topic))

    def _fail(self, batcher: Batcher, refusal: KafkaRefusal) -> None:
        topic = batcher.topic.name
        meaning = explain(refusal, self.name, topic)
        batcher.fail(meaning)
        if isinstance(meaning, BrokerRefused) and meaning.kind == "not-authorised":
            self._no_right(topic, meaning)
