"""The subscriptions as the admin API last showed them, with what this process has changed since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from app.kubernetes.admin import AdminApi
from app.kubernetes.names import OWNER

Entry = Mapping[str, Any]


class KnownSubscriptions:
    """A copy of all subscriptions.

    Attributes:
        entries: The subscriptions by id, as the admin API lists them.
        begun: The number of readings that have begun.
        complete: The number of the last complete reading.
    """

    def __init__(self, admin: AdminApi) -> None:
        self.entries: dict[str, Entry] = {}
        self.begun = self.complete = 0
        self._admin = admin
        self._changes: dict[str, int] = {}  # number of the last change by this process, by id
        self._count = 0
        # changes before each reading that has not ended, by its number
        self._readings: dict[int, int] = {}
        self._reserved: set[str] = set()

    @property
    def is_complete(self) -> bool:
        """Return True after the first reading. Before, a missing subscription may only be unknown."""
        return self.complete > 0

    async def refresh(self) -> None:
        """Read all subscriptions. What this process changes meanwhile stays as it is."""
        self.begun += 1
        reading = self.begun
        self._readings[reading] = self._count
        try:
            found: dict[str, Entry] = {**await self._admin.subscriptions()}
            for name in self._changed_since(self._readings[reading]):
                found.pop(name, None)
                if name in self.entries:
                    found[name] = self.entries[name]
        finally:
            del self._readings[reading]
        self.entries = found
        self.complete = reading
        oldest = min(self._readings.values(), default=self._count)
        self._changes = {name: self._changes[name] for name in self._changed_since(oldest)}

    def _changed_since(self, number: int) -> list[str]:
        """Return the ids that this process has changed after that many changes."""
        return [name for name, at in self._changes.items() if at > number]

    def remember(self, subscription: str, entry: Entry | None) -> None:
        """Take over what this process has written. None means that the subscription was deleted."""
        self._count += 1
        self._changes[subscription] = self._count
        if entry is None:
            self.entries.pop(subscription, None)
        else:
            self.entries[subscription] = entry

    def own(self, subscription: str) -> Entry | None:
        """Return a subscription that an object declares, or None."""
        entry = self.entries.get(subscription)
        return entry if entry is not None and entry["origin"] == OWNER else None

    def is_paused(self, subscription: str) -> bool:
        """Return True if a subscription that an object declares is paused, or does not exist."""
        entry = self.own(subscription)
        return entry is None or bool(entry["document"].get("paused"))

    @contextmanager
    def reserve(self, subscription: str) -> Iterator[int]:
        """Count a subscription that is created within the block. Yield the number of other ones of its namespace, with
        those that other tasks create."""
        begin = f"{subscription.partition('.')[0]}."
        own = {name for name, entry in self.entries.items() if entry["origin"] == OWNER}
        others = {name for name in own | self._reserved if name.startswith(begin)}
        self._reserved.add(subscription)
        try:
            yield len(others - {subscription})
        finally:
            self._reserved.discard(subscription)

    def health(self, subscription: str) -> Entry | None:
        """Return the state of a subscription that an object declares, or None if it is unknown."""
        entry = self.own(subscription)
        return None if entry is None else entry.get("health")
