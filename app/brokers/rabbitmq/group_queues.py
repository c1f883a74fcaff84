"""A member's view of the queues of its topics: those that are there, and those that are not read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from app.brokers.rabbitmq.connection import Wire
from app.brokers.rabbitmq.layout import Layout
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.topology import Topology
from app.errors import BrokerRefused
from app.model.message import Partition

FOR_GOOD = float("inf")  # seconds


class GroupQueues:
    """``names``: of the queues that are there, by partition."""

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
        self._free_since: dict[Partition, float] = {}

    @property
    def unread(self) -> str:
        """Name the queues that are not read, and the cure; "" where all are."""
        return "; ".join(filter(None, (self._missing, self._occupied)))

    async def look(self, wire: Wire, owned: Collection[Partition]) -> None:
        """Find the queues that came or went. Raises BrokerRefused for a topic of which nothing is left."""
        names: dict[Partition, str] = {}
        missing: list[str] = []
        for topic in self._topics:
            try:
                layout = await self._layout(wire, topic)
            except BrokerRefused as error:
                kept = {place: name for place, name in self.names.items() if place.topic == topic}
                if not any(place in owned for place in kept):
                    raise
                names |= kept  # the exchange is gone; what waits in its queues is delivered
                missing.append(str(error))
            else:
                for number in layout.there:
                    queue = self._topology.queue(topic, number, self._group)
                    names[Partition(topic, number)] = queue
                missing.append(self._topology.missing_words(topic, layout.missing, self._group))
        self._missing = "; ".join(filter(None, missing))
        for place in names.keys() - self.names.keys():
            await self._topology.declared.inspect(wire, place.topic, [names[place]])
        self.names = names

    def vanished(self, partition: Partition) -> None:
        """Count the queues at the next look: this one is not there."""
        self._topology.expire(partition.topic, self._group)

    def free(self, places: Collection[Partition], now: float) -> None:
        """Note the partitions that only this member can own, and does not."""
        self._free_since = {place: self._free_since.get(place, now) for place in places}
        late = [
            self.names[place]
            for place, since in self._free_since.items()
            if now - since >= self._age
        ]
        self._occupied = _occupied(sorted(late))

    async def _layout(self, wire: Wire, topic: str) -> Layout:
        """Queues of a group's own are made by its members: none appears, and a member sees one vanish."""
        age = FOR_GOOD if self._topology.by_group(topic) else self._age
        return await self._topology.layout(wire, topic, self._group, age=age)


def _occupied(queues: Sequence[str]) -> str:
    if not queues:
        return ""
    noun = "queue" if len(queues) == 1 else "queues"
    names = ", ".join(queues)
    return (
        f"{noun} {names} cannot be owned: end the other consumer there, or look at the server's log"
    )
