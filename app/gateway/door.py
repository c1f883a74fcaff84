"""Authenticate the sender of a request by its head. The result is the caller or a refusal.

If a request has several credentials, the first in this order counts: a producer's own header,
``Authorization: Bearer``, the client certificate. No part of a credential is logged or repeated.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, NamedTuple

from app.access.caller import EventSender, demand_one, quota_of
from app.access.rights import Rights
from app.access.tokens import BadToken, Head, ends_at, only_match, read_head
from app.access.who import AUTHORIZATION, BEARER, ProducerDirectory, San, digest_of
from app.errors import Fault
from app.gateway.answers import HttpAnswer, problem, unavailable
from app.gateway.issuers import Issuer
from app.gateway.request import HeaderPairs, Pending
from app.interfaces import Clock
from app.model.producer import JwtRule, May
from app.model.quota import EventQuota
from app.problems import ProblemCode

if TYPE_CHECKING:
    from app.access.signatures import Keys

_sha256 = hashlib.sha256  # a local name, because every request needs it
MAX_CACHED_TOKENS = 10_000  # verified tokens in the cache
TOKEN_CACHE_SECONDS = 300.0  # or until the token expires, if that is earlier
MAX_ADDRESSES = 10_000  # addresses whose quotas are counted
NOT_AUTHENTICATED: ProblemCode = "not-authenticated"
ISSUER_UNAVAILABLE: ProblemCode = "issuer-unavailable"
_IPV6_HOST = 64  # bits of an address that belong to the host


Verdict = EventSender | Pending | HttpAnswer | None
"""The result of authentication. It is the caller, a refusal, or a pending request for the keys of the token's
issuer. None is an anonymous sender, if access is open.
"""
IssuerOf = Callable[[JwtRule], Issuer]


class _VerifiedToken(NamedTuple):
    """A verified token in the cache.

    It is valid until ``until``, in seconds of the monotonic clock, and while the issuer has the
    same ``keys``.
    """

    caller: EventSender
    until: float
    issuer: Issuer
    keys: Keys


class AddressQuotas:
    """The quotas of senders without a credential, counted by network address.

    The counts survive a reload, so a reload gives no address a new burst.
    """

    def __init__(self, quota: EventQuota) -> None:
        self._quota = quota_of(quota)
        self._callers: OrderedDict[str, EventSender] = OrderedDict()

    def apply(self, quota: EventQuota, now: float) -> None:
        """Apply a new quota from now on. It also applies to addresses that were counted before."""
        self._quota = quota_of(quota)
        for caller in self._callers.values():
            if caller.allowance is not None:
                caller.allowance.apply(self._quota, now)

    def caller(self, address: str) -> EventSender:
        """Return the caller that represents the network of an address, with the quota of that network."""
        network = network_of(address)
        caller = self._callers.get(network)
        if caller is not None:
            self._callers.move_to_end(network)  # the address that was idle for longest comes first
            return caller
        if len(self._callers) >= MAX_ADDRESSES:
            self._callers.popitem(last=False)
        caller = self._callers[network] = EventSender("", _EVERY_RIGHT, self._quota)
        return caller

    def __len__(self) -> int:
        return len(self._callers)


class Authenticator:
    """The authentication of senders under one configuration. Apart from its cache of verified tokens it never
    changes.

    With ``is_open``, a sender without a credential is accepted. If ``addresses`` is given, the quota of its
    address applies.
    """

    def __init__(
        self,
        producers: ProducerDirectory,
        issuer_of: IssuerOf,
        clock: Clock,
        *,
        is_open: bool,
        addresses: AddressQuotas | None = None,
    ) -> None:
        self.producers = producers
        self._own_headers = producers.headers
        self._bearers = producers.bearers
        self._issuers = {each.rule.issuer: issuer_of(each.rule) for each in producers.rules}
        self._clock = clock
        self._monotonic = clock.monotonic
        self.is_open = is_open
        self._tokens: OrderedDict[bytes, _VerifiedToken] = OrderedDict()
        self._addresses = addresses

    def judge(
        self,
        headers: HeaderPairs,
        named: Mapping[bytes, bytes],
        sans: Sequence[San],
        address: str,
    ) -> Verdict:
        """Authenticate the sender of a request.

        Args:
            headers: the header pairs.
            named: the headers as a mapping.
            sans: the subject alternative names of the client certificate.
            address: the address of the client.
        """
        if self._own_headers and (verdict := self._by_own_header(headers, named)) is not None:
            return verdict
        value = named.get(AUTHORIZATION)
        if value is not None:
            if len(named) == len(headers):  # usual: no header is repeated
                caller = self._cached(_sha256(value).digest())
                if caller is not None:
                    return caller
            if value[:6].lower() == b"bearer" and value[6:7] == b" ":
                return self._by_bearer(headers, named, value[7:].strip(b" "))
        if sans and (found := self.producers.by_certificate(sans)):
            return found[0] if len(found) == 1 else _AMBIGUOUS
        if not self.is_open:
            return _NO_CREDENTIAL
        return None if self._addresses is None else self._addresses.caller(address)

    def demand_one(self, caller: EventSender) -> None:
        """Raise QuotaExceeded if the quota of the caller does not permit one more event. Called before a body
        is read.
        """
        if caller.allowance is not None:
            demand_one(caller.allowance, self._monotonic())

    def charge_one(self, caller: EventSender) -> None:
        """Charge one event for a request whose events could not be counted. The request has caused work
        anyway.
        """
        if caller.allowance is not None:
            caller.allowance.take(1, self._monotonic())

    def judge_again(self, pending: Pending) -> EventSender | HttpAnswer:
        """Authenticate the sender of a token after the request to its issuer for keys has ended."""
        verdict = self._by_token(pending.token, pending.digest, pending.since)
        assert not isinstance(verdict, Pending)  # noqa: S101 - nothing is asked
        return verdict

    def _by_own_header(
        self, headers: HeaderPairs, named: Mapping[bytes, bytes]
    ) -> EventSender | HttpAnswer | None:
        for header in self._own_headers:
            if (value := named.get(header)) is not None:
                if _is_repeated(headers, named, header):
                    return _REPEATED
                return self.producers.by_key(header, digest_of(value)) or _UNKNOWN_KEY
        return None

    def _by_bearer(
        self, headers: HeaderPairs, named: Mapping[bytes, bytes], credential: bytes
    ) -> EventSender | Pending | HttpAnswer:
        """Authenticate the sender by a bearer credential. The word Bearer may have any case."""
        if _is_repeated(headers, named, AUTHORIZATION):
            return _REPEATED
        digest = digest_of(BEARER + credential)
        return self._cached(digest) or self._by_token(credential, digest)

    def _by_token(
        self, token: bytes, digest: bytes, since: int | None = None
    ) -> EventSender | Pending | HttpAnswer:
        """Authenticate the sender by a token.

        ``since`` is None, unless the token has caused a request to its issuer for keys. It is then the number
        of requests to the issuer at the time when the token came.
        """
        if not self._issuers or token.count(b".") != 2:  # noqa: PLR2004 - of three parts
            return _UNKNOWN_KEY
        try:
            head = read_head(token)
            return self._verified(token, digest, head, since)
        except BadToken as error:
            return _unauthenticated(error.code, str(error), "invalid_token")

    def _verified(
        self, token: bytes, digest: bytes, head: Head, since: int | None
    ) -> EventSender | Pending | HttpAnswer:
        issuer = self._issuers.get(head.issuer)
        if issuer is None:
            raise BadToken("unknown-issuer", "The issuer of the token is not known here.")
        keys = issuer.keys
        key = None if keys is None else keys.named(head.key)
        if keys is None or key is None:
            questions = issuer.questions
            asking = issuer.ask() if since is None else None
            if asking is not None:
                return Pending(asking, token, digest, questions)
            return _unknown_key(issuer, since)
        issuer.refresh()
        now = self._clock.now()
        claims = key.verify(token, now)
        caller: EventSender = only_match(self.producers.by_claims(head.issuer, claims), "token")
        until = self._monotonic() + min(TOKEN_CACHE_SECONDS, ends_at(claims) - now)
        self._cache(digest, _VerifiedToken(caller, until, issuer, keys))
        return caller

    def _cached(self, digest: bytes) -> EventSender | None:
        """Return the caller of a known key or of a recently verified token, by its digest; else
        None.
        """
        caller = self._bearers.get(digest)
        if caller is not None:
            return caller
        known = self._tokens.get(digest)
        if known is None:
            return None
        caller, until, issuer, keys = known
        return caller if issuer.keys is keys and self._monotonic() < until else None

    def _cache(self, digest: bytes, verified: _VerifiedToken) -> None:
        tokens = self._tokens
        tokens.pop(digest, None)
        if len(tokens) >= MAX_CACHED_TOKENS:
            tokens.popitem(last=False)
        tokens[digest] = verified


def _unknown_key(issuer: Issuer, since: int | None) -> HttpAnswer:
    """Return 503 if the issuer has not answered a request for keys since the token came. Otherwise, raise
    BadToken.

    The issuer may have new keys. If a good token was called bad, the sender would discard its events.
    """
    if issuer.keys is None:
        return unavailable(ISSUER_UNAVAILABLE, _NO_KEYS, max(issuer.wait(), _RETRY_AFTER))
    if since is not None and issuer.has_answered(since):
        raise BadToken("unknown-signing-key", "The issuer has no such signing key.")
    return unavailable(ISSUER_UNAVAILABLE, _NEW_KEYS, issuer.wait())


def _is_repeated(headers: HeaderPairs, named: Mapping[bytes, bytes], wanted: bytes) -> bool:
    """Return True if the header occurs more than once. A proxy might then have checked another value than
    this process reads.
    """
    return len(named) != len(headers) and sum(name == wanted for name, _ in headers) > 1


def network_of(address: str) -> str:
    """Return the network of an address. For an IPv6 address it is the first 64 bits, because one sender
    usually owns all addresses of this network.
    """
    if ":" not in address or "." in address:
        return address
    return f"{int(IPv6Address(address)) >> _IPV6_HOST:x}/64"


def _unauthenticated(code: str, detail: str, error: str = "") -> HttpAnswer:
    """Return 401 with a challenge that names the required scheme (RFC 6750 3)."""
    challenge = 'Bearer realm="skybridge"' + (f', error="{error}"' if error else "")
    return problem(
        401,
        NOT_AUTHENTICATED,
        "Not authenticated",
        faults=[Fault(code, detail)],
        headers=((b"www-authenticate", challenge.encode()),),
    )


_EVERY_RIGHT = Rights("", May())
_RETRY_AFTER = 5.0  # seconds
_NO_KEYS = "The keys of the token's issuer could not be fetched yet"
_NEW_KEYS = "The token names a signing key that is not known, and its issuer cannot be asked for new keys now"
_NO_CREDENTIAL = _unauthenticated(
    "no-credential",
    "Send the key or token of a producer as Authorization: Bearer KEY, or a client certificate.",
)
_UNKNOWN_KEY = _unauthenticated(
    "unknown-credential", "The key or token is of no producer.", "invalid_token"
)
_REPEATED = _unauthenticated(
    "repeated-credential", "The credential was sent twice.", "invalid_request"
)
_AMBIGUOUS = _unauthenticated(
    "ambiguous-credential", "The client certificate matches several producers.", "invalid_token"
)
