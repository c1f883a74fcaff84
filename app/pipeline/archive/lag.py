"""The lag of the lake: the age and the number of records that are not in the lake yet.

For each topic, the archive remembers a time. All records stored before that time are in the lake,
with the events derived from them. The time is the start of the last finished batch that read to the
end of the topic. So the age is never reported too small, and grows while no batch succeeds. Without
new records, it is the time between two batches, and up to ten seconds more.

The number is that of the records which the topic had when the last batch began. It counts offsets,
so it is too large if a topic has gaps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from app.spark.source import Offsets


class Lag:
    """The lag of each topic, counted from the start of the archive until the first batch ends."""

    def __init__(
        self,
        topics: Sequence[str],
        now: Callable[[], float] = time.time,  # noqa: TID251 - compared with Spark's own times
    ) -> None:
        """Start to measure these topics. ``now`` returns seconds since the epoch."""
        self._now = now
        self._complete = dict.fromkeys(topics, now())
        self._latest: dict[str, Mapping[str, int]] = {}
        self._read: dict[str, Mapping[str, int]] = {}

    def started(self, begin: Offsets, end: Offsets) -> None:
        """Record the offsets from which a stream reads, and those up to which topics have records."""
        self._read |= _as_reported(begin)
        self._latest |= _as_reported(end)

    def seen(self, progress: Mapping[str, Any]) -> None:
        """Record the progress report of a batch whose records are copied, but not derived."""
        for source in progress["sources"]:
            self._latest |= offsets(source.get("latestOffset"))

    def reached(self, progress: Mapping[str, Any]) -> None:
        """Record the progress report of a finished batch, or of an idle moment without new records."""
        self.seen(progress)
        for source in progress["sources"]:
            self._read |= offsets(source.get("endOffset"))
        begun = datetime.fromisoformat(progress["timestamp"]).timestamp()
        for topic, before in self._complete.items():
            if not progress["numInputRows"] or _was_read_to_end(progress["sources"], topic):
                self._complete[topic] = max(before, begun)

    def seconds(self) -> Mapping[str, float]:
        """Return the lag of each topic in seconds."""
        now = self._now()
        return {topic: max(0.0, now - moment) for topic, moment in self._complete.items()}

    def records(self) -> Mapping[str, int]:
        """Return the number of records of each topic that are not in the lake yet, as far as the
        source reports offsets.
        """
        return {
            topic: sum(
                max(0, at - self._read.get(topic, {}).get(number, 0))
                for number, at in latest.items()
            )
            for topic, latest in self._latest.items()
        }


def _as_reported(known: Offsets) -> dict[str, Mapping[str, int]]:
    return {topic: {str(n): at for n, at in each.items()} for topic, each in known.items()}


def _was_read_to_end(sources: Iterable[Mapping[str, Any]], topic: str) -> bool:
    """Return True if a batch read all records that the topic had at its start. False if the source
    does not report this.
    """
    for source in sources:
        end, latest = (offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
        if topic in latest:
            read = end.get(topic, {})
            return all(read.get(number, 0) >= at for number, at in latest[topic].items())
    return False


def offsets(report: Any) -> Mapping[str, Mapping[str, int]]:
    """Parse offsets by topic and partition, as Kafka's source reports them; empty for any other
    source.
    """
    try:
        found = json.loads(report) if isinstance(report, str) else report
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {topic: each for topic, each in found.items() if isinstance(each, dict)}
