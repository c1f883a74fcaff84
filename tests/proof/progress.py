"""What a running trial can see of its own history: how many events were acknowledged, and which are not delivered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


class Progress:
    """The events of a run, read from the growing files of its history.

    Attributes:
        acknowledged: The ids of acknowledged events.
        longest_gap: The longest time in seconds without an acknowledged request.
        silence: The longest time in seconds without a delivery, by subscription.
        span: The beginning of the first and the end of the last request.
        unanswered: Requests without an answer, or with a 5xx.
        failed: Attempts that were not answered 204.
        moved: How often a key of a subscription was delivered by another worker than before.
    """

    def __init__(self, load: Path, target: Path, subscriptions: Sequence[str]) -> None:
        self.acknowledged: set[str] = set()
        self.longest_gap = 0.0
        self.silence = dict.fromkeys(subscriptions, 0.0)
        self.span = (0.0, 0.0)
        self.attempts = self.unanswered = self.failed = self.moved = 0
        self._workers: dict[tuple[str, str], str] = {}
        self._delivered: dict[str, set[str]] = {name: set() for name in subscriptions}
        self._load, self._target = _Growing(load), _Growing(target)
        self._last = 0.0
        self._ends: dict[str, float] = {}

    def read(self) -> None:
        """Read what was written since the last call."""
        for row in self._load.rows():
            if row["kind"] == "request":
                self._read_request(row)
        for row in self._target.rows():
            self.attempts += 1
            if row.get("status") == 204:
                self._read_delivery(row)
            else:
                self.failed += 1

    def _read_request(self, row: dict[str, Any]) -> None:
        status, end = row.get("status"), row["end"]
        self.span = (self.span[0] or row["start"], max(self.span[1], end))
        if status in {200, 202}:
            self.acknowledged.update(each[0] for each in row["events"])
            if self._last:
                self.longest_gap = max(self.longest_gap, end - self._last)
            self._last = max(self._last, end)
        elif status is None or status >= 500:
            self.unanswered += 1

    def _read_delivery(self, row: dict[str, Any]) -> None:
        name, worker, end = row["subscription"], row["worker"], row["end"]
        self._delivered[name].update(each[0] for each in row["events"])
        for key in {each[1] for each in row["events"]}:
            self.moved += self._workers.setdefault((name, key), worker) != worker
            self._workers[name, key] = worker
        self.silence[name] = max(self.silence[name], end - self._ends.get(name, end))
        self._ends[name] = max(end, self._ends.get(name, end))

    def missing(self) -> int:
        """Return how many deliveries of acknowledged events are still missing."""
        self.read()
        return sum(len(self.acknowledged - each) for each in self._delivered.values())

    def delivered(self) -> int:
        return sum(map(len, self._delivered.values()))


class _Growing:
    """A file of lines to which another process appends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._at += len(line)
                yield json.loads(line)
