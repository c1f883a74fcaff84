"""What the API asks of whoever keeps subscriptions: those of the file and those made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from app.model.subscription import Subscription

Document = Mapping[str, Any]
"""A subscription as a user writes it, in the file and here alike. Where a secret is, ``HIDDEN``
(``model.secret``) stands."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription as it is kept.

    ``origin``    who made it: ``place`` says where in the file, "" for the API.
    ``version``   of the store, 0 in the file; ``etag`` names the same, quoted.
    ``subscription``  what the document says; None where it no longer fits the model.
    ``faults``    why it does not run although it is kept: a broker that left the file, say.
    ``warnings``  what looks wrong and may be meant.
    """

    id: str
    document: Document
    origin: Literal["file", "api"]
    etag: str
    place: str = ""
    version: int = 0
    subscription: Subscription | None = None
    faults: Sequence[str] = ()
    warnings: Sequence[str] = ()
    created_ms: int | None = None
    updated_ms: int | None = None


class Registry(Protocol):
    """Whatever it refuses is a SenderError with every fault, or ``problems.Refused``."""

    async def entries(self) -> list[Entry]:
        """Those of the file first, then in the order they were made."""

    async def entry(self, subscription: str) -> Entry | None: ...

    async def make(self, document: Document) -> Entry:
        """Without an id it gets one."""

    async def change(self, entry: Entry, document: Document) -> Entry:
        """Raises VersionConflict when ``entry`` is no longer what is kept."""

    async def remove(self, entry: Entry) -> None:
        """Its events are finished (rule 7). VersionConflict likewise."""

    async def nudge(self) -> None:
        """Workers of this process look at once at what the store says now."""
