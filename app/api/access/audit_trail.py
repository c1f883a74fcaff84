"""Write the audit: a row before a request begins, and its outcome before the answer is sent.

Every answered change is therefore in the audit, also after a kill. A row without an outcome belongs to a
request that a kill or a lost connection ended. While the store is unavailable, changes and looks are refused
with 503.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from app.api.access.callers import AdminCaller, caller_of
from app.api.http.moments import now_ms
from app.errors import StoreUnavailable
from app.interfaces import AuditEntry, AuditKind, Clock, Notify, Store
from app.interfaces.notify import AUDITED

HOUR = 3600.0  # seconds
RELOAD = "reload_configuration"
USES = 1_024  # pairs of caller and object whose last use is remembered

Scope = MutableMapping[str, Any]

_log = logging.getLogger("skybridge.audit")


class AuditRecorder:
    """The writer of the audit of one admin listener."""

    def __init__(self, store: Store, clock: Clock, notify: Notify) -> None:
        self._store = store
        self._clock = clock
        self._notify = notify
        self._used: dict[tuple[str, ...], float] = {}  # the oldest use first

    async def begin(
        self,
        scope: Scope,
        caller: AdminCaller,
        kind: AuditKind,
        operation: str,
        *,
        hourly: bool = False,
    ) -> None:
        """Write the audit entry of a request before its operation runs, and store the entry in ``caller``.
        Raise StoreUnavailable if the store cannot write it.

        With ``hourly``, only the first request of an hour by this caller for this operation and object is
        written.
        """
        entry = self._entry(scope, caller.name, kind, operation)
        if hourly and not self._is_first(entry):
            return
        number = await self._store.audit.add(entry)
        if hourly:
            self._remember(entry)
        caller.entry = msgspec.structs.replace(entry, id=number)

    async def conclude(self, caller: AdminCaller, status: int) -> None:
        """Write the status of the answer into the audit entry of this request. If the store fails, log the
        failure and send the answer anyway, because the operation is done."""
        entry, caller.entry = caller.entry, None
        if entry is None:
            return
        entry = msgspec.structs.replace(entry, status=status)
        try:
            await self._store.audit.conclude(entry)
        except StoreUnavailable as error:
            _log.error("audit entry %d lacks its outcome, status %d: %s", entry.id, status, error)
        self._publish(entry)

    async def record_refusal(self, scope: Scope, caller: AdminCaller, operation: str) -> None:
        """Record a request that was refused with 403, because its token lacks a scope or does not permit the
        object."""
        entry = self._entry(scope, caller.name, "refusal", operation)
        await self._add(msgspec.structs.replace(entry, status=403))

    async def record_reload(self, who: str, status: int, detail: str) -> None:
        """Record a reload that a signal or a changed file caused, after it has ended."""
        entry = AuditEntry(
            kind="change",
            at_ms=now_ms(self._store.clock),
            who=who,
            address="",
            operation=RELOAD,
            status=status,
            detail=detail,
        )
        await self._add(entry)

    async def record_login(self, scope: Scope, who: str, operation: str, status: int) -> None:
        """Record a login or a logout. A failing store does not prevent the login, because an operator must be
        able to log in and see the failure."""
        entry = self._entry(scope, who, "login", operation)
        await self._add(msgspec.structs.replace(entry, status=status))

    async def _add(self, entry: AuditEntry) -> None:
        """Add an audit entry for an operation that is already done. If the store fails, log the failure
        instead of refusing the request."""
        try:
            await self._store.audit.add(entry)
        except StoreUnavailable as error:
            _log.error("the audit lacks %s by %s: %s", entry.operation, entry.who, error)
        self._publish(entry)

    def _entry(self, scope: Scope, who: str, kind: AuditKind, operation: str) -> AuditEntry:
        client = scope.get("client")
        return AuditEntry(
            kind=kind,
            at_ms=now_ms(self._store.clock),
            who=who,
            address=client[0] if client else "",
            operation=operation,
            target="/".join(map(str, scope["path_params"].values())),
        )

    def _publish(self, entry: AuditEntry) -> None:
        self._notify(AUDITED[entry.kind], entry.operation, published(entry))

    def _is_first(self, entry: AuditEntry) -> bool:
        """Return True if the audit has no entry of the last hour for the same use by this caller."""
        noted = self._used.get(_use_key(entry))
        return noted is None or self._clock.monotonic() - noted >= HOUR

    def _remember(self, entry: AuditEntry) -> None:
        """Remember when the caller of this entry last used this object. If more than 1,024 uses are
        remembered, forget the oldest."""
        self._used.pop(_use_key(entry), None)
        self._used[_use_key(entry)] = self._clock.monotonic()
        if len(self._used) > USES:
            del self._used[next(iter(self._used))]


def _use_key(entry: AuditEntry) -> tuple[str, ...]:
    """Return the fields of an entry by which the hourly audit recognises a repeated use."""
    return entry.who, entry.address, entry.operation, entry.target


def published(entry: AuditEntry) -> dict[str, object]:
    """Return the data of the operator event that reports an audit entry."""
    named = ("kind", "who", "address", "operation", "target", "status", "detail")
    return {name: getattr(entry, name) for name in named}


class AuditOutcomes:
    """A plain ASGI layer that writes the status of each answer into the audit before it is sent."""

    def __init__(self, app: Callable[..., Awaitable[None]], trail: AuditRecorder) -> None:
        self._app = app
        self._trail = trail

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        async def answer(message: Any) -> None:
            caller = caller_of(scope)
            if message["type"] == "http.response.start" and caller is not None:
                await self._trail.conclude(caller, message["status"])
            await send(message)

        await self._app(scope, receive, answer)
