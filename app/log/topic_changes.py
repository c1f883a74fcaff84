"""Topics that grow or go, without pulling the ground from under a subscription. In the writer thread only."""

from __future__ import annotations

import apsw

from app.errors import BrokerRefused
from app.log.catalogue import Topic
from app.log.known import Known


class TopicChanges:
    """What cannot be is a BrokerRefused: of kind ``unknown-topic``, ``in-use``, or ``other``."""

    def __init__(self, broker: str, known: Known) -> None:
        self._broker = broker
        self._catalogue, self._positions = known.catalogue, known.positions
        self._beside = (known.positions, known.producers, known.identities)

    def grow(self, db: apsw.Connection, name: str, partitions: int) -> None:
        have = len(self._known(name).partitions)
        if have >= partitions:
            raise BrokerRefused(f"{name} has {have} partitions already", broker=self._broker)
        self._check_unread(name)
        self._catalogue.grow(db, name, partitions)

    def delete(self, db: apsw.Connection, name: str) -> Topic:
        self._known(name)
        self._check_unread(name)
        return self._catalogue.delete(
            db, name, lambda: [each.forget_topic(db, name) for each in self._beside]
        )

    def _known(self, name: str) -> Topic:
        topic = self._catalogue.topics.get(name)
        if topic is None:
            raise BrokerRefused(f"no topic {name}", broker=self._broker, kind="unknown-topic")
        return topic

    def _check_unread(self, name: str) -> None:
        """What a subscription reads stays as it is: its place would mean something else, and so would
        the order of its keys."""
        readers = sorted(self._positions.readers(name))
        if readers:
            what = f"{name} is read by {', '.join(readers[:3])}"
            raise BrokerRefused(what, broker=self._broker, kind="in-use")
