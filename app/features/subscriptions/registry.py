"""Create, change and remove subscriptions of the store, for the API.

A document is checked against the model and the whole configuration before it is stored. Its credentials are
stored encrypted, and are never shown.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from app.api.asked.registry import Demand, Document, SubscriptionEntry, accept_all
from app.api.http.problems import RequestRefused
from app.config.check.candidate import Examined, affects_others, examine
from app.config.load.loader import Loaded
from app.delivery.target_url import read_url
from app.errors import Fault, SenderError, VersionConflict
from app.features.subscriptions.catalog import SubscriptionCatalog
from app.model.outlet_rules import with_secret_sink
from app.model.places import Path, paths_of, value_at, with_changed_value
from app.model.secret import HIDDEN, FileSecret
from app.model.subscription import Subscription

_OBJECTS = "kubernetes"  # the owner of subscriptions of objects
_UNSENT = "signing"  # secrets of this section sign requests and are never sent


class _Checked(NamedTuple):
    """A valid document: the result of its check, its subscription, and the configuration of the check."""

    verdict: Examined
    subscription: Subscription
    loaded: Loaded


class ApiSubscriptionRegistry:
    """The registry of subscriptions that the API uses."""

    def __init__(
        self,
        catalog: SubscriptionCatalog,
        *,
        forget: Callable[[Subscription], Awaitable[None]],
        look: Callable[[], Awaitable[None]],
    ) -> None:
        """Store the catalogue and two functions. ``forget`` deletes the group that an earlier subscription
        with the same id may have left. ``look`` makes the workers of this process read the store now."""
        self._catalog = catalog
        self._forget = forget
        self._look = look
        self._reserved: set[str] = set()  # ids of subscriptions that are being created
        self._of_id: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._alone = asyncio.Lock()  # for subscriptions on which the checks of others depend

    @property
    def largest_document(self) -> int:
        """Return the size limit of a document in bytes."""
        return self._catalog.loaded.config.limits.subscription_bytes

    async def entries(self) -> list[SubscriptionEntry]:
        """Return the entries of the file first, then those of the API in the order of their ids."""
        await self._catalog.refresh()
        return self._catalog.entries

    async def entry(self, subscription: str) -> SubscriptionEntry | None:
        """Return the entry of a subscription, or None."""
        await self._catalog.refresh()
        return self._catalog.entry(subscription)

    async def make(
        self, document: Document, demand: Demand = accept_all, owner: str = ""
    ) -> SubscriptionEntry:
        """Check and store a new subscription of an owner. If the document has no id, one is generated. Calls at the
        same time share the transactions of the store."""
        named = with_secret_sink({"id": f"sub-{secrets.token_hex(6)}", **document})
        async with (
            self._reserved_id(named["id"]),
            self._checked(named, None, {}) as checked,
        ):
            demand(checked.subscription, None)
            await self._forget(checked.subscription)
            try:
                return await self._store(named, checked, 0, owner)
            except VersionConflict:
                raise _id_taken(named["id"]) from None

    async def change(
        self,
        entry: SubscriptionEntry,
        document: Document,
        demand: Demand = accept_all,
        owner: str = "",
    ) -> SubscriptionEntry:
        """Check and store another document, unless it equals the stored one. Raise VersionConflict if the version
        of ``entry`` is no longer the stored one."""
        if (given := document.get("id", entry.id)) != entry.id:
            raise _invalid([Fault("other-id", f"is {given!r}, but the id cannot change", "/id")])
        current, before = self._catalog.entry(entry.id), self._catalog.decrypted(entry.id)
        _demand_owner(entry, owner)
        if current is None or before is None:
            raise VersionConflict(f"{entry.id} was deleted", 0)
        named = with_secret_sink({**document, "id": entry.id})
        kept, faults = _with_kept_secrets(named, before, current.subscription)
        if faults:
            raise _invalid(faults)
        async with self._checked(kept, entry.id, before) as checked:
            demand(checked.subscription, current.subscription)
            if kept == before and entry.version == current.version:
                return current
            return await self._store(kept, checked, entry.version, owner)

    async def remove(self, entry: SubscriptionEntry, owner: str = "") -> None:
        """Delete a subscription of an owner, or one whose owner has no token. Raise VersionConflict if the version of
        ``entry`` is no longer the stored one."""
        if owner or not self._is_abandoned(entry):
            _demand_owner(entry, owner)
        await self._catalog.delete(entry.id, entry.version)
        await self._catalog.refresh()
        await self._follow_change(owner)

    async def nudge(self) -> None:
        """Make the workers of this process read the store now."""
        await self._catalog.refresh()
        await self._look()

    async def _follow_change(self, owner: str) -> None:
        """Make the workers of this process read a change now. An owner such as Kubernetes changes a thousand at
        once: workers then take the changes of a second together, as those of other processes do."""
        if not owner:
            await self._look()

    @asynccontextmanager
    async def _reserved_id(self, name: object) -> AsyncIterator[None]:
        """Reserve the id of a new subscription, and its place below the limit. Raise Refused with 409 if there is
        none."""
        key = str(name)
        async with self._of_id.setdefault(key, asyncio.Lock()):
            await self._catalog.refresh()
            self._demand_below_limit()
            self._demand_free_id(name)
            self._reserved.add(key)
            try:
                yield
            finally:
                self._reserved.discard(key)

    def _is_abandoned(self, entry: SubscriptionEntry) -> bool:
        """Return True if no token can write a subscription of an object, because the operator is switched off."""
        tokens = self._catalog.loaded.config.server.admin.tokens
        return entry.origin == _OBJECTS and all(each.owner != _OBJECTS for each in tokens)

    def _demand_below_limit(self) -> None:
        """Raise Refused with 409 if the API has created, or is creating, as many subscriptions as allowed."""
        most = self._catalog.loaded.config.limits.subscriptions
        creating = sum(self._catalog.entry(each) is None for each in self._reserved)
        if self._catalog.count + creating >= most:
            raise RequestRefused(
                409,
                "too-many-subscriptions",
                f"the API has created {most} subscriptions, which is the limit. Delete one, or raise"
                " limits.subscriptions",
            )

    def _demand_free_id(self, name: object) -> None:
        """Raise Refused with 409 if the id is in use. An invalid id is reported later with all other faults."""
        taken = self._catalog.entry(name) if isinstance(name, str) else None
        if taken is not None:
            raise _id_taken(taken.id) if taken.origin == "api" else refuse_change(taken)

    @asynccontextmanager
    async def _checked(
        self, document: Document, replaces: str | None, before: Document
    ) -> AsyncIterator[_Checked]:
        """Check a document, and store it within the block. If the checks of others depend on its subscription, no
        other such subscription is stored meanwhile."""
        checked = await self._check(document, replaces, before)
        if not affects_others(checked.loaded, checked.subscription):
            yield checked
            return
        async with self._alone:
            yield await self._check(document, replaces, before)

    async def _check(self, document: Document, replaces: str | None, before: Document) -> _Checked:
        """Check a document. Raise SenderError with 422 and all faults. A setting that ``before`` also has does not
        count as new."""
        loaded = self._catalog.loaded
        others = [each for each in self._catalog.connected if each.id != replaces]

        def is_new(at: Path) -> bool:
            return bool(value_at(document, at) != value_at(before, at))

        try:
            (found,) = await asyncio.to_thread(examine, loaded, [document], others, is_new)
        except RecursionError:
            raise RequestRefused(400, "bad-request", "the document is nested too deeply") from None
        if found.faults or found.subscription is None:
            raise _invalid(found.faults)
        if faults := list(self._secret_faults(document, found)):
            raise _invalid(faults)
        return _Checked(found, found.subscription, loaded)

    def _secret_faults(self, document: Document, found: Examined) -> Iterator[Fault]:
        """Yield a fault for each secret that cannot be stored. A placeholder cannot be stored, nor can any
        secret if no key for encryption is configured."""
        for at in paths_of(FileSecret, found.subscription):
            if value_at(document, at) == HIDDEN:
                yield _secret_fault(
                    "placeholder", at, "is the placeholder of a secret, but no secret is stored"
                )
            elif self._catalog.vault.locked:
                yield _secret_fault(
                    "no-key",
                    at,
                    "is a secret, which cannot be stored without "
                    'store.encryption.key. Set that to "${file:/path}" of a key '
                    "made by skybridge secret --kind store",
                )

    async def _store(
        self, document: Document, checked: _Checked, expected: int, owner: str
    ) -> SubscriptionEntry:
        """Store a checked document with its secrets encrypted, and return the new entry."""
        name, sealed = checked.subscription.id, document
        for at in paths_of(FileSecret, checked.subscription):
            sealed = with_changed_value(sealed, at, self._catalog.vault.seal)
        stored = await self._catalog.put(name, msgspec.json.encode(sealed), expected, owner)
        await self._catalog.take(stored, checked.verdict, checked.loaded)
        await self._follow_change(owner)
        entry = self._catalog.entry(name)
        if entry is None:
            raise VersionConflict(f"{name} was deleted at the same moment", 0)
        return entry


def _with_kept_secrets(
    document: Document, before: Document, subscription: Subscription | None
) -> tuple[Document, list[Fault]]:
    """Replace placeholders by the stored secrets, and return the document with faults. A secret is kept only
    if the target of the subscription stays the same. Otherwise a caller could have the secret sent to
    another address.

    Args:
        document: The new document, with placeholders.
        before: The stored document in clear text, or an empty one if it cannot be read.
        subscription: The subscription of the stored document.
    """
    changed: Any = document
    faults = []
    for at in paths_of(FileSecret, subscription) if before else ():
        if value_at(document, at) != HIDDEN:
            continue
        if at[0] != _UNSENT and _targets(document, before) != _targets(before, before):
            faults.append(
                _secret_fault(
                    "other-target",
                    at,
                    "belongs to another target. Send the secret again with the new sink",
                )
            )
        changed = with_changed_value(changed, at, partial(_replacement, value_at(before, at)))
    return changed, faults


def _replacement(value: object, _: object) -> object:
    return value


def _targets(document: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the addresses to which a document sends credentials. If a URL is hidden, it is the URL in
    ``before``."""
    sink = document.get("sink")
    if isinstance(sink, dict) and sink.get("url") == HIDDEN:
        sink = before.get("sink")
    return _origin(sink), value_at(document, ("auth", "token_endpoint"))


def _origin(sink: object) -> object:
    """Return scheme, host and port of a sink that is a URL. Return any other sink unchanged."""
    if isinstance(sink, dict) and isinstance(sink.get("url"), str):
        sink = sink["url"]
    if not isinstance(sink, str):
        return sink
    try:
        url = read_url(sink)
    except ValueError:
        return sink
    return url.scheme, url.host, url.port


def _secret_fault(code: str, at: Path, text: str) -> Fault:
    return Fault(code, f"{'.'.join(map(str, at))} {text}", "/" + "/".join(map(str, at)))


def _invalid(faults: Sequence[Fault]) -> SenderError:
    return SenderError(
        "The subscription is not valid", status=422, code="invalid-subscription", faults=faults
    )


def _id_taken(name: str) -> RequestRefused:
    return RequestRefused(
        409, "id-taken", f"subscription {name} exists already. PUT with its ETag replaces it"
    )


def _demand_owner(entry: SubscriptionEntry, owner: str) -> None:
    """Raise Refused with 409 if the subscription is not the owner's."""
    if entry.origin == (owner or "api"):
        return
    raise _id_taken(entry.id) if entry.origin == "api" else refuse_change(entry)


def refuse_change(entry: SubscriptionEntry) -> RequestRefused:
    """Return the error for a change of a subscription that the file or an object declares, which the API may not
    change."""
    return RequestRefused(
        409,
        "made-by-file" if entry.origin == "file" else "made-by-object",
        f"subscription {entry.id} is in {entry.place}. Change it there; the API can only pause and resume it",
    )
