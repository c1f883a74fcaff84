"""Write, pause and delete the subscriptions of objects through the admin API."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from app.errors import SkybridgeError
from app.kubernetes.admin import AdminApi, AdminRefused, is_stored
from app.kubernetes.client import NOT_FOUND
from app.kubernetes.known import Entry, KnownSubscriptions
from app.kubernetes.names import OWNER
from app.kubernetes.outcome import Outcome

_PRECONDITION_FAILED = 412


class LeadLost(SkybridgeError):
    """The process has not renewed the Lease in time, so it writes nothing."""


class SubscriptionWriter:
    """The writes of one leader. What it has written is known at once, before the next reading of all subscriptions."""

    def __init__(
        self,
        admin: AdminApi,
        known: KnownSubscriptions,
        changed: Callable[[], None],
        holds: Callable[[], bool],
    ) -> None:
        """Take the parts. ``changed`` is called after each write. ``holds`` returns True while this process is the
        leader."""
        self._admin = admin
        self._holds = holds
        self._known = known
        self._changed = changed
        self._digests: dict[str, bytes] = {}  # of the last document of this process, by id
        self._etags: dict[str, str] = {}  # of the document in force, by id of each accepted object
        self._faults: dict[str, list[str]] = {}  # of that document, as they were reported

    @property
    def _leading(self) -> AdminApi:
        """Return the admin API for one write. Raise LeadLost if another process may be the leader by now. A process that
        was stopped for a while would undo the writes of that one."""
        if not self._holds():
            raise LeadLost("another process may be the leader by now")
        return self._admin

    def begin(self, subscription: str) -> None:
        """Begin to look at an object, whose document may not be accepted any more."""
        self._etags.pop(subscription, None)

    def has_changed(self, subscription: str) -> bool:
        """Return True if the stored document of an accepted object is another one than was written, or has other
        faults than were reported. A restored backup of the store has other documents: the next write then sends the
        document again."""
        written, entry = self._etags.get(subscription), self._known.own(subscription)
        if written is None:
            return False
        if entry is not None and entry["etag"] == written:
            return [*entry.get("faults", ())] != self._faults[subscription]
        self._digests.pop(subscription, None)
        return True

    async def write(self, subscription: str, document: Mapping[str, Any]) -> Outcome:
        """Store a document, unless it is stored already. Return whether it can run."""
        digest = hashlib.sha256(msgspec.json.encode(document, order="deterministic")).digest()
        entry = self._known.own(subscription)
        if entry is None:
            etag = await self._create(subscription, document)
        elif not self._is_written(entry, document, digest):
            etag = await self._replace(subscription, document, entry["etag"])
        else:
            etag = ""
        if etag:
            before = self._known.entries.get(subscription, {"id": subscription, "faults": []})
            self._remember(
                subscription, {**before, "origin": OWNER, "document": document, "etag": etag}
            )
        found = self._known.entries[subscription]
        self._digests[subscription], self._etags[subscription] = digest, found["etag"]
        faults = self._faults[subscription] = [*found.get("faults", ())]
        return Outcome("CannotRun", " ".join(faults)) if faults else Outcome("Accepted")

    async def pause(self, subscription: str) -> bool:
        """Pause a subscription, which keeps its position. Return False if it is paused already."""
        entry = self._known.entries[subscription]
        if entry["document"].get("paused"):
            return False
        document = {**entry["document"], "paused": True}
        etag = await self._leading.replace(subscription, document, entry["etag"])
        self._forget(subscription)
        self._remember(subscription, {**entry, "document": document, "etag": etag})
        return True

    async def has_parked(self, subscription: str) -> bool:
        """Return True if events of a subscription of an object wait in the store."""
        return self._known.own(subscription) is not None and await self._admin.has_parked(
            subscription
        )

    async def delete(self, subscription: str) -> None:
        """Delete a subscription of an object, unless another process has changed it since. One that is gone is no
        error."""
        entry = self._known.own(subscription)
        if entry is None:
            return
        await self._leading.delete(subscription, entry["etag"])
        self._forget(subscription)
        self._remember(subscription, None)

    def _forget(self, subscription: str) -> None:
        for each in (self._digests, self._etags, self._faults):
            each.pop(subscription, None)

    def _is_written(self, entry: Entry, document: Mapping[str, Any], digest: bytes) -> bool:
        stored = is_stored(entry["document"], document)
        return bool(stored) if stored is not None else self._digests.get(str(entry["id"])) == digest

    async def _create(self, subscription: str, document: Mapping[str, Any]) -> str:
        """Create a subscription, or replace it if it is an object's already. Return its ETag."""
        try:
            return await self._leading.create(document)
        except AdminRefused as refused:
            if refused.code != "made-by-object":
                raise
        await self._known.refresh()
        return await self._leading.replace(
            subscription, document, self._known.entries[subscription]["etag"]
        )

    async def _replace(self, subscription: str, document: Mapping[str, Any], etag: str) -> str:
        """Replace a document. If another version is stored, read it and replace that one. Return the ETag."""
        try:
            return await self._leading.replace(subscription, document, etag)
        except AdminRefused as refused:
            if refused.status not in {NOT_FOUND, _PRECONDITION_FAILED}:
                raise
        await self._known.refresh()
        entry = self._known.own(subscription)
        if entry is None:
            return await self._leading.create(document)
        return await self._leading.replace(subscription, document, entry["etag"])

    def _remember(self, subscription: str, entry: Entry | None) -> None:
        """Remember what was written, and have all subscriptions read again soon."""
        self._known.remember(subscription, entry)
        self._changed()
