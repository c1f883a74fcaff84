"""The lag of the lake: the age and the number of records that are not in the lake yet.

For each topic, the archive remembers a time. All records stored before that time are in the lake,
with the events derived from them. The time is the start of the last finished batch that read to the
end of the topic. So the age is never reported too small, and grows while no batch succeeds. Without
new records, it is the time between two looks at the topics.

The number is that of the records which the topic had when the last batch began. It counts offsets,
so it is too large if a topic has gaps. Offsets of Pulsar count no records, and are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from app.pipeline.archive.copying import CopyRange
from app.spark.source import Offsets


class Lag:
    """The lag of each topic, counted from the start of the archive until the first batch ends."""

    def __init__(
        self,
        topics: Sequence[str],
        now: Callable[[], float] = time.time,  # noqa: TID251 - compared with times of records
    ) -> None:
        """Start to measure these topics. ``now`` returns seconds since the epoch."""
        self._now = now
        self._complete = dict.fromkeys(topics, now())
        self._latest: Offsets = {}
        self._read: Offsets = {}

    def seen(self, batch: CopyRange) -> None:
        """Record a batch whose records are copied, but not derived."""
        if not batch.is_sparse:
            self._latest = batch.latest
            self._read = self._read or batch.start

    def reached(self, batch: CopyRange) -> None:
        """Record a batch whose records are derived, or a look at topics without new records."""
        self.seen(batch)
        self._read = {} if batch.is_sparse else batch.end
        for topic, before in self._complete.items():
            if batch.end.get(topic) == batch.latest.get(topic):
                self._complete[topic] = max(before, batch.begun)

    def seconds(self) -> Mapping[str, float]:
        """Return the lag of each topic in seconds."""
        now = self._now()
        return {topic: max(0.0, now - moment) for topic, moment in self._complete.items()}

    def records(self) -> Mapping[str, int]:
        """Return the number of records of each topic that are not in the lake yet."""
        return {
            topic: sum(max(0, at - self._read.get(topic, {}).get(n, 0)) for n, at in each.items())
            for topic, each in self._latest.items()
        }
