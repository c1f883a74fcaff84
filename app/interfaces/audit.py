"""The audit: what is written down of each use of the admin listener."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

AuditKind = Literal["change", "look", "refusal"]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One use of the admin listener, without any data of events and without secrets.

    ``kind``       ``change``: something was to be changed; ``look``: event data was to be shown;
                   ``refusal``: the token lacks the scope. Each kind has its own bound.
    ``who``        name of the token; ``token``, ``loopback``, ``signal`` or ``file`` where it has none.
    ``address``    of the caller; "" for a signal and for a change of the file.
    ``operation``  of the API, by its operation id; ``target``: its object, "" where it has none.
    ``status``     of the answer; None: none is known, the process ended in between.
    ``detail``     how much was changed, in words of ours.
    ``id``         given by the store, in order of writing; 0 before.
    """

    kind: AuditKind
    at_ms: int
    who: str
    address: str
    operation: str
    target: str = ""
    status: int | None = None
    detail: str = ""
    id: int = 0


class AuditChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries are meant; what is left out chooses all. Times in milliseconds, ``since_ms`` included,
    ``until_ms`` not."""

    kind: AuditKind | None = None
    who: str | None = None
    operation: str | None = None
    target: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


class AuditTrail(Protocol):
    """The uses of the admin listener. Beyond the bound of its kind the oldest go; kinds never push out one
    another."""

    async def add(self, entry: AuditEntry) -> int:
        """Its id."""

    async def conclude(self, entry: AuditEntry) -> None:
        """Writes ``target``, ``status`` and ``detail`` into the row of its ``id``."""

    async def find(
        self, choice: AuditChoice, limit: int = 100, before: int | None = None
    ) -> list[AuditEntry]:
        """The newest first; ``before``: only entries with a lower id, for the next page."""
