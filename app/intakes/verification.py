"""Verify that the sender of a request has the secret of the intake.

Every comparison takes constant time, and every signature is compared with every key, even after a
match. ``scheme.verifier(secrets, max_age)`` returns a function that verifies one request. That
function returns what a signature with a time covers, or raises ``VerificationFailed``. No message
repeats a secret or a signature.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.delivery.signing import ID, SIGNATURE, signed_before
from app.delivery.signing import TIMESTAMP as SENT_AT
from app.delivery.verifying import (
    MALFORMED,
    MISSING,
    MOST_SIGNATURES,
    NO_MATCH,
    WRONG,
    VerificationFailed,
    timely,
    verify,
)
from app.errors import Fault, SenderError, SetupError
from app.intakes.arrival import IntakeRequest
from app.model.intake import BODY, TIMESTAMP, Encoding
from app.model.signing_key import read_key
from app.problems import ProblemCode


class SignedContent(NamedTuple):
    """The content that a signature with a time covers. The digest does not depend on the key that
    signed.

    Attributes:
        digest: digest of the signed bytes, including the time.
        at: the signed time, in seconds since the epoch.
    """

    digest: bytes
    at: int


Verifier = Callable[[IntakeRequest, float], SignedContent | None]
"""A function that verifies a request at a wall clock time. It returns what is signed, or None if no
time is signed. It raises VerificationFailed.
"""

_PARTS = re.compile(f"({re.escape(TIMESTAMP)}|{re.escape(BODY)})")
_LENGTHS: Mapping[Encoding, int] = {"hex": 64, "base64": 44}  # characters of 32 bytes
_MISSING_KEY: ProblemCode = "missing-credential"
_WRONG_KEY: ProblemCode = "wrong-credential"


class Unverified(SenderError):
    """The error for a request whose sender has not proved that it has the secret: 401.

    ``code`` is the reason. ``challenge`` is the value for ``WWW-Authenticate``.
    """

    def __init__(self, refused: VerificationFailed, scheme: Scheme) -> None:
        fault = Fault(refused.code, f"{refused}.", f"header {scheme.header}")
        super().__init__("Not verified", status=401, code=refused.code, faults=[fault])
        about = "" if scheme.kind == "Basic" else f', header="{scheme.header}"'
        self.challenge = f'{scheme.kind} realm="skybridge"{about}'


class Hmac(msgspec.Struct, frozen=True, kw_only=True):
    """The scheme in which a header holds HMAC-SHA256 signatures, separated by commas. A signature
    covers the body, or ``signed`` if the time in header ``timestamp`` is signed, too."""

    header: str
    prefix: str = ""
    encoding: Encoding = "hex"
    timestamp: str | None = None
    signed: str = f"{TIMESTAMP}.{BODY}"

    kind = "Signature"
    signs = True

    @property
    def timed(self) -> bool:
        return self.timestamp is not None

    def verifier(self, secrets: Sequence[str], max_age: float) -> Verifier:
        keys, name, parts = _keys(secrets), self.timestamp, _PARTS.split(self.signed)

        def verify(arrival: IntakeRequest, now: float) -> SignedContent | None:
            given = self._given(arrival)
            if name is None:
                _compare(given, _expected(keys, arrival.body, self.encoding))
                return None
            at = timely(name, one_header(arrival, name, MISSING, MALFORMED), now, max_age)
            content = _joined(parts, at, arrival.body)
            _compare(given, _expected(keys, content, self.encoding))
            return SignedContent(_digest(content), int(at))

        return verify

    def _given(self, arrival: IntakeRequest) -> list[bytes]:
        entries = [each.strip() for each in b",".join(_values(arrival, self.header)).split(b",")]
        prefix = self.prefix.encode()
        given = [each[len(prefix) :] for each in entries if each.startswith(prefix)]
        return _well_formed(given, self.encoding, self.header)


class StripeSignature(msgspec.Struct, frozen=True):
    """The scheme of Stripe's signature header, ``t=TIME,v1=HEX``. It has several ``v1`` while a
    secret is replaced.
    """

    header: str = "stripe-signature"

    kind = "Signature"
    timed = signs = True

    def verifier(self, secrets: Sequence[str], max_age: float) -> Verifier:
        keys = _keys(secrets)

        def verify(arrival: IntakeRequest, now: float) -> SignedContent:
            entries = b",".join(_values(arrival, self.header)).split(b",")
            pairs = [each.strip().partition(b"=") for each in entries]
            times = {value.decode() for name, _, value in pairs if name == b"t" and value.isdigit()}
            given = [value for name, _, value in pairs if name == b"v1"]
            if len(times) != 1:
                raise VerificationFailed(MALFORMED, f"header {self.header} needs exactly one t")
            at = timely(f"t of header {self.header}", times.pop(), now, max_age)
            content = b"%b.%b" % (at.encode(), arrival.body)
            _compare(_well_formed(given, "hex", self.header), _expected(keys, content, "hex"))
            return SignedContent(_digest(content), int(at))

        return verify


class StandardWebhooks(msgspec.Struct, frozen=True):
    """The scheme of Standard Webhooks 1.0, with signatures v1 and v1a."""

    kind = "Signature"
    header = SIGNATURE
    timed = signs = True

    def verifier(self, secrets: Sequence[str], max_age: float) -> Verifier:
        """Return the verifier for these secrets. Raise SetupError for a secret that is no key."""
        try:
            keys = [read_key(text) for text in secrets]
        except ValueError as error:
            cure = "copy the secret of the sender, whsec_..."
            raise SetupError(str(error), setting="secret", cure=cure) from None

        def check(arrival: IntakeRequest, now: float) -> SignedContent:
            headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in arrival.headers]
            verdict = verify(headers, arrival.body, keys, now, max_age)
            if not verdict.valid:
                raise VerificationFailed(verdict.code or WRONG, verdict.why)
            identity, at = [
                one_header(arrival, name, MISSING, MALFORMED).strip() for name in (ID, SENT_AT)
            ]
            return SignedContent(_digest(signed_before(identity, at) + arrival.body), int(at))

        return check


class HeaderKey(msgspec.Struct, frozen=True):
    """The scheme in which ``header`` holds ``prefix`` and the secret itself."""

    header: str
    prefix: str = ""

    kind = "ApiKey"
    timed = signs = False

    def verifier(self, secrets: Sequence[str], max_age: float) -> Verifier:  # noqa: ARG002 - no time
        digests = [_digest((self.prefix + secret).encode()) for secret in secrets]

        def verify(arrival: IntakeRequest, _now: float) -> None:
            text = one_header(arrival, self.header, _MISSING_KEY, _WRONG_KEY)
            _compare_key(text.encode("latin-1"), digests, f"header {self.header}")

        return verify


class BasicLogin(msgspec.Struct, frozen=True):
    """The scheme of a user name and a password in Basic authentication (RFC 7617), encoded in
    UTF-8.
    """

    username: str

    kind = "Basic"
    header = "authorization"
    timed = signs = False

    def verifier(self, secrets: Sequence[str], max_age: float) -> Verifier:  # noqa: ARG002 - no time
        logins = [f"{self.username}:{secret}".encode() for secret in secrets]
        digests = [_digest(base64.b64encode(each)) for each in logins]

        def verify(arrival: IntakeRequest, _now: float) -> None:
            text = one_header(arrival, self.header, _MISSING_KEY, _WRONG_KEY)
            kind, _, login = text.partition(" ")
            given = login.strip().encode("latin-1") if kind.lower() == "basic" else b""
            _compare_key(given, digests, f"header {self.header}")

        return verify


class NoVerification(msgspec.Struct, frozen=True):
    """The scheme that accepts every request."""

    kind = header = ""
    timed = signs = False

    def verifier(self, secrets: Sequence[str], max_age: float) -> Verifier:  # noqa: ARG002 - none
        return lambda _arrival, _now: None


Scheme = Hmac | StripeSignature | StandardWebhooks | HeaderKey | BasicLogin | NoVerification
"""A way to verify requests.

``timed`` is True if a time is signed, so that old requests can be rejected. ``signs`` is True if
the body is signed, so that only an owner of the secret can have made it. ``header`` is the header
with the proof.
"""


def one_header(
    arrival: IntakeRequest, name: str, missing: ProblemCode, malformed: ProblemCode
) -> str:
    """Return the value of the only header field of that name.

    Raise VerificationFailed with the code ``missing`` if there is none, and ``malformed`` if there
    are several.
    """
    values = arrival.values(name)
    if not values:
        raise VerificationFailed(missing, f"header {name} is missing")
    if len(values) > 1:
        raise VerificationFailed(malformed, f"header {name} is repeated")
    return values[0].decode("latin-1")


def _values(arrival: IntakeRequest, name: str) -> list[bytes]:
    """Return all values of a signature header. Raise VerificationFailed if there is none."""
    values = arrival.values(name)
    if not values:
        raise VerificationFailed(MISSING, f"header {name} is missing")
    return values


def _keys(secrets: Iterable[str]) -> list[bytes]:
    return [secret.encode() for secret in secrets]


def _joined(parts: Sequence[str], at: str, body: bytes) -> bytes:
    known = {TIMESTAMP: at.encode(), BODY: body}
    return b"".join([known[part] if part in known else part.encode() for part in parts])


def _well_formed(given: Sequence[bytes], encoding: Encoding, header: str) -> list[bytes]:
    """Return the values that have the length of a signature, with hexadecimal digits in lower case.
    Other values are skipped."""
    if not given:
        raise VerificationFailed(
            MALFORMED, f"header {header} holds no signature of the expected form"
        )
    formed = [each for each in given if len(each) == _LENGTHS[encoding]]
    if len(formed) > MOST_SIGNATURES:
        raise VerificationFailed(
            MALFORMED, f"header {header} holds more than {MOST_SIGNATURES} signatures"
        )
    return [each.lower() for each in formed] if encoding == "hex" else formed


def _expected(keys: Sequence[bytes], content: bytes, encoding: Encoding) -> list[bytes]:
    macs = [hmac.digest(key, content, "sha256") for key in keys]
    if encoding == "hex":
        return [mac.hex().encode() for mac in macs]
    return [base64.b64encode(mac) for mac in macs]


def _compare(given: Sequence[bytes], expected: Sequence[bytes]) -> None:
    if not _matches(given, expected):
        raise VerificationFailed(WRONG, NO_MATCH)


def _compare_key(given: bytes, digests: Sequence[bytes], where: str) -> None:
    if not _matches([_digest(given)], digests):
        raise VerificationFailed(_WRONG_KEY, f"{where} holds another key")


def _matches(given: Sequence[bytes], expected: Sequence[bytes]) -> int:
    return sum([hmac.compare_digest(one, other) for one in given for other in expected])


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
