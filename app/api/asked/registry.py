"""The protocol through which the API reads and changes subscriptions, from the file and from the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from app.model.subscription import Subscription

Document = Mapping[str, Any]
"""The document of a subscription as JSON, in the form of the configuration file. Each secret is replaced by
``HIDDEN`` of ``model.secret``."""


Origin = Literal["file", "api", "kubernetes"]


class SubscriptionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription as the registry stores it.

    Attributes:
        origin: ``file``, ``api`` or ``kubernetes``: what declares the subscription.
        place: The place in the file or the object that declares the subscription, or "" for one from the API.
        version: The version in the store, or 0 for a subscription from the file. ``etag`` is the version in
            quotes.
        subscription: The parsed document, or None if it no longer fits the model.
        faults: The reasons why the subscription does not run, such as a broker that the file no longer has.
        warnings: Settings that look wrong but may be intended.
    """

    id: str
    document: Document
    origin: Origin
    etag: str
    place: str = ""
    version: int = 0
    subscription: Subscription | None = None
    faults: Sequence[str] = ()
    warnings: Sequence[str] = ()
    created_ms: int | None = None
    updated_ms: int | None = None


Demand = Callable[[Subscription, Subscription | None], None]
"""A function that checks a new subscription. Its second argument is the subscription that would be replaced,
or None. It raises Refused if the caller may not make the change."""


def accept_all(wanted: Subscription, before: Subscription | None) -> None:
    """Accept every subscription. This is the check of a caller without limits."""


class Registry(Protocol):
    """The store of subscriptions. Methods that change a subscription raise SenderError with every fault of
    the document, or ``RequestRefused``."""

    @property
    def largest_document(self) -> int:
        """Return the size limit of a document in bytes."""

    async def entries(self) -> list[SubscriptionEntry]:
        """Return the subscriptions of the file first, then those of the API in the order of their ids."""

    async def entry(self, subscription: str) -> SubscriptionEntry | None:
        """Return the entry of a subscription id, or None if the id is unknown."""

    async def make(
        self, document: Document, demand: Demand = accept_all, owner: str = ""
    ) -> SubscriptionEntry:
        """Store a new subscription of an owner, which is "" for callers of the API. If the document has no id, the
        registry assigns one."""

    async def change(
        self,
        entry: SubscriptionEntry,
        document: Document,
        demand: Demand = accept_all,
        owner: str = "",
    ) -> SubscriptionEntry:
        """Replace the document of a subscription, which must be the owner's. Raise VersionConflict if the version
        of ``entry`` is no longer the stored one."""

    async def remove(self, entry: SubscriptionEntry, owner: str = "") -> None:
        """Delete the subscription, which must be the owner's, and its waiting events. Raise VersionConflict if the
        version of ``entry`` is no longer the stored one."""

    async def nudge(self) -> None:
        """Make the workers of this process read the store now instead of at their next interval."""
