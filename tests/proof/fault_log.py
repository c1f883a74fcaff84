"""The faults of a trial: each is a line of its history, and a window in which deliveries may be repeated."""

from __future__ import annotations

from proof.history import Fault, HistoryWriter
from proof.scenario_signs import outside


class FaultLog:
    """The faults that a trial has caused so far."""

    def __init__(self, history: HistoryWriter, commit: float, settle: float) -> None:
        """Begin without a fault.

        Args:
            history: The file in which each fault gets a line.
            commit: Seconds of finished deliveries before a fault that it may repeat.
            settle: Seconds after a fault in which partitions may change their owners.
        """
        self._history, self._commit, self._settle = history, commit, settle
        self._windows: list[tuple[float, float]] = []

    def add(self, fault: Fault) -> None:
        """Write a fault that has ended into the history."""
        if fault.repeats:
            self._windows.append((fault.start - self._commit, fault.end + self._settle))
        self._history.write(fault)
        self._history.flush()

    def calm(self, begin: float, end: float) -> float:
        """Return the seconds between two times that are outside of the window of every fault."""
        return outside(self._windows, begin, end)
