"""The audit trail: entries about each use of the admin API."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

AuditKind = Literal["change", "login", "look", "refusal"]
FAILED = 400  # the lowest status of an answer to a failed request
FOLDED_MS = 3_600_000  # ms from the first to the last use that one entry counts


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One use of the admin API, or several equal uses, without event data and secrets.

    Attributes:
        kind: ``change`` (something was to be changed), ``login`` (a session began or ended), ``look`` (event
            data was requested) or ``refusal`` (the token lacks the scope). Each kind has its own limit of
            entries.
        at_ms: The time of the first use in ms since 1970.
        who: The name of the token, or ``token``, ``loopback``, ``signal`` or ``file`` without a named token.
        address: The address of the caller. "" for a signal or a changed file.
        operation: The operation id in the API.
        target: The object of the operation, or "".
        status: The status of the answer. None if the process ended before it was known.
        detail: The extent of the change, in words of Skybridge.
        count: The number of uses that the entry counts.
        last_ms: The time of the last use, if there are several.
        id: The number that the store assigns, in order of writing. 0 before that.
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
        """Return True if equal uses are counted in this entry. A successful change always has an entry of its own."""
        if self.status is None:
            return False
        return self.kind != "change" or self.status >= FAILED

    @property
    def alike(self) -> tuple[object, ...]:
        """Return the values that two entries must share to be counted as one."""
        return self.kind, self.who, self.address, self.operation, self.target, self.status


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of audit entries. Absent conditions match all.

    ``since_ms`` is included in the range, ``until_ms`` is not. An entry for several uses matches if its time
    span overlaps the range.
    """

    kind: AuditKind | None = None
    who: str | None = None
    operation: str | None = None
    target: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


class AuditTrail(Protocol):
    """The store of audit entries. Each kind has its own limit, above which its oldest entries are deleted. An entry
    whose ``folds`` is True is counted in the newest equal entry, if that entry began less than ``FOLDED_MS`` ago.
    """

    async def add(self, entry: AuditEntry) -> int:
        """Store an entry, and return its id."""

    async def conclude(self, entry: AuditEntry) -> None:
        """Update ``target``, ``status`` and ``detail`` of the stored entry that has the id of ``entry``."""

    async def find(
        self, choice: AuditFilter, limit: int = 100, before: int | None = None
    ) -> list[AuditEntry]:
        """Return matching entries, newest first. With ``before``, return only entries with a lower id, for the next
        page."""
