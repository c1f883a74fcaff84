"""The audit: what is written down of each use of the admin listener."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

AuditKind = Literal["change", "login", "look", "refusal"]
FAILED = 400  # the lowest status of an answer to a request that failed
FOLDED_MS = 3_600_000  # milliseconds from the first to the last use that one entry counts


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One use of the admin listener, or several alike, without any data of events and without secrets.

    ``kind``       ``change``: something was to be changed; ``login``: a session began or ended;
                   ``look``: event data was to be shown; ``refusal``: the token lacks the scope. Each kind
                   has its own bound.
    ``who``        name of the token; ``token``, ``loopback``, ``signal`` or ``file`` where it has none.
    ``address``    of the caller; "" for a signal and for a change of the file.
    ``operation``  of the API, by its operation id; ``target``: its object, "" where it has none.
    ``status``     of the answer; None: none is known, the process ended in between.
    ``detail``     how much was changed, in words of ours.
    ``count``      how many uses the entry stands for; ``last_ms``: the time of the last one where it is
                   more than one, while ``at_ms`` is that of the first.
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
    count: int = 1
    last_ms: int | None = None
    id: int = 0

    @property
    def folds(self) -> bool:
        """Return whether an entry that is alike counts in this one. A change that succeeded always has an entry of its own."""
        if self.status is None:
            return False
        return self.kind != "change" or self.status >= FAILED

    @property
    def alike(self) -> tuple[object, ...]:
        """Return what entries have in common that are folded into one."""
        return self.kind, self.who, self.address, self.operation, self.target, self.status


class AuditChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries are meant; what is left out chooses all. Times in milliseconds, ``since_ms`` included,
    ``until_ms`` not; an entry that counts several uses is meant if its span touches them."""

    kind: AuditKind | None = None
    who: str | None = None
    operation: str | None = None
    target: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


class AuditTrail(Protocol):
    """The uses of the admin listener. Beyond the bound of its kind the oldest go; kinds never push out one
    another. An entry that folds takes the count of the newest one alike, and its place, where that began less than
    ``FOLDED_MS`` ago."""

    async def add(self, entry: AuditEntry) -> int:
        """Its id."""

    async def conclude(self, entry: AuditEntry) -> None:
        """Writes ``target``, ``status`` and ``detail`` into the row of its ``id``."""

    async def find(
        self, choice: AuditChoice, limit: int = 100, before: int | None = None
    ) -> list[AuditEntry]:
        """The newest first; ``before``: only entries with a lower id, for the next page."""
