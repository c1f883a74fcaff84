"""The registry of subscriptions: of the file, and made by the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


Demand = Callable[[Subscription, Subscription | None], None]
"""Raises Refused for a subscription that the caller may not make in the place of another, or of none."""


def anything(wanted: Subscription, before: Subscription | None) -> None:
    """Refuse nothing."""


class Registry(Protocol):
    """Stores subscriptions. A refusal is a SenderError with every fault, or ``problems.Refused``."""

    @property
    def largest_document(self) -> int:
        """Return the most bytes of a document."""

    async def entries(self) -> list[Entry]:
        """Return those of the file first, then the others in the order they were made."""

    async def entry(self, subscription: str) -> Entry | None: ...

    async def make(self, document: Document, demand: Demand = anything) -> Entry:
        """Store a new subscription. One without an id gets one."""

    async def change(self, entry: Entry, document: Document, demand: Demand = anything) -> Entry:
        """Replace the document. Raises VersionConflict if ``entry`` is no longer what is stored."""

    async def remove(self, entry: Entry) -> None:
        """Delete the subscription and finish its events. Raises VersionConflict if ``entry`` is no longer what is stored."""

    async def nudge(self) -> None:
        """Let the workers of this process look at the store at once."""
