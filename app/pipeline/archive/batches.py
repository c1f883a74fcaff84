"""The batches of a stream that have ended, as Spark reports them.

The batches are read from Spark's Java objects. Spark remembers a hundred batches. pyspark would
convert all of them at each call, with dozens of calls to Java for each.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from app.spark.pyspark_adapter import java_query

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Batch = dict[str, Any]
"""The progress report of one batch, with the names that Spark uses."""


class StreamReports:
    """A reader of a stream's progress reports. A call without a new report costs two calls to Java.

    Attributes:
        query: The running stream.
        idle: The last report, if it states that there was no new record; otherwise None.
        last: The report of the last batch with records; None before the first.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self.idle: Batch | None = None
        self.last: Batch | None = None
        self._java: Any = java_query(query)
        self._looked = ""

    def new_batches(self) -> list[Batch]:
        """Return the batches that ended since the last call, each once. Idle reports, which repeat
        a batch number, are left out.
        """
        newest = self._java.lastProgress()
        if newest is None or (at := newest.timestamp()) == self._looked:
            return []
        self._looked = at
        report = _batch(newest)
        self.idle = None if report["numInputRows"] else report
        batches = self._batches_after(self.last["batchId"] if self.last else -1)
        self.last = batches[-1] if batches else self.last
        return batches

    def last_number(self) -> int:
        """Return the number of the last batch that has ended; -1 before the first."""
        newest = self._java.lastProgress()
        return -1 if newest is None else int(newest.batchId())

    def _batches_after(self, before: int) -> list[Batch]:
        """Return the batches with a higher number than ``before``, from the oldest on."""
        # Spark lists the newest report last
        known, found = self._java.recentProgress(), dict[int, Batch]()
        for at in range(len(known) - 1, -1, -1):
            if known[at].batchId() <= before:
                break
            report = _batch(known[at])
            if report["numInputRows"]:
                found.setdefault(report["batchId"], report)
        return [each for _, each in sorted(found.items())]


def _batch(report: Any) -> Batch:
    found: Batch = json.loads(report.json())
    return found
