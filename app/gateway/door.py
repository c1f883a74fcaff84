"""The door of the events listener: from the head of a request to its caller, or to a refusal.

Credentials are looked for in this order, and the first that is there decides: a producer's own header,
``Authorization: Bearer``, the client certificate. Nothing of a credential is logged or repeated.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, NamedTuple

from app.access.caller import EventSender, demand_one, quota_of
from app.access.rights import Rights
from app.access.tokens import BadToken, Head, ends_at, one_of, read_head
from app.access.who import AUTHORIZATION, BEARER, ProducerDirectory, San, digest_of
from app.errors import Fault
from app.gateway.answers import Answer, problem, unavailable
from app.gateway.issuers import Issuer
from app.gateway.request import HeaderPairs, Pending
from app.interfaces import Clock
from app.model.producer import JwtRule, May
from app.model.quota import EventQuota

if TYPE_CHECKING:
    from app.access.signatures import Keys

_sha256 = hashlib.sha256  # of every request
REMEMBERED = 10_000  # verified tokens
REMEMBERED_FOR = 300.0  # seconds, or until the token expires
ADDRESSES = 10_000  # whose quotas are counted
NOT_AUTHENTICATED = "not-authenticated"
ISSUER_UNAVAILABLE = "issuer-unavailable"
_IPV6_HOST = 64  # bits of an address that its network gives out


Verdict = EventSender | Pending | Answer | None
"""The caller; a question to wait for; a refusal; or, where access is open, nobody in particular."""
IssuerOf = Callable[[JwtRule], Issuer]


class _Remembered(NamedTuple):
    """``until``: of the monotonic clock. It holds as long as the issuer has the same ``keys``."""

    caller: EventSender
    until: float
    issuer: Issuer
    keys: Keys


class Addresses:
    """The quotas of addresses without a credential. It outlives the doors of a service, so that a reload gives no
    address its burst again."""

    def __init__(self, quota: EventQuota) -> None:
        self._quota = quota_of(quota)
        self._callers: OrderedDict[str, EventSender] = OrderedDict()

    def apply(self, quota: EventQuota, now: float) -> None:
        """Apply another quota from now on, also to addresses that are counted already."""
        self._quota = quota_of(quota)
        for caller in self._callers.values():
            if caller.allowance is not None:
                caller.allowance.apply(self._quota, now)

    def caller(self, address: str) -> EventSender:
        """Return the caller that stands for the network of an address."""
        network = network_of(address)
        caller = self._callers.get(network)
        if caller is not None:
            self._callers.move_to_end(network)  # the address that is silent for longest comes first
            return caller
        if len(self._callers) >= ADDRESSES:
            self._callers.popitem(last=False)
        caller = self._callers[network] = EventSender("", _EVERY_RIGHT, self._quota)
        return caller

    def __len__(self) -> int:
        return len(self._callers)


class Door:
    """One configuration's judgement of senders. It is immutable but for the tokens that it remembers as verified."""

    def __init__(
        self,
        producers: ProducerDirectory,
        issuer_of: IssuerOf,
        clock: Clock,
        *,
        is_open: bool,
        addresses: Addresses | None = None,
    ) -> None:
        """``is_open``: a sender without a credential may send too, within the quota of its address, if ``addresses``
        are counted."""
        self.producers = producers
        self._own_headers = producers.headers
        self._bearers = producers.bearers
        self._issuers = {each.rule.issuer: issuer_of(each.rule) for each in producers.rules}
        self._clock = clock
        self._monotonic = clock.monotonic
        self.is_open = is_open
        self._tokens: OrderedDict[bytes, _Remembered] = OrderedDict()
        self._addresses = addresses

    def judge(
        self,
        headers: HeaderPairs,
        named: Mapping[bytes, bytes],
        sans: Sequence[San],
        address: str,
    ) -> Verdict:
        """``sans``: of the client certificate. ``address``: of the client."""
        if self._own_headers and (verdict := self._by_own_header(headers, named)) is not None:
            return verdict
        value = named.get(AUTHORIZATION)
        if value is not None:
            if len(named) == len(headers):  # the usual way: nothing is repeated
                caller = self._known(_sha256(value).digest())
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
        """Before anything of a body is read. Raises QuotaExceeded where not even one event could be taken."""
        if caller.allowance is not None:
            demand_one(caller.allowance, self._monotonic())

    def charge_one(self, caller: EventSender) -> None:
        """For a request whose events nobody could count: looking at it was work all the same."""
        if caller.allowance is not None:
            caller.allowance.take(1, self._monotonic())

    def judge_again(self, pending: Pending) -> EventSender | Answer:
        """Once the question has an end."""
        verdict = self._by_token(pending.token, pending.digest, pending.since)
        assert not isinstance(verdict, Pending)  # noqa: S101 - nothing is asked
        return verdict

    def _by_own_header(
        self, headers: HeaderPairs, named: Mapping[bytes, bytes]
    ) -> EventSender | Answer | None:
        for header in self._own_headers:
            if (value := named.get(header)) is not None:
                if _repeats(headers, named, header):
                    return _REPEATED
                return self.producers.by_key(header, digest_of(value)) or _UNKNOWN_KEY
        return None

    def _by_bearer(
        self, headers: HeaderPairs, named: Mapping[bytes, bytes], credential: bytes
    ) -> EventSender | Pending | Answer:
        """However the word before it is written."""
        if _repeats(headers, named, AUTHORIZATION):
            return _REPEATED
        digest = digest_of(BEARER + credential)
        return self._known(digest) or self._by_token(credential, digest)

    def _by_token(
        self, token: bytes, digest: bytes, since: int | None = None
    ) -> EventSender | Pending | Answer:
        """``since``: how often the issuer had been asked when the token came, if it was asked because of the token."""
        if not self._issuers or token.count(b".") != 2:  # noqa: PLR2004 - of three parts
            return _UNKNOWN_KEY
        try:
            head = read_head(token)
            return self._verified(token, digest, head, since)
        except BadToken as error:
            return _refused(error.code, str(error), "invalid_token")

    def _verified(
        self, token: bytes, digest: bytes, head: Head, since: int | None
    ) -> EventSender | Pending | Answer:
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
        caller: EventSender = one_of(self.producers.by_claims(head.issuer, claims), "token")
        until = self._monotonic() + min(REMEMBERED_FOR, ends_at(claims) - now)
        self._remember(digest, _Remembered(caller, until, issuer, keys))
        return caller

    def _known(self, digest: bytes) -> EventSender | None:
        """Of a key, or of a token that was verified not long ago."""
        caller = self._bearers.get(digest)
        if caller is not None:
            return caller
        known = self._tokens.get(digest)
        if known is None:
            return None
        caller, until, issuer, keys = known
        return caller if issuer.keys is keys and self._monotonic() < until else None

    def _remember(self, digest: bytes, verified: _Remembered) -> None:
        tokens = self._tokens
        tokens.pop(digest, None)
        if len(tokens) >= REMEMBERED:
            tokens.popitem(last=False)
        tokens[digest] = verified


def _unknown_key(issuer: Issuer, since: int | None) -> Answer:
    """Return 503 unless the issuer has answered after the token came. Its keys may be new: a sender would throw away
    the events of a good token that is called bad. Raises BadToken."""
    if issuer.keys is None:
        return unavailable(ISSUER_UNAVAILABLE, _NO_KEYS, max(issuer.wait(), _RETRY_AFTER))
    if since is not None and issuer.has_answered(since):
        raise BadToken("unknown-signing-key", "The issuer has no such signing key.")
    return unavailable(ISSUER_UNAVAILABLE, _NEW_KEYS, issuer.wait())


def _repeats(headers: HeaderPairs, named: Mapping[bytes, bytes], wanted: bytes) -> bool:
    """Two of a kind: what a proxy checked might not be what is read here."""
    return len(named) != len(headers) and sum(name == wanted for name, _ in headers) > 1


def network_of(address: str) -> str:
    """Return the sender of an address: of an IPv6 address its first 64 bits, because one sender has all of them."""
    if ":" not in address or "." in address:
        return address
    return f"{int(IPv6Address(address)) >> _IPV6_HOST:x}/64"


def _refused(code: str, detail: str, error: str = "") -> Answer:
    """401 with a challenge (RFC 6750 3)."""
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
_NO_KEYS = "The keys of the token's issuer could not be got yet"
_NEW_KEYS = "The token names a signing key that is not known, and its issuer cannot be asked for new keys now"
_NO_CREDENTIAL = _refused(
    "no-credential",
    "Send the key or token of a producer as Authorization: Bearer KEY, or a client certificate.",
)
_UNKNOWN_KEY = _refused(
    "unknown-credential", "The key or token is of no producer.", "invalid_token"
)
_REPEATED = _refused("repeated-credential", "The credential was sent twice.", "invalid_request")
_AMBIGUOUS = _refused(
    "ambiguous-credential", "The client certificate matches several producers.", "invalid_token"
)
