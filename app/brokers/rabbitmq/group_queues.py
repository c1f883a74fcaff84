"""The queues of a member's topics. They show which queues exist, and which of them no member reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from app.brokers.rabbitmq.connection import RabbitConnection
from app.brokers.rabbitmq.layout import QueueLayout
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.topology import Topology
from app.errors import BrokerRefused
from app.model.message import Partition

FOR_GOOD = float("inf")  # seconds, for layouts that do not expire


class GroupQueues:
    """The queues of a member's topics. ``names`` has the existing ones by partition."""

    def __init__(
        self, settings: RabbitSettings, topology: Topology, topics: Sequence[str], group: str
    ) -> None:
        self.names: Mapping[Partition, str] = {}
        self._age = settings.metadata_age
        self._topology = topology
        self._topics = topics
        self._group = group
        self._missing = ""
        self._occupied = ""
        self._unowned_since: dict[Partition, float] = {}

    @property
    def unread(self) -> str:
        """Return the names of queues that no member reads, and the cure. Return an empty text if there are
        none."""
        return "; ".join(filter(None, (self._missing, self._occupied)))

    async def refresh(self, connection: RabbitConnection, owned: Collection[Partition]) -> None:
        """Find queues that were created or deleted.

        Raise BrokerRefused for a deleted topic, unless the member still owns one of its queues.
        """
        names: dict[Partition, str] = {}
        missing: list[str] = []
        for topic in self._topics:
            try:
                layout = await self._layout(connection, topic)
            except BrokerRefused as error:
                kept = {place: name for place, name in self.names.items() if place.topic == topic}
                if not any(place in owned for place in kept):
                    raise
                names |= kept  # the exchange is gone, but its queues may hold messages
                missing.append(str(error))
            else:
                for number in layout.there:
                    queue = self._topology.queue(topic, number, self._group)
                    names[Partition(topic, number)] = queue
                missing.append(self._topology.missing_text(topic, layout.missing, self._group))
        self._missing = "; ".join(filter(None, missing))
        for place in names.keys() - self.names.keys():
            await self._topology.declared.inspect(connection, place.topic, [names[place]])
        self.names = names

    def expire(self, partition: Partition) -> None:
        """Count the queues of a topic again at the next refresh, because the queue of this partition does not
        exist."""
        self._topology.expire(partition.topic, self._group)

    def note_free(self, places: Collection[Partition], now: float) -> None:
        """Remember partitions that this member could not take, although it is the only member of its group.

        If a queue cannot be taken for as long as the setting ``metadata_age``, it probably has a consumer
        outside Skybridge.
        """
        self._unowned_since = {place: self._unowned_since.get(place, now) for place in places}
        late = [
            self.names[place]
            for place, since in self._unowned_since.items()
            if now - since >= self._age
        ]
        self._occupied = _occupied(sorted(late))

    async def _layout(self, connection: RabbitConnection, topic: str) -> QueueLayout:
        """Return the layout of a topic.

        If the group has its own queues, only its members create them. Then no new queues appear, and a member
        notices by itself if one is deleted.
        """
        age = FOR_GOOD if self._topology.by_group(topic) else self._age
        return await self._topology.layout(connection, topic, self._group, age=age)


def _occupied(queues: Sequence[str]) -> str:
    if not queues:
        return ""
    noun = "queue" if len(queues) == 1 else "queues"
    names = ", ".join(queues)
    return (
        f"{noun} {names} cannot be owned: end the other consumer there, or look at the server's log"
    )
