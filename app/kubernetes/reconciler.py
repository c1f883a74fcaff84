"""Bring the stored subscriptions in step with the objects of the listed namespaces.

Each object has a key, its namespace and name. A change of the object, of a Secret or of a Service that it names puts
the key into a queue. A few tasks take keys from it; no key is in two tasks at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from app.config.check.candidate import read_document
from app.errors import SkybridgeError
from app.kubernetes.admin import AdminApi, AdminRefused, AdminUnavailable, is_stored
from app.kubernetes.client import NOT_FOUND
from app.kubernetes.document import document_of, service_of
from app.kubernetes.drain import Drain
from app.kubernetes.names import DRAIN_FINALIZER, OWNER, subscription_id
from app.kubernetes.namespace import Namespace
from app.kubernetes.outcome import DENIED, NotAccepted, Outcome
from app.kubernetes.reporter import Reporter
from app.model.subscription import Subscription

Key = tuple[str, str]
Entry = Mapping[str, Any]

_AT_ONCE = 16  # keys in work
_PRECONDITION_FAILED = 412
_SOON = 0.2  # seconds until a key is looked at that has to wait for something
_AGAIN = 2.0  # seconds until a key whose work failed is tried again
_REFUSALS: Mapping[str, Any] = {
    "id-taken": "IdTaken",
    "made-by-file": "IdTaken",
    "made-by-object": "IdTaken",
    "too-many-subscriptions": "LimitReached",
    "invalid-subscription": "InvalidSpec",
}

_log = logging.getLogger(__name__)


class Reconciler:
    """The queue of keys, and the work on each one.

    Attributes:
        known: The subscriptions as the admin API last showed them, by id.
    """

    def __init__(
        self,
        admin: AdminApi,
        namespaces: Mapping[str, Namespace],
        reporter: Reporter,
        drain: Drain,
        holds: Callable[[], bool],
    ) -> None:
        """Take the parts. ``holds`` returns True while this process is the leader; otherwise nothing is written."""
        self.known: dict[str, dict[str, Any]] = {}
        self._admin = admin
        self._namespaces = namespaces
        self._reporter = reporter
        self._drain = drain
        self._holds = holds
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._busy: set[Key] = set()
        self._written: dict[str, bytes] = {}  # digest of the last document of this process, by id
        self._changes: dict[str, int] = {}  # number of the last change by this process, by id
        self._count = 0
        # readings of all subscriptions that have begun, and the last complete one
        self._begun = self._complete = 0
        # the first reading that counts for the end of a subscription, by id
        self._ending: dict[str, int] = {}

    def add(self, key: Key) -> None:
        """Look at an object soon."""
        if key not in self._queued:
            self._queued.add(key)
            self._queue.put_nowait(key)

    @property
    def waiting(self) -> int:
        """Return how many keys wait or are in work."""
        return len(self._queued) + len(self._busy)

    async def run(self) -> None:
        """Work until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(self._work())

    async def refresh(self) -> None:
        """Read all subscriptions from the admin API. What this process has changed meanwhile stays as it is."""
        before = self._count
        self._begun += 1
        reading = self._begun
        found = await self._admin.subscriptions()
        for name, number in self._changes.items():
            if number > before:
                found.pop(name, None)
                if name in self.known:
                    found[name] = self.known[name]
        self.known = found
        self._complete = reading

    async def remove_orphans(self) -> None:
        """Look at each subscription of an object that is gone, and pause those of namespaces that are not listed."""
        for name, entry in list(self.known.items()):
            if entry["origin"] != OWNER:
                continue
            namespace, _, short = name.partition(".")
            place = self._namespaces.get(namespace)
            if place is None:
                await self._pause_unlisted(name, namespace)
            elif place.is_complete and short not in place.objects:
                self.add((namespace, short))

    async def _pause_unlisted(self, name: str, namespace: str) -> None:
        if self.known[name]["document"].get("paused") or not self._holds():
            return
        try:
            await self._pause(name)
            _log.warning("%s was paused: operator.namespaces has no %s", name, namespace)
        except SkybridgeError as error:
            _log.warning("%s cannot be paused: %s", name, error)

    async def report_health(self) -> None:
        """Report the state of each subscription on its object, and try again what the stored configuration did not
        allow."""
        for place in self._namespaces.values():
            for name, item in list(place.objects.items()):
                if item["metadata"].get("deletionTimestamp"):
                    self.add((place.name, name))
                    continue
                health = self._health(subscription_id(place.name, name))
                await self._reporter.report_health(item, health)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._queued.discard(key)
            if key in self._busy:
                self._later(key, _SOON)
                continue
            self._busy.add(key)
            try:
                if self._holds():
                    await self._look(key)
            except SkybridgeError as error:
                _log.warning("%s/%s: %s", *key, error)
                self._later(key, _AGAIN)
            except Exception:  # noqa: BLE001 - no other code would report the error
                _log.exception("%s/%s could not be reconciled", *key)
                self._later(key, _AGAIN * 5)
            finally:
                self._busy.discard(key)

    def _later(self, key: Key, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def _look(self, key: Key) -> None:
        """Bring one subscription in step with its object."""
        namespace, name = key
        place = self._namespaces[namespace]
        if not place.is_complete:
            self._later(key, _SOON)
            return
        item = place.objects.get(name)
        subscription = subscription_id(namespace, name)
        if item is None:
            await self._delete(subscription)
            self._reporter.forget(key)
        elif item["metadata"].get("deletionTimestamp"):
            await self._end(item, subscription)
        else:
            await self._drain.set_finalizer(item)
            outcome = await self._outcome(place, item, subscription)
            await self._reporter.report(item, outcome, self._health(subscription))

    async def _end(self, item: Any, subscription: str) -> None:
        """Delete the subscription of a deleted object as soon as it may go."""
        if DRAIN_FINALIZER not in item["metadata"].get("finalizers", ()):
            return  # another finalizer holds the object; its deletion comes later
        entry = self.known.get(subscription)
        first = self._ending.setdefault(subscription, self._begun + 1)
        is_new = self._complete >= first  # else it may lack events from before the deletion
        left = self._drain.why_not_yet(item, self._own(entry), is_new=is_new)
        if left:
            message = f"{left}. {self._drain.cure(item)}"
            await self._reporter.report(
                item, Outcome("Draining", message), self._health(subscription)
            )
            self._later((item["metadata"]["namespace"], item["metadata"]["name"]), 1.0)
            self._reporter.wanted.set()
            return
        await self._delete(subscription)
        await self._drain.remove_finalizer(item)
        self._ending.pop(subscription, None)

    async def _outcome(self, place: Namespace, item: Any, subscription: str) -> Outcome:
        """Write the subscription of an object, and return the condition ``Ready``."""
        try:
            document, wanted = self._read(place, item)
            place.rights.demand(wanted, own_service=bool(service_of(item)))
            return await self._write(subscription, document)
        except NotAccepted as refused:
            if refused.outcome.reason in DENIED and self._own(self.known.get(subscription)):
                await self._pause(subscription)
            return refused.outcome
        except AdminUnavailable as error:
            self._later((item["metadata"]["namespace"], item["metadata"]["name"]), _AGAIN)
            return Outcome("ServiceUnavailable", str(error))
        except AdminRefused as refused:
            return Outcome(
                _REFUSALS.get(refused.code, "ServiceRefused"), self._with_place(item, refused)
            )

    def _read(self, place: Namespace, item: Any) -> tuple[dict[str, Any], Subscription]:
        place.demand_service(service_of(item))
        document = document_of(item, place.secrets())
        found = read_document(document)
        if found.faults or found.subscription is None:
            raise NotAccepted("InvalidSpec", " ".join(each.detail for each in found.faults))
        return document, found.subscription

    def _with_place(self, item: Any, refused: AdminRefused) -> str:
        """Return the message of a refusal. If the id is taken, it names both places."""
        named = item["metadata"]
        if _REFUSALS.get(refused.code) == "IdTaken":
            return (
                f"The object {named['namespace']}/{named['name']} has the id of another: {refused}"
            )
        return str(refused)

    async def _write(self, subscription: str, document: Mapping[str, Any]) -> Outcome:
        """Store a document, unless it is stored already. Return whether it can run."""
        digest = hashlib.sha256(msgspec.json.encode(document, order="deterministic")).digest()
        entry = self.known.get(subscription)
        if self._own(entry) is None:
            etag = await self._created(subscription, document)
        elif not self._is_written(entry, document, digest):
            etag = await self._replaced(subscription, document, str(entry and entry["etag"]))
        else:
            etag = ""
        self._written[subscription] = digest
        if etag:
            before = self.known.get(subscription, {"id": subscription, "faults": []})
            self._remember(
                subscription, {**before, "origin": OWNER, "document": document, "etag": etag}
            )
        faults = (self.known.get(subscription) or {}).get("faults")
        return Outcome("CannotRun", " ".join(faults)) if faults else Outcome("Accepted")

    def _is_written(self, entry: Entry | None, document: Mapping[str, Any], digest: bytes) -> bool:
        if entry is None:
            return False
        stored = is_stored(entry["document"], document)
        return bool(stored) if stored is not None else self._written.get(str(entry["id"])) == digest

    async def _created(self, subscription: str, document: Mapping[str, Any]) -> str:
        """Create a subscription, or replace it if it is an object's already."""
        try:
            return await self._admin.create(document)
        except AdminRefused as refused:
            if refused.code != "made-by-object":
                raise
        await self.refresh()
        return await self._admin.replace(
            subscription, document, str(self.known[subscription]["etag"])
        )

    async def _replaced(self, subscription: str, document: Mapping[str, Any], etag: str) -> str:
        """Replace a document. If another version is stored, read it and replace that one."""
        try:
            return await self._admin.replace(subscription, document, etag)
        except AdminRefused as refused:
            if refused.status not in {NOT_FOUND, _PRECONDITION_FAILED}:
                raise
        await self.refresh()
        entry = self.known.get(subscription)
        if entry is None:
            return await self._admin.create(document)
        return await self._admin.replace(subscription, document, entry["etag"])

    def _remember(self, subscription: str, entry: dict[str, Any] | None) -> None:
        """Remember what this process has changed, until all subscriptions are read again, which soon follows."""
        self._count += 1
        self._changes[subscription] = self._count
        if entry is None:
            self.known.pop(subscription, None)
        else:
            self.known[subscription] = entry
        self._reporter.wanted.set()

    async def _pause(self, subscription: str) -> None:
        """Pause a subscription whose namespace has no right to it. It keeps its position."""
        entry = self.known[subscription]
        if entry["document"].get("paused"):
            return
        document = {**entry["document"], "paused": True}
        etag = await self._admin.replace(subscription, document, entry["etag"])
        self._written.pop(subscription, None)
        self._remember(subscription, {**entry, "document": document, "etag": etag})

    async def _delete(self, subscription: str) -> None:
        if self._own(self.known.get(subscription)) is None:
            return
        await self._admin.delete(subscription)
        self._written.pop(subscription, None)
        self._remember(subscription, None)

    def _own(self, entry: Entry | None) -> Entry | None:
        """Return the entry if an object owns it, else None."""
        return entry if entry is not None and entry["origin"] == OWNER else None

    def _health(self, subscription: str) -> Mapping[str, Any] | None:
        entry = self._own(self.known.get(subscription))
        return None if entry is None else entry.get("health")
