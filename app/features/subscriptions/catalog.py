"""The catalogue of all subscriptions: those of the file, and those that the API has stored.

What changed in the store is read when any process has changed it, which its revision shows. A stored subscription may
become unable to run, for example because its broker was removed from the file. It is then kept and reported,
and other subscriptions are not affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from app.api.asked.registry import Document, SubscriptionEntry
from app.config.check.candidate import Examined, affects_others, examine
from app.config.load.loader import Loaded
from app.errors import SetupError, VersionConflict
from app.features.component import Component, ConfigChange
from app.interfaces import (
    Halt,
    Store,
    StoredSubscription,
    SubscriptionChanges,
    SubscriptionTotals,
)
from app.model.outlet_rules import with_secret_sink
from app.model.places import paths_of, value_at, with_changed_value
from app.model.secret import HIDDEN, FileSecret
from app.model.subscription import Subscription
from app.store.encryption import SecretUnreadable, Vault, is_sealed

_REFERENCES = re.compile(r"(\$\{[^}]*\})+")

UNREAD = -1  # lower than any revision


class _File(NamedTuple):
    """A configuration, and the subscriptions in it."""

    loaded: Loaded
    entries: Mapping[str, SubscriptionEntry]


class PreparedCatalog(NamedTuple):
    """Another configuration, and the stored subscriptions as checked against it. ``revision`` is the revision
    of the store at that time."""

    file: _File
    made: Mapping[str, SubscriptionEntry]
    stored: dict[str, StoredSubscription]
    revision: int


class SubscriptionCatalog(Component[PreparedCatalog]):
    """All subscriptions as of the last ``refresh``. ``halts`` has the reason for each subscription that
    delivers nothing."""

    name = "subscriptions of file and store"

    def __init__(self, loaded: Loaded, store: Store, vault: Vault) -> None:
        self.vault = vault
        self.halts: Mapping[str, Halt] = {}
        self._store = store
        self._file = _File(loaded, _file_entries(loaded))
        self._stored: dict[str, StoredSubscription] = {}
        self._made: Mapping[str, SubscriptionEntry] = {}  # the entry of each stored document
        self._connected: tuple[Subscription, ...] | None = None
        self.revision = UNREAD
        self._lock = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None  # a reading that has not begun yet

    @property
    def loaded(self) -> Loaded:
        """Return the current configuration."""
        return self._file.loaded

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """Return all subscriptions that can run."""
        made = (each.subscription for each in self._made.values() if not each.faults)
        return (*self.loaded.config.subscriptions, *filter(None, made))

    @property
    def connected(self) -> tuple[Subscription, ...]:
        """Return the subscriptions on which the checks of others depend."""
        if self._connected is None:
            loaded = self.loaded
            self._connected = tuple(
                each for each in self.subscriptions if affects_others(loaded, each)
            )
        return self._connected

    @property
    def incarnations(self) -> Mapping[str, int]:
        """Return the creation time of each stored subscription, in ms since the epoch. It distinguishes a new
        subscription from a deleted one with the same id."""
        return {name: each.created_ms for name, each in self._stored.items()}

    @property
    def entries(self) -> list[SubscriptionEntry]:
        """Return the entries of the file, then those of the API."""
        return [*self._file.entries.values(), *self._made.values()]

    def entry(self, subscription: str) -> SubscriptionEntry | None:
        """Return the entry of a subscription, or None."""
        return self._file.entries.get(subscription) or self._made.get(subscription)

    def decrypted(self, subscription: str) -> Document | None:
        """Return the document of a stored subscription with its secrets in clear text. It must never be
        shown. Return an empty document if it cannot be read, and None if it does not exist."""
        stored = self._stored.get(subscription)
        if stored is None:
            return None
        found = self._decrypt(stored)
        return found if isinstance(found, dict) else {}

    @property
    def count(self) -> int:
        """Return the number of subscriptions that the API created."""
        return len(self._made)

    def broken(self) -> list[SubscriptionEntry]:
        """Return the stored subscriptions that cannot run."""
        return [each for each in self._made.values() if each.faults]

    async def refresh(self) -> None:
        """Read what has changed in the store. Callers that wait for the same reading share it. Raise StoreUnavailable
        if the store does not answer."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._refresh(), name="catalogue reading")
            self._reading.add_done_callback(_retrieve)
        await asyncio.shield(self._reading)

    async def _refresh(self) -> None:
        async with self._lock:
            self._reading = None  # who calls from now on may know of a later change
            found = await self._store.subscriptions.changes(self.revision)
            if found.revision == self.revision:
                return
            stored = await self._stored_after(found)
            self.halts = await self._store.halts.all()
            while stored != self._stored:
                file = self._file
                made = await asyncio.to_thread(self._read, list(stored.values()), file)
                if file is self._file:  # else a reload has changed the configuration meanwhile
                    self._made, self._stored, self._connected = made, stored, None
            self.revision = found.revision

    async def _stored_after(self, found: SubscriptionChanges) -> dict[str, StoredSubscription]:
        """Return all stored subscriptions after changes, in the order of their ids.

        A store that went back to a backup has returned all, unless it is at a higher revision again by now.
        """
        known = self._stored if found.revision > self.revision else {}
        stored = {**known, **{each.id: each for each in found.changed}}
        if SubscriptionTotals.of(stored.values()) != found.totals:  # some were deleted
            present = await self._store.subscriptions.ids()
            stored = {name: each for name, each in stored.items() if name in present}
        if SubscriptionTotals.of(stored.values()) != found.totals:  # a backup was restored
            stored = {each.id: each for each in await self._store.subscriptions.all()}
        return dict(sorted(stored.items()))

    async def clear(self, subscription: str) -> None:
        """Delete the rows that workers wrote for a deleted subscription. Raise StoreUnavailable if the store
        does not answer."""
        await self._store.subscriptions.clear(subscription)

    async def start(self) -> None:
        """Encrypt stored secrets with the current key, and read the store. Raise SetupError if the file and
        the store have the same id, because an operator must decide which to keep."""
        await self._reseal()
        await self.refresh()
        self._demand_distinct_ids(self._file.entries)

    async def prepare(self, change: ConfigChange) -> PreparedCatalog:
        """Check the stored subscriptions against another configuration. Raise SetupError if that
        configuration declares the id of a stored subscription. Raise StoreUnavailable if the store does
        not answer."""
        await self.refresh()
        file = _File(change.loaded, _file_entries(change.loaded))
        self._demand_distinct_ids(file.entries)
        stored, revision = self._stored, self.revision
        made = await asyncio.to_thread(self._read, list(stored.values()), file) if stored else {}
        return PreparedCatalog(file, made, stored, revision)

    def apply(self, prepared: PreparedCatalog) -> None:
        """Use the prepared configuration. If the store has changed in the meantime, the next ``refresh``
        reads it again."""
        is_present = prepared.revision == self.revision
        self._file, self._made, self._stored = prepared.file, prepared.made, prepared.stored
        self._connected = None
        self.revision = self.revision if is_present else UNREAD

    async def put(
        self, name: str, document: bytes, expected: int, owner: str = ""
    ) -> StoredSubscription:
        """Store a document in place of the version ``expected``, and return its row. Raise VersionConflict if another
        version is stored. A new subscription is the owner's."""
        now_ms = int(self._store.clock.now() * 1000)
        put = self._store.subscriptions.put
        return await put(name, document, expected=expected, now_ms=now_ms, owner=owner)

    async def take(self, stored: StoredSubscription, verdict: Examined, loaded: Loaded) -> None:
        """Take over a row that was just stored, without reading the store and without checking its document again.

        If that would not be the state of the store, because something else has changed, read what has changed.

        Args:
            stored: The row.
            verdict: The result of the check of its document.
            loaded: The configuration against which the document was checked.
        """
        async with self._lock:
            if stored == self._stored.get(stored.id):
                return  # a reading has it already
            entry = _entry_of(stored, {}, verdict, self._file.entries)
            touched = filter(None, (self._made.get(stored.id), entry))
            is_next = stored.version == self.revision + 1 and loaded is self.loaded
            if is_next and not any(_affects_others(each, self._file) for each in touched):
                self._stored = dict(sorted({**self._stored, stored.id: stored}.items()))
                self._made = dict(sorted({**self._made, stored.id: entry}.items()))
                self.revision = stored.version
                return
        await self.refresh()

    async def delete(self, name: str, expected: int) -> None:
        """Delete the version ``expected`` of a document. Raise VersionConflict if another version is stored."""
        await self._store.subscriptions.delete(name, expected=expected)

    async def _reseal(self) -> None:
        """Encrypt all secrets again that were encrypted with the previous key."""
        for stored in await self._store.subscriptions.all():
            try:
                renewed = reencrypted(stored, self.vault)
            except SecretUnreadable:  # the subscription is reported as broken
                continue
            if renewed is not None:
                with contextlib.suppress(VersionConflict):  # another process has just done the same
                    await self.put(stored.id, renewed, stored.version)

    def _demand_distinct_ids(self, file: Mapping[str, SubscriptionEntry]) -> None:
        """Raise SetupError if the file and the store have a subscription with the same id."""
        for name, made in self._made.items():
            if name in file:
                other, cure = "was also created by the API", ""
                if made.place:  # with onDelete: keep, the subscription outlives its object
                    other, cure = f"is also in {made.place}", "kubectl delete, then with its token "
                raise SetupError(
                    f"{name!r} is in {file[name].place} and {other}",
                    setting=f"subscriptions.{name}",
                    cure=f"rename it in the file, start, and delete the other: {cure}skybridge subscriptions "
                    f"delete {name}",
                )

    def _read(
        self, stored: Sequence[StoredSubscription], file: _File
    ) -> dict[str, SubscriptionEntry]:
        """Return the entries of stored documents. Entries that no change affects are kept, because a check of a
        thousand subscriptions takes a quarter of a second."""
        kept = self._unaffected(stored, file)
        made = self._judge([each for each in stored if each.id not in kept], file, kept.values())
        if kept and any(_affects_others(each, file) for each in made.values()):
            return self._judge(stored, file, ())
        return {each.id: kept.get(each.id) or made[each.id] for each in stored}

    def _unaffected(
        self, stored: Sequence[StoredSubscription], file: _File
    ) -> dict[str, SubscriptionEntry]:
        """Return the entries of unchanged documents, or none if a changed or deleted one may have affected them."""
        if file is not self._file:
            return {}
        same = {each.id for each in stored if self._stored.get(each.id) == each}
        changed = (each for name, each in self._made.items() if name not in same)
        if any(_affects_others(each, file) for each in changed):
            return {}
        return {name: each for name, each in self._made.items() if name in same}

    def _judge(
        self,
        stored: Sequence[StoredSubscription],
        file: _File,
        kept: Collection[SubscriptionEntry],
    ) -> dict[str, SubscriptionEntry]:
        """Check documents, and return their entries. If mirrors form a loop, the subscription that closed it
        must be refused, so the newest documents are checked first."""
        opened = {each.id: self._decrypt(each) for each in stored}
        readable = [each.id for each in reversed(stored) if isinstance(opened[each.id], dict)]
        judged = examine(
            file.loaded,
            [document for name in readable if isinstance(document := opened[name], dict)],
            [
                *file.loaded.config.subscriptions,
                *filter(None, (each.subscription for each in kept)),
            ],
        )
        verdicts = dict(zip(readable, judged, strict=True))
        return {
            each.id: _entry_of(each, opened[each.id], verdicts.get(each.id), file.entries)
            for each in stored
        }

    def _decrypt(self, stored: StoredSubscription) -> dict[str, Any] | str:
        """Return the document with its secrets in clear text. If it cannot be read, return the reason as
        text."""
        try:
            found: dict[str, Any] = _map_secrets(_decode(stored), self.vault.open)
        except SecretUnreadable as error:
            return f"its secret cannot be read: {error}. Restore the key of store.encryption"
        return found or "its document cannot be read. Delete the subscription and create it again"


def _retrieve(reading: asyncio.Task[None]) -> None:
    """Mark the error of a reading as seen, because each caller that still waits for it gets it."""
    if not reading.cancelled():
        reading.exception()


def _entry_of(
    stored: StoredSubscription,
    document: dict[str, Any] | str,
    judged: Examined | None,
    file: Mapping[str, SubscriptionEntry],
) -> SubscriptionEntry:
    """Return the entry of a stored subscription."""
    faults = [document] if isinstance(document, str) else []
    if judged is not None:
        faults += [fault.detail for fault in judged.faults]
    if stored.id in file:
        faults.append(f"{file[stored.id].place} has the same id")
    return SubscriptionEntry(
        id=stored.id,
        document=_without_secrets(_decode(stored)),
        origin="kubernetes" if stored.owner else "api",
        place=_object_of(stored.id) if stored.owner else "",
        etag=f'"{stored.version}.{stored.updated_ms:x}"',
        version=stored.version,
        subscription=judged and judged.subscription,
        faults=tuple(faults),
        warnings=judged.warnings if judged else (),
        created_ms=stored.created_ms,
        updated_ms=stored.updated_ms,
    )


def _affects_others(entry: SubscriptionEntry, file: _File) -> bool:
    """Return True if the checks of other subscriptions may depend on this one, or its document cannot be read."""
    return entry.subscription is None or affects_others(file.loaded, entry.subscription)


def _object_of(name: str) -> str:
    """Return the object that declares a subscription, as text. The name of a namespace has no dot."""
    namespace, _, short = name.partition(".")
    return f"the Kubernetes object {namespace}/{short} of kind Subscription"


def _decode(stored: StoredSubscription) -> dict[str, Any]:
    """Return the stored document. Return an empty document if it is not a JSON object, which can happen only
    if another program changed the store."""
    try:
        found = msgspec.json.decode(stored.document)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _map_secrets(value: Any, change: Any) -> Any:
    """Return the value with each encrypted secret in it replaced by the result of ``change``."""
    if is_sealed(value):
        return change(value)
    if isinstance(value, dict):
        return {name: _map_secrets(inner, change) for name, inner in value.items()}
    if isinstance(value, list):
        return [_map_secrets(inner, change) for inner in value]
    return value


def _without_secrets(document: Document) -> Document:
    """Return the document with each secret replaced by a placeholder."""
    shown: Document = _map_secrets(document, lambda _: HIDDEN)
    return shown


def reencrypted(stored: StoredSubscription, vault: Vault) -> bytes | None:
    """Return the document with all secrets encrypted with the current key. Return None if they have that key
    already. Raise Unreadable if a secret cannot be decrypted."""
    old: list[object] = []

    def renewed(sealed: dict[str, str]) -> dict[str, str]:
        if vault.is_present(sealed):
            return sealed
        old.append(sealed)
        return vault.seal(vault.open(sealed))

    changed = msgspec.json.encode(_map_secrets(_decode(stored), renewed))
    return changed if old else None


def _file_entries(loaded: Loaded) -> dict[str, SubscriptionEntry]:
    """Return the entries of a configuration, by id."""
    found = {}
    for n, subscription in enumerate(loaded.config.subscriptions):
        document = _as_written(loaded, n, subscription)
        line = loaded.place("subscriptions", n).line
        place = f"{loaded.source}, line {line}" if line else loaded.source or "the configuration"
        found[subscription.id] = SubscriptionEntry(
            id=subscription.id,
            document=document,
            origin="file",
            etag=f'"file-{hashlib.sha256(msgspec.json.encode(document)).hexdigest()[:16]}"',
            place=place,
            subscription=subscription,
        )
    return found


def _as_written(loaded: Loaded, n: int, subscription: Subscription) -> Document:
    """Return the document of a subscription as the file has it. References to secrets are shown, because they
    do not reveal the secrets."""
    written = loaded.as_written("subscriptions", n)
    document: Document = (
        written
        if isinstance(written, dict)
        else subscription.model_dump(mode="json", by_alias=True, exclude_unset=True)
    )
    if isinstance(written, str):  # an environment variable gives all of it
        return {name: inner if name == "id" else written for name, inner in document.items()}
    document = dict(with_secret_sink(document))
    for at in paths_of(FileSecret, subscription):
        text = value_at(document, at)
        if isinstance(text, str) and not _REFERENCES.fullmatch(text):
            document = with_changed_value(document, at, lambda _: HIDDEN)
    return document
