"""Bring the stored subscriptions in step with the objects of the listed namespaces.

Each object has a key, its namespace and name. A change of the object, of a Secret or of a Service that it names puts
the key into a queue. A few tasks take keys from it; no key is in two tasks at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from app.config.check.candidate import read_document
from app.errors import SkybridgeError
from app.kubernetes.admin import AdminApi, AdminRefused, AdminUnavailable
from app.kubernetes.denials import Denials
from app.kubernetes.document import demand_bounded, document_of, service_of
from app.kubernetes.drain import Drain
from app.kubernetes.endings import Endings
from app.kubernetes.key_queue import Key, KeyQueue
from app.kubernetes.known import KnownSubscriptions
from app.kubernetes.names import OWNER, subscription_id
from app.kubernetes.namespace import Namespace
from app.kubernetes.outcome import NotAccepted, Outcome
from app.kubernetes.reporter import Reporter
from app.kubernetes.unlisted import Unlisted
from app.kubernetes.writer import SubscriptionWriter
from app.model.subscription import Subscription

_AT_ONCE = 16  # keys in work
_SOON = 0.2  # seconds until a key is looked at that has to wait for something
_AGAIN = 2.0  # seconds until a key whose work failed is tried again for the first time
_REFUSED = 60.0  # seconds until a refused document is sent again
_REFUSALS: Mapping[str, Any] = {
    "id-taken": "IdTaken",
    "made-by-file": "IdTaken",
    "made-by-object": "IdTaken",
    "too-many-subscriptions": "LimitReached",
    "invalid-subscription": "InvalidSpec",
}

_log = logging.getLogger(__name__)


class Reconciler:
    """The queue of keys, and the work on each one."""

    def __init__(
        self,
        admin: AdminApi,
        known: KnownSubscriptions,
        namespaces: Mapping[str, Namespace],
        reporter: Reporter,
        drain: Drain,
        holds: Callable[[], bool],
        most_bytes: int,
    ) -> None:
        """Take the parts. ``holds`` returns True while this process is the leader; otherwise nothing is written. A spec
        may have ``most_bytes`` as JSON."""
        self._known = known
        self._writer = SubscriptionWriter(admin, known, reporter.wanted.set, holds)
        self._denials = Denials(known, self._writer)
        self._unlisted = Unlisted(known, self._writer, drain)
        self._namespaces = namespaces
        self._reporter = reporter
        self._drain = drain
        self._holds = holds
        self._most_bytes = most_bytes
        self._queue = KeyQueue()
        self._unread: set[Key] = set()  # keys that wait for the first reading of all subscriptions
        self._foreign: set[Key] = set()  # objects of another installation
        self._endings = Endings(known, self._writer, drain, reporter, self._queue)

    def add(self, key: Key) -> None:
        """Look at an object soon."""
        self._queue.add(key)

    @property
    def waiting(self) -> int:
        """Return how many keys wait or are in work."""
        return self._queue.waiting

    def begin(self) -> None:
        """Look at the objects that waited for the first reading of all subscriptions."""
        for key in self._unread:
            self.add(key)
        self._unread.clear()

    async def run(self) -> None:
        """Work until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(self._work())

    async def pause_orphans(self) -> None:
        """Look at each subscription of an object that is gone, and pause those of namespaces that are not listed."""
        for name, entry in list(self._known.entries.items()):
            if entry["origin"] != OWNER:
                continue
            namespace, _, short = name.partition(".")
            place = self._namespaces.get(namespace)
            if place is None and self._holds():
                await self._unlisted.pause(name)
            elif place is not None and place.knows_objects and short not in place.objects:
                self.add((namespace, short))

    async def report_health(self) -> None:
        """Report the state of each subscription on its object. Look again at each whose stored document is another one
        than was written, for example because a backup was restored."""
        items = iter(
            [item for place in self._namespaces.values() for item in place.objects.values()]
        )

        async def report() -> None:
            for item in items:
                await self._report_health(item)

        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(report())

    async def _report_health(self, item: Any) -> None:
        named = item["metadata"]
        key = named["namespace"], named["name"]
        if named.get("deletionTimestamp"):
            self.add(key)
            return
        subscription = subscription_id(*key)
        if self._has_to_be_written(key, subscription):
            self.add(key)
        try:
            await self._reporter.report_health(item, self._known.health(subscription))
        except SkybridgeError as error:
            _log.warning("the state of %s/%s cannot be reported: %s", *key, error)

    def _has_to_be_written(self, key: Key, subscription: str) -> bool:
        """Return True if the store has another document than was written, or has lost a pause."""
        if key in self._foreign:
            return not self._known.is_paused(subscription)
        place = self._namespaces[key[0]]
        return self._writer.has_changed(subscription) or self._denials.is_due(place, subscription)

    async def _work(self) -> None:
        while True:
            key = await self._queue.take(_SOON)
            try:
                if self._holds():
                    await self._look(key)
                else:  # this process may be the leader still, when the API server answers again
                    self._queue.add_later(key, _SOON)
            except SkybridgeError as error:
                _log.warning("%s/%s: %s", *key, error)
                self._queue.add_failed(key, _AGAIN)
            except Exception:  # noqa: BLE001 - no other code would report the error
                _log.exception("%s/%s could not be reconciled", *key)
                self._queue.add_failed(key, _AGAIN * 5)
            finally:
                self._queue.done(key)

    async def _look(self, key: Key) -> None:
        """Bring one subscription in step with its object."""
        namespace, name = key
        place = self._namespaces[namespace]
        item = place.objects.get(name)
        is_deleted = item is None or bool(item["metadata"].get("deletionTimestamp"))
        if not (place.knows_objects if is_deleted else place.is_complete):
            await self._wait_for_copies(place, key)
            return
        if not self._known.is_complete and (item is None or not is_deleted):
            self._unread.add(key)
            return
        subscription = subscription_id(namespace, name)
        if item is not None and place.is_foreign(item):
            await self._leave(item, subscription)
            return
        self._foreign.discard(key)
        if item is None:
            await self._endings.finish(subscription)
            self._reporter.forget(key)
            self._denials.forget(subscription)
        elif is_deleted:
            await self._endings.end(item, subscription)
        else:
            self._endings.forget(subscription)  # of an earlier object of this name
            outcome = await self._outcome(place, item, subscription)
            outcome = await self._denials.judge(place, subscription, outcome)
            has_subscription = self._known.own(subscription) is not None
            await self._drain.set_finalizer(item, has_subscription=has_subscription)
            await self._reporter.report(item, outcome, self._known.health(subscription))

    async def _wait_for_copies(self, place: Namespace, key: Key) -> None:
        """Look at an object again when the copies of its namespace are complete. If the operator may not read them,
        report that on the object."""
        item = place.objects.get(key[1])
        if not place.denial or item is None or place.is_foreign(item):
            self._queue.add_later(key, _SOON)
            return
        self._queue.add_failed(key, _AGAIN)
        message = (
            f"The operator cannot read this namespace: {place.denial}. Cure: repeat helm upgrade, which gives it its "
            "rights in a namespace that was created again."
        )
        health = self._known.health(subscription_id(*key))
        await self._reporter.report(item, Outcome("NamespaceUnreadable", message), health)

    async def _leave(self, item: Any, subscription: str) -> None:
        """Leave an object to the other installation that has its status, and pause the subscription of this one. If the
        other one is gone, a deleted object must not wait for it."""
        key = _key(item)
        self._reporter.forget(key)
        if self._drain.is_abandoned(item):
            await self._drain.remove_finalizer(item)
        await self._endings.keep(subscription)
        if key not in self._foreign:
            self._foreign.add(key)
            await self._reporter.report_foreign(item)

    async def _outcome(self, place: Namespace, item: Any, subscription: str) -> Outcome:
        """Write the subscription of an object, and return the condition ``Ready``."""
        self._writer.begin(subscription)
        try:
            document, wanted = self._read(place, item)
            place.demand(wanted, own_service=bool(service_of(item)))
            return await self._write(place, subscription, document)
        except NotAccepted as refused:
            if refused.outcome.reason == "LimitReached":
                self._queue.add_later(_key(item), _REFUSED)  # another subscription may go
            return refused.outcome
        except AdminUnavailable as error:
            self._queue.add_failed(_key(item), _AGAIN)
            return Outcome("ServiceUnavailable", str(error))
        except AdminRefused as refused:
            self._queue.add_later(_key(item), _REFUSED)  # the cure may be in the service alone
            return Outcome(
                _REFUSALS.get(refused.code, "ServiceRefused"), self._with_place(item, refused)
            )

    async def _write(
        self, place: Namespace, subscription: str, document: Mapping[str, Any]
    ) -> Outcome:
        """Write a document. Raise NotAccepted if it is new, and its namespace may have no other subscription."""
        if place.rights.most is None or self._known.own(subscription) is not None:
            return await self._writer.write(subscription, document)
        with self._known.reserve(subscription) as others:
            place.rights.demand_room(others)
            return await self._writer.write(subscription, document)

    def _read(self, place: Namespace, item: Any) -> tuple[dict[str, Any], Subscription]:
        demand_bounded(item["spec"], self._most_bytes)
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


def _key(item: Any) -> Key:
    return item["metadata"]["namespace"], item["metadata"]["name"]
