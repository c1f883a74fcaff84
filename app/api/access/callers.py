"""Callers of the admin listener: the token of each request, its rights, and the audit entry of the
request."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, MutableMapping, Sequence
from typing import Any, cast

import msgspec

from app.access.rights import UNBOUND, TokenRestriction
from app.api.access.redaction import Redaction
from app.event.masking import compile_mask
from app.interfaces import AuditEntry
from app.model.scopes import ALL_SCOPES, EVERY_SCOPE, ON_LOOPBACK, Scope

_KEY = "skybridge.caller"  # in a scope of ASGI


class AccessToken(msgspec.Struct, frozen=True):
    """A token of the admin listener.

    Attributes:
        texts: The token, and its predecessor while that is still accepted.
        binding: The subscriptions and topics to which the token is limited.
        owner: The owner of the subscriptions that the token writes, or "" for the API.
    """

    name: str
    texts: Sequence[str]
    scopes: frozenset[Scope]
    binding: TokenRestriction = UNBOUND
    owner: str = ""


class AdminAccess(msgspec.Struct, frozen=True):
    """The tokens of the admin listener and their limits. Without tokens, every caller on loopback has all
    rights.

    Attributes:
        mask: JSON Pointers of the event data that callers without the scope ``data`` may not see.
        targets: Webhooks to which subscriptions of callers without the scope ``data`` may deliver. None
            permits all.
    """

    tokens: Sequence[AccessToken] = ()
    mask: Sequence[str] = ()
    targets: tuple[str, ...] | None = None

    @classmethod
    def by(cls, token: str | None) -> AdminAccess:
        """Return the access of one token with every scope, or without tokens if ``token`` is None or empty."""
        return cls([AccessToken(ALL_SCOPES, [token], EVERY_SCOPE)] if token else [])


class AdminCaller:
    """The caller of one request to the admin listener.

    Attributes:
        entry: The audit entry of the request, until its outcome is written.
        token: SHA-256 digest of the token. Empty if no token is needed.
        binding: The subscriptions and topics to which the caller is limited.
        targets: Webhooks to which the caller's subscriptions may deliver. None permits all.
        owner: The owner of the subscriptions that the caller writes, or "" for the API.
    """

    def __init__(
        self,
        name: str,
        scopes: frozenset[Scope],
        shown: Redaction,
        token: bytes = b"",
        binding: TokenRestriction = UNBOUND,
        targets: tuple[str, ...] | None = None,
        owner: str = "",
    ) -> None:
        self.name = name
        self.scopes = scopes
        self.shown = shown
        self.token = token
        self.binding = binding
        self.targets = targets
        self.owner = owner
        self.entry: AuditEntry | None = None

    def annotate_audit(self, *, target: str | None = None, detail: str = "") -> None:
        """Add the object of the operation and the amount of change to the audit entry of this request.

        Args:
            target: The object, if the path does not name it. None keeps the object from the path.
            detail: How much was changed. It must not contain event data or secrets.
        """
        if self.entry is not None:
            target = self.entry.target if target is None else target
            self.entry = msgspec.structs.replace(self.entry, target=target, detail=detail)


class CallerDirectory:
    """A directory that finds the caller of a token. It keeps only SHA-256 digests of the tokens."""

    def __init__(self, access: AdminAccess) -> None:
        mask = compile_mask(access.mask)
        self._all, self._part = Redaction(None), Redaction(mask, access.mask)
        self.open = not access.tokens
        self._targets = access.targets
        self._known = {
            digest_of(text.encode()): each for each in access.tokens for text in each.texts
        }

    def local_caller(self) -> AdminCaller:
        """Return the caller of a listener without tokens, which has all rights."""
        return AdminCaller(ON_LOOPBACK, EVERY_SCOPE, self._all)

    @property
    def digests(self) -> Collection[bytes]:
        """Return the digests of all accepted tokens."""
        return self._known.keys()

    def by_token(self, token: bytes) -> AdminCaller | None:
        """Return the caller of a token, or None if the token is wrong. The token is compared with every
        digest, so that the duration reveals nothing."""
        given = digest_of(token)
        fits = [each for digest, each in self._known.items() if hmac.compare_digest(digest, given)]
        return self._caller(fits[0], given) if fits else None

    def by_digest(self, digest: bytes) -> AdminCaller | None:
        """Return the caller of a token that was accepted before, by its digest. Return None if the token is
        no longer accepted."""
        token = self._known.get(digest)
        return None if token is None else self._caller(token, digest)

    def still_allows(self, caller: AdminCaller) -> bool:
        """Return True if a caller still has all the rights that it had when this directory returned it."""
        now = self.local_caller() if self.open else self.by_digest(caller.token)
        return (
            now is not None
            and caller.scopes <= now.scopes
            and (now.binding, now.owner) == (caller.binding, caller.owner)
            and now.shown.covers(caller.shown)
        )

    def _caller(self, token: AccessToken, digest: bytes) -> AdminCaller:
        whole = "data" in token.scopes
        shown, targets = (self._all, None) if whole else (self._part, self._targets)
        binding, owner = token.binding, token.owner
        return AdminCaller(token.name, token.scopes, shown, digest, binding, targets, owner)


def digest_of(token: bytes) -> bytes:
    """Return the SHA-256 digest of a token."""
    return hashlib.sha256(token).digest()


def attach(scope: MutableMapping[str, Any], caller: AdminCaller) -> None:
    """Store the caller of a request in its ASGI scope."""
    scope[_KEY] = caller


def caller_of(scope: MutableMapping[str, Any]) -> AdminCaller | None:
    """Return the caller of a request. Return None if the request has no valid token. Only liveness, readiness
    and login answer a request without a token."""
    return cast("AdminCaller | None", scope.get(_KEY))
