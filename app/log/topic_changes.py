"""Create, grow and delete topics, but never change a topic that a subscription reads. Used in the writer thread
only."""

from __future__ import annotations

import apsw

from app.access.quota import share_of
from app.errors import BoundReached, BrokerRefused
from app.log.known import LogState
from app.log.partitions import LogTopic


class TopicChanges:
    """The changes of topics that users may request.

    A refused change raises BrokerRefused of kind ``unknown-topic``, ``in-use``, ``not-authorised`` or ``other``."""

    def __init__(self, broker: str, known: LogState) -> None:
        self._broker = broker
        self._catalogue, self._positions = known.catalogue, known.positions
        self._followers = (known.positions, known.producers, known.identities)

    def create(self, db: apsw.Connection, name: str, partitions: int, owner: str) -> None:
        """Create a topic, unless it exists. Raise BoundReached beyond the bounds of the log or the share of
        ``owner``."""
        if owner and name not in self._catalogue.topics:
            self._check_share(owner, partitions)
        self._catalogue.create(db, name, partitions, owner)

    def grow(self, db: apsw.Connection, name: str, partitions: int) -> None:
        have = len(self._known(name).partitions)
        if have >= partitions:
            raise BrokerRefused(f"{name} has {have} partitions already", broker=self._broker)
        self._refuse_if_read(name)
        self._catalogue.grow(db, name, partitions)

    def delete(self, db: apsw.Connection, name: str, creator: str | None = None) -> LogTopic:
        """Delete a topic. ``creator`` is a user that may delete only empty topics of its own, or None."""
        topic = self._catalogue.topics.get(name)
        if creator is not None and not (topic and topic.owner == creator and topic.empty):
            why = f"user {creator} may delete {name} only if it created it and while it is empty"
            raise BrokerRefused(why, broker=self._broker, kind="not-authorised")
        self._known(name)
        self._refuse_if_read(name)
        return self._catalogue.delete(
            db, name, lambda: [each.forget_topic(db, name) for each in self._followers]
        )

    def _known(self, name: str) -> LogTopic:
        topic = self._catalogue.topics.get(name)
        if topic is None:
            raise BrokerRefused(f"no topic {name}", broker=self._broker, kind="unknown-topic")
        return topic

    def _check_share(self, owner: str, partitions: int) -> None:
        catalogue = self._catalogue
        mine = [topic for topic in catalogue.topics.values() if topic.owner == owner]
        have = sum(len(topic.partitions) for topic in mine)
        if len(mine) >= (share := share_of(catalogue.max_topics)):
            raise BoundReached(f"user {owner} has created {len(mine)} topics; its share is {share}")
        if have + partitions > (share := share_of(catalogue.max_partitions)):
            what = f"the topics that user {owner} has created have {have} partitions"
            raise BoundReached(f"{what}; its share is {share}")

    def _refuse_if_read(self, name: str) -> None:
        """Raise BrokerRefused if a subscription reads the topic, because its positions and the order of its keys
        would break."""
        readers = sorted(self._positions.readers(name))
        if readers:
            what = f"{name} is read by {', '.join(readers[:3])}"
            raise BrokerRefused(what, broker=self._broker, kind="in-use")
