"""A partition of the embedded log that many group members read together."""

from __future__ import annotations

from collections.abc import Callable

from app.brokers.tail import PartitionTail
from app.log.engine import LogEngine
from app.model.message import MessagePage, Partition


class LogTail(PartitionTail):
    """The shared reader of one partition of the embedded log. It watches the log for appended records until
    ``close``."""

    def __init__(
        self,
        engine: LogEngine,
        place: Partition,
        most: int,
        most_bytes: int,
        moved: Callable[[], None],
    ) -> None:
        super().__init__(place, most, most_bytes, moved)
        self._engine = engine
        self._log = engine.partition(place)
        engine.watch(place, self.grown)

    @property
    def end(self) -> int:
        return self._log.next_offset

    @property
    def gone(self) -> bool:
        """Return True if the topic was deleted. A later topic of the same name needs a new shared reader."""
        topic = self._engine.topics().get(self.place.topic)
        return topic is None or self._log not in topic.partitions

    def at_hand(self, position: int, until: int, most: int) -> MessagePage | None:
        return self._engine.at_hand(self._log, position, until, most)

    async def page(self, position: int, until: int, most: int) -> MessagePage:
        return await self._engine.page(
            self.place, position, until=until, max_records=most, max_bytes=self._most_bytes
        )

    def close(self) -> None:
        if not self.gone:
            self._engine.unwatch(self.place, self.grown)
