"""The batches of a stream, each told once, and few calls of the JVM for it."""

from __future__ import annotations

import json
from typing import Any

from app.pipeline.archive.batches import StreamReports


class Told:
    """What Spark tells of a batch, or of an idle moment: as its own object. ``asked``: how often it was read."""

    def __init__(self, number: int, at: int, rows: int) -> None:
        self._number, self._at, self._rows = number, f"{at}", rows
        self.asked = 0

    def timestamp(self) -> str:
        return self._at

    def batchId(self) -> int:  # noqa: N802 - Java's name
        return self._number

    def json(self) -> str:
        self.asked += 1
        return json.dumps(
            {"batchId": self._number, "timestamp": self._at, "numInputRows": self._rows}
        )


class Query:
    """A query whose JVM remembers a hundred of these."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self._jsq = self

    def lastProgress(self) -> Told | None:  # noqa: N802 - Java's name
        return self.told[-1] if self.told else None

    def recentProgress(self) -> list[Told]:  # noqa: N802 - Java's name
        return self.told[-100:]


def numbers(seen: StreamReports) -> list[int]:
    return [each["batchId"] for each in seen.new_batches()]


def seen_of(query: Any) -> StreamReports:
    return StreamReports(query)


def test_each_batch_is_told_once_and_idle_moments_are_none() -> None:
    query = Query()
    seen = seen_of(query)
    assert (numbers(seen), seen.last_number(), seen.idle) == ([], -1, None)
    query.told += [Told(0, 1, 5), Told(1, 2, 7)]
    assert numbers(seen) == [0, 1]
    assert numbers(seen) == []
    query.told += [Told(2, 3, 0), Told(2, 4, 0)]
    assert numbers(seen) == []
    assert seen.idle == {"batchId": 2, "timestamp": "4", "numInputRows": 0}
    query.told += [Told(2, 5, 3)]
    assert (numbers(seen), seen.last_number(), seen.idle) == ([2], 2, None)
    assert seen.last == {"batchId": 2, "timestamp": "5", "numInputRows": 3}


def test_a_look_reads_only_what_is_new() -> None:
    query = Query()
    seen = seen_of(query)
    for number in range(200):
        query.told.append(Told(number, number, 1))
        assert numbers(seen) == [number]
    assert max(each.asked for each in query.told) <= 2
