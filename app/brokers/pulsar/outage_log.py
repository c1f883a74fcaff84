"""Decide which faults of partitions are logged. An outage has the same fault at all of them, and is one line."""

from __future__ import annotations


class PartitionFaults:
    """The present fault of each partition, by the partition's full name."""

    def __init__(self) -> None:
        self._faults: dict[str, str] = {}

    def is_new(self, partition: str, fault: str) -> bool:
        """Note the fault of a partition. Return True if no partition has this fault yet."""
        known = fault in self._faults.values()
        self._faults[partition] = fault
        return not known

    def clear(self, partition: str) -> None:
        """Note that a partition has no fault."""
        self._faults.pop(partition, None)


def fault_of(error: BaseException) -> str:
    """Return the kind of an error, without the name of a partition that its text may have."""
    result = getattr(error, "result", None)
    return type(error).__name__ if result is None else f"{type(error).__name__} {result.name}"
