"""What the audit keeps of a request: a row before it begins, and its outcome before the answer goes out.

So a change that was answered stands in the audit, also after a kill; a row without an outcome is of a request
that a kill or a lost connection ended. Where the store is away, changes and looks are refused with 503.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from app.api.access.callers import Caller, caller_of
from app.api.http.moments import now_ms
from app.errors import StoreUnavailable
from app.interfaces import AuditEntry, AuditKind, Clock, Notify, Store
from app.interfaces.notify import AUDITED

HOUR = 3600.0  # seconds
RELOAD = "reload_configuration"
USES = 1_024  # callers and objects that are remembered

Scope = MutableMapping[str, Any]

_log = logging.getLogger("skybridge.audit")


class Trail:
    def __init__(self, store: Store, clock: Clock, notify: Notify) -> None:
        self._store = store
        self._clock = clock
        self._notify = notify
        self._used: dict[tuple[str, ...], float] = {}  # in the order of their time

    async def begin(
        self, scope: Scope, caller: Caller, kind: AuditKind, operation: str, *, hourly: bool = False
    ) -> None:
        """``hourly``: only the first in an hour of this caller for this object. Raises StoreUnavailable."""
        entry = self._entry(scope, caller.name, kind, operation)
        if hourly and not self._is_first(entry):
            return
        number = await self._store.audit.add(entry)
        if hourly:
            self._remember(entry)
        caller.entry = msgspec.structs.replace(entry, id=number)

    async def conclude(self, caller: Caller, status: int) -> None:
        """The answer goes out in any case: what was done is done."""
        entry, caller.entry = caller.entry, None
        if entry is None:
            return
        entry = msgspec.structs.replace(entry, status=status)
        try:
            await self._store.audit.conclude(entry)
        except StoreUnavailable as error:
            _log.error(
                "the outcome %d of entry %d is not in the audit: %s", status, entry.id, error
            )
        self._publish(entry)

    async def refused(self, scope: Scope, caller: Caller, operation: str) -> None:
        """For want of a scope, which is answered in any case."""
        entry = self._entry(scope, caller.name, "refusal", operation)
        await self._add(msgspec.structs.replace(entry, status=403))

    async def reloaded(self, who: str, status: int, detail: str) -> None:
        """Without a request, when it is over."""
        entry = AuditEntry(
            kind="change",
            at_ms=now_ms(self._clock),
            who=who,
            address="",
            operation=RELOAD,
            status=status,
            detail=detail,
        )
        await self._add(entry)

    async def told(self, scope: Scope, who: str, operation: str, status: int) -> None:
        """A login or a logout: done, whether the store answers or not: an operator must get in to see that it does not."""
        entry = self._entry(scope, who, "login", operation)
        await self._add(msgspec.structs.replace(entry, status=status))

    async def _add(self, entry: AuditEntry) -> None:
        """Done already, so nothing is refused where the store is away."""
        try:
            await self._store.audit.add(entry)
        except StoreUnavailable as error:
            _log.error("not in the audit: %s by %s: %s", entry.operation, entry.who, error)
        self._publish(entry)

    def _entry(self, scope: Scope, who: str, kind: AuditKind, operation: str) -> AuditEntry:
        client = scope.get("client")
        return AuditEntry(
            kind=kind,
            at_ms=now_ms(self._clock),
            who=who,
            address=client[0] if client else "",
            operation=operation,
            target="/".join(map(str, scope["path_params"].values())),
        )

    def _publish(self, entry: AuditEntry) -> None:
        self._notify(AUDITED[entry.kind], entry.operation, published(entry))

    def _is_first(self, entry: AuditEntry) -> bool:
        noted = self._used.get(_use(entry))
        return noted is None or self._clock.monotonic() - noted >= HOUR

    def _remember(self, entry: AuditEntry) -> None:
        self._used.pop(_use(entry), None)
        self._used[_use(entry)] = self._clock.monotonic()
        if len(self._used) > USES:
            del self._used[next(iter(self._used))]


def _use(entry: AuditEntry) -> tuple[str, ...]:
    return entry.who, entry.address, entry.operation, entry.target


def published(entry: AuditEntry) -> dict[str, object]:
    """Data of an operator event."""
    named = ("kind", "who", "address", "operation", "target", "status", "detail")
    return {name: getattr(entry, name) for name in named}


class Outcomes:
    """A plain ASGI layer that writes the status of an answer down before it is sent."""

    def __init__(self, app: Callable[..., Awaitable[None]], trail: Trail) -> None:
        self._app = app
        self._trail = trail

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        async def answer(message: Any) -> None:
            caller = caller_of(scope)
            if message["type"] == "http.response.start" and caller is not None:
                await self._trail.conclude(caller, message["status"])
            await send(message)

        await self._app(scope, receive, answer)
