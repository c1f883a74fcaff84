"""Every subscription there is: those of the file, and those that the store keeps.

Read again when the store's revision has grown, through any process. A stored document that
cannot run any more, say because its broker left the file, is kept and reported; it stops nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from app.api.asked.registry import Document, Entry
from app.config.check.candidate import Examined, examine
from app.config.load.loader import Loaded
from app.errors import SetupError, VersionConflict
from app.features.component import Change, Component
from app.interfaces import Clock, Halt, Store, StoredSubscription
from app.model.places import places_of, replaced, value_at
from app.model.secret import HIDDEN, FileSecret
from app.model.subscription import Subscription
from app.store.encryption import Unreadable, Vault, is_sealed

_REFERENCES = re.compile(r"(\$\{[^}]*\})+")

UNREAD = -1  # no revision is below 0


class _File(NamedTuple):
    """A configuration, and the subscriptions that are in it."""

    loaded: Loaded
    entries: Mapping[str, Entry]


class Considered(NamedTuple):
    """Another configuration, and what the store keeps, judged by it. ``revision``: of the store."""

    file: _File
    made: Mapping[str, Entry]
    stored: dict[str, StoredSubscription]
    revision: int


class SubscriptionCatalog(Component[Considered]):
    """All subscriptions as of the last ``refresh``. ``halts``: why some deliver nothing."""

    name = "subscriptions of file and store"

    def __init__(self, loaded: Loaded, store: Store, clock: Clock, vault: Vault) -> None:
        self.vault = vault
        self.halts: Mapping[str, Halt] = {}
        self._clock = clock
        self._store = store
        self._file = _File(loaded, _of_file(loaded))
        self._stored: dict[str, StoredSubscription] = {}
        self._made: Mapping[str, Entry] = {}  # of those
        self.revision = UNREAD
        self._lock = asyncio.Lock()

    @property
    def loaded(self) -> Loaded:
        return self._file.loaded

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """Those that are to run."""
        made = (each.subscription for each in self._made.values() if not each.faults)
        return (*self.loaded.config.subscriptions, *filter(None, made))

    @property
    def incarnations(self) -> Mapping[str, int]:
        """When each of the store was made: one that was deleted and made again is another."""
        return {name: each.created_ms for name, each in self._stored.items()}

    @property
    def entries(self) -> list[Entry]:
        return [*self._file.entries.values(), *self._made.values()]

    def entry(self, subscription: str) -> Entry | None:
        return self._file.entries.get(subscription) or self._made.get(subscription)

    def opened(self, subscription: str) -> Document | None:
        """Return the document of a stored subscription with its secrets in clear, never to be shown. It is empty if it
        cannot be read, and None if there is none."""
        stored = self._stored.get(subscription)
        if stored is None:
            return None
        found = self._opened(stored)
        return found if isinstance(found, dict) else {}

    @property
    def count(self) -> int:
        """Of those that the API made."""
        return len(self._made)

    def broken(self) -> list[Entry]:
        return [each for each in self._made.values() if each.faults]

    async def refresh(self) -> bool:
        """Read the store again if it has changed, and return whether it had. Raises StoreUnavailable."""
        async with self._lock:
            revision = await self._store.subscriptions.revision()
            if revision == self.revision:
                return False
            stored = await self._store.subscriptions.all()
            self.halts = await self._store.halts.all()
            while stored != list(self._stored.values()):
                file = self._file
                made = await asyncio.to_thread(self._read, stored, file)
                if file is self._file:  # else another configuration has come into force meanwhile
                    self._made, self._stored = made, {each.id: each for each in stored}
            self.revision = revision
            return True

    async def clear(self, subscription: str) -> None:
        """What a worker wrote of one that the API had deleted. Raises StoreUnavailable."""
        await self._store.subscriptions.clear(subscription)

    async def start(self) -> None:
        """Seal what the store keeps under the present key, and read it. The same id in the file and in the store is
        for a person to decide: SetupError."""
        await self._reseal()
        await self.refresh()
        self._demand_apart(self._file.entries)

    async def prepare(self, change: Change) -> Considered:
        """Judge what the store keeps by another configuration. Raises SetupError, and StoreUnavailable."""
        await self.refresh()
        file = _File(change.loaded, _of_file(change.loaded))
        self._demand_apart(file.entries)
        stored, revision = self._stored, self.revision
        made = await asyncio.to_thread(self._read, list(stored.values()), file) if stored else {}
        return Considered(file, made, stored, revision)

    def apply(self, prepared: Considered) -> None:
        """What the store has got since it was judged is read again by the next ``refresh``."""
        is_present = prepared.revision == self.revision
        self._file, self._made, self._stored = prepared.file, prepared.made, prepared.stored
        self.revision = self.revision if is_present else UNREAD

    async def put(self, name: str, document: bytes, expected: int) -> None:
        """Keep a document in the place of the version ``expected``. Raises VersionConflict."""
        now_ms = int(self._clock.now() * 1000)
        await self._store.subscriptions.put(name, document, expected=expected, now_ms=now_ms)

    async def delete(self, name: str, expected: int) -> None:
        """Delete the version ``expected`` of a document. Raises VersionConflict."""
        await self._store.subscriptions.delete(name, expected=expected)

    async def _reseal(self) -> None:
        """Seal under the present key what was sealed under the one before."""
        for stored in await self._store.subscriptions.all():
            try:
                renewed = resealed(stored, self.vault)
            except Unreadable:  # it is reported as broken
                continue
            if renewed is not None:
                with contextlib.suppress(VersionConflict):  # another process has just done the same
                    await self.put(stored.id, renewed, stored.version)

    def _demand_apart(self, file: Mapping[str, Entry]) -> None:
        for name in self._made:
            if name in file:
                raise SetupError(
                    f"{name!r} is in {file[name].place} and was also created by the API",
                    setting=f"subscriptions.{name}",
                    cure="rename it in the file, start, and delete the other: skybridge "
                    f"subscriptions delete {name}",
                )

    def _read(self, stored: Sequence[StoredSubscription], file: _File) -> dict[str, Entry]:
        """The newest are judged first, so that of a circle of mirrors the last one made is refused."""
        opened = {each.id: self._opened(each) for each in stored}
        readable = [each.id for each in reversed(stored) if isinstance(opened[each.id], dict)]
        judged = examine(
            file.loaded,
            [document for name in readable if isinstance(document := opened[name], dict)],
            file.loaded.config.subscriptions,
        )
        verdicts = dict(zip(readable, judged, strict=True))
        return {
            each.id: _one(each, opened[each.id], verdicts.get(each.id), file.entries)
            for each in stored
        }

    def _opened(self, stored: StoredSubscription) -> dict[str, Any] | str:
        """The document in clear, or why it cannot be read."""
        try:
            found: dict[str, Any] = _each_sealed(_decoded(stored), self.vault.open)
        except Unreadable as error:
            return f"its secret cannot be read: {error}; restore the key of store.encryption"
        return found or ("its document cannot be read: delete the subscription and create it again")


def _one(
    stored: StoredSubscription,
    document: dict[str, Any] | str,
    judged: Examined | None,
    file: Mapping[str, Entry],
) -> Entry:
    faults = [document] if isinstance(document, str) else []
    if judged is not None:
        faults += [fault.detail for fault in judged.faults]
    if stored.id in file:
        faults.append(f"{file[stored.id].place} has the same id")
    return Entry(
        id=stored.id,
        document=_shown(_decoded(stored)),
        origin="api",
        etag=f'"{stored.version}.{stored.created_ms:x}"',
        version=stored.version,
        subscription=judged and judged.subscription,
        faults=tuple(faults),
        warnings=judged.warnings if judged else (),
        created_ms=stored.created_ms,
        updated_ms=stored.updated_ms,
    )


def _decoded(stored: StoredSubscription) -> dict[str, Any]:
    """Empty for what is no JSON object: somebody else wrote into the store."""
    try:
        found = msgspec.json.decode(stored.document)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _each_sealed(value: Any, change: Any) -> Any:
    if is_sealed(value):
        return change(value)
    if isinstance(value, dict):
        return {name: _each_sealed(inner, change) for name, inner in value.items()}
    if isinstance(value, list):
        return [_each_sealed(inner, change) for inner in value]
    return value


def _shown(document: Document) -> Document:
    shown: Document = _each_sealed(document, lambda _: HIDDEN)
    return shown


def resealed(stored: StoredSubscription, vault: Vault) -> bytes | None:
    """Under the present key; None where all of it is. Raises Unreadable."""
    old: list[object] = []

    def renewed(sealed: dict[str, str]) -> dict[str, str]:
        if vault.is_present(sealed):
            return sealed
        old.append(sealed)
        return vault.seal(vault.open(sealed))

    changed = msgspec.json.encode(_each_sealed(_decoded(stored), renewed))
    return changed if old else None


def _of_file(loaded: Loaded) -> dict[str, Entry]:
    found = {}
    for n, subscription in enumerate(loaded.config.subscriptions):
        document = _as_written(loaded, n, subscription)
        line = loaded.place("subscriptions", n).line
        place = f"{loaded.source}, line {line}" if line else loaded.source or "the configuration"
        found[subscription.id] = Entry(
            id=subscription.id,
            document=document,
            origin="file",
            etag=f'"file-{hashlib.sha256(msgspec.json.encode(document)).hexdigest()[:16]}"',
            place=place,
            subscription=subscription,
        )
    return found


def _as_written(loaded: Loaded, n: int, subscription: Subscription) -> Document:
    """References stand as references: they name secrets and tell none."""
    written = loaded.as_written("subscriptions", n)
    document: Document = (
        written
        if isinstance(written, dict)
        else subscription.model_dump(mode="json", by_alias=True, exclude_unset=True)
    )
    if isinstance(written, str):  # an environment variable gives all of it
        return {name: inner if name == "id" else written for name, inner in document.items()}
    for at in places_of(FileSecret, subscription):
        text = value_at(document, at)
        if isinstance(text, str) and not _REFERENCES.fullmatch(text):
            document = replaced(document, at, lambda _: HIDDEN)
    return document
