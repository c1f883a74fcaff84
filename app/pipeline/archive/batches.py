"""The batches of a stream that have ended, as Spark tells of them.

Asked of the JVM's own objects: pyspark makes one of its own of every batch that Spark remembers, a hundred, by some dozens
of calls each, whenever it is asked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from app.pipeline.spark_adapter import java_query

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Batch = dict[str, Any]
"""A batch of the stream, in Spark's words."""


class Seen:
    """The batches of a stream that were looked at. A look where nothing has happened costs two calls.

    ``idle``  what Spark tells of a moment without a new record, if it is the last that it told.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self.idle: Batch | None = None
        self.last: Batch | None = None
        self._java: Any = java_query(query)
        self._looked = ""

    def more(self) -> list[Batch]:
        """The batches that ended since, each once: Spark tells of idle moments under the same number."""
        newest = self._java.lastProgress()
        if newest is None or (at := newest.timestamp()) == self._looked:
            return []
        self._looked = at
        told = _batch(newest)
        self.idle = None if told["numInputRows"] else told
        batches = self._since(self.last["batchId"] if self.last else -1)
        self.last = batches[-1] if batches else self.last
        return batches

    def number(self) -> int:
        """Of the last batch that has ended; -1 before the first."""
        newest = self._java.lastProgress()
        return -1 if newest is None else int(newest.batchId())

    def _since(self, before: int) -> list[Batch]:
        """The newest come last in what Spark remembers, so it is read from its end."""
        known, found = self._java.recentProgress(), dict[int, Batch]()
        for at in range(len(known) - 1, -1, -1):
            if known[at].batchId() <= before:
                break
            told = _batch(known[at])
            if told["numInputRows"]:
                found.setdefault(told["batchId"], told)
        return [each for _, each in sorted(found.items())]


def _batch(told: Any) -> Batch:
    found: Batch = json.loads(told.json())
    return found
