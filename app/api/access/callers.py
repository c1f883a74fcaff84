"""Callers of the admin listener: which token they send, what it may do, and what its requests did."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, MutableMapping, Sequence
from typing import Any, cast

import msgspec

from app.access.rights import UNBOUND, TokenRestriction
from app.api.access.redaction import Shown
from app.event.masking import compile_mask
from app.interfaces import AuditEntry
from app.model.scopes import ALL_SCOPES, EVERY_SCOPE, ON_LOOPBACK, Scope

_KEY = "skybridge.caller"  # in a scope of ASGI


class AccessToken(msgspec.Struct, frozen=True):
    """``texts``: the token, and the previous one where that is still taken. ``binding``: what it reaches."""

    name: str
    texts: Sequence[str]
    scopes: frozenset[Scope]
    binding: TokenRestriction = UNBOUND


class Access(msgspec.Struct, frozen=True):
    """The users of the admin listener. Without tokens everybody on loopback may do everything. ``mask``:
    JSON Pointers into event data, for callers without the scope ``data``. ``targets``: webhooks that subscriptions
    of such callers may have; None: any."""

    tokens: Sequence[AccessToken] = ()
    mask: Sequence[str] = ()
    targets: tuple[str, ...] | None = None

    @classmethod
    def by(cls, token: str | None) -> Access:
        """One token with every scope, or none."""
        return cls([AccessToken(ALL_SCOPES, [token], EVERY_SCOPE)] if token else [])


class Caller:
    """One request's. ``entry``: its row in the audit, until the outcome is written there. ``token``: digest of its
    token; empty where none is needed. ``binding``: what it reaches. ``targets``: what its subscriptions may send
    to; None: anything."""

    def __init__(
        self,
        name: str,
        scopes: frozenset[Scope],
        shown: Shown,
        token: bytes = b"",
        binding: TokenRestriction = UNBOUND,
        targets: tuple[str, ...] | None = None,
    ) -> None:
        self.name = name
        self.scopes = scopes
        self.shown = shown
        self.token = token
        self.binding = binding
        self.targets = targets
        self.entry: AuditEntry | None = None

    def tell(self, *, target: str | None = None, detail: str = "") -> None:
        """For the audit: the object of the operation, where the path does not name it, and how much was
        changed. Never event data, never a secret."""
        if self.entry is not None:
            target = self.entry.target if target is None else target
            self.entry = msgspec.structs.replace(self.entry, target=target, detail=detail)


class Callers:
    """Knows tokens by their digests."""

    def __init__(self, access: Access) -> None:
        mask = compile_mask(access.mask)
        self._all, self._part = Shown(None), Shown(mask, access.mask)
        self.open = not access.tokens
        self._targets = access.targets
        self._known = {
            digest_of(text.encode()): each for each in access.tokens for text in each.texts
        }

    def anybody(self) -> Caller:
        return Caller(ON_LOOPBACK, EVERY_SCOPE, self._all)

    @property
    def digests(self) -> Collection[bytes]:
        """Of every token that is taken."""
        return self._known.keys()

    def by(self, token: bytes) -> Caller | None:
        """Every digest is compared, so that the time tells nothing."""
        given = digest_of(token)
        fits = [each for digest, each in self._known.items() if hmac.compare_digest(digest, given)]
        return self._caller(fits[0], given) if fits else None

    def of(self, digest: bytes) -> Caller | None:
        """``digest``: of a token that was shown before. None: it is taken no more."""
        token = self._known.get(digest)
        return None if token is None else self._caller(token, digest)

    def admits(self, caller: Caller) -> bool:
        """Whether one that was known before may still do, and be shown, all that it might then."""
        now = self.anybody() if self.open else self.of(caller.token)
        return (
            now is not None
            and caller.scopes <= now.scopes
            and now.binding == caller.binding
            and now.shown.covers(caller.shown)
        )

    def _caller(self, token: AccessToken, digest: bytes) -> Caller:
        whole = "data" in token.scopes
        shown, targets = (self._all, None) if whole else (self._part, self._targets)
        return Caller(token.name, token.scopes, shown, digest, token.binding, targets)


def digest_of(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def attach(scope: MutableMapping[str, Any], caller: Caller) -> None:
    scope[_KEY] = caller


def caller_of(scope: MutableMapping[str, Any]) -> Caller | None:
    """None for a stranger, whom only liveness and readiness answer."""
    return cast("Caller | None", scope.get(_KEY))
