"""Faults of PEM files, in words for an operator.

OpenSSL decides whether files can be used: ``load`` raises if it refuses them. Only then, and for
``check``, ``faults_of`` reads the files with ``cryptography``, which can name the cause.
"""

from __future__ import annotations

import datetime as dt
import itertools
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from app.errors import SetupError
from app.tls.regular import NotRegular, copy_of, read_regular

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_BEGIN = b"-----BEGIN "
_CERTIFICATES = (b"CERTIFICATE-----",)
_KEYS = (b"PRIVATE KEY-----",)
_NO_AUTHORITY = "holds no certificate of an authority"
_READABLE = "let the user of Skybridge read it"


class Pems(msgspec.Struct, frozen=True, kw_only=True):
    """The PEM files that one setting names.

    Attributes:
        setting: The name of the setting in messages, such as ``brokers.main.security.tls``.
        cert: The chain of the own certificate, leaf first.
        key: The private key; None if it is in the file ``cert``.
        ca: The authorities to trust.
        cert_part: The names of ``cert``, ``key`` and ``ca`` in the setting are ``cert_part``,
            ``key_part`` and ``ca_part``.
        signs: True if ``ca`` is used to check the certificates of peers. A file without an
            authority is then refused.
        password: The pass phrase of the key. If it is empty, an encrypted key is refused.
    """

    setting: str
    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    cert_part: str = "cert"
    key_part: str = "key"
    ca_part: str = "ca"
    signs: bool = False
    password: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.cert, self.key, self.ca) if path is not None)

    def load(self, context: ssl.SSLContext) -> None:
        """Load the files into a new context. OpenSSL never asks for a pass phrase at a terminal,
        because it gets a callback.

        Raises:
            OSError: The files cannot be read or are refused (ssl.SSLError).
        """
        self.load_pair(context)
        if self.ca is not None:
            authorities = copy_of(self.ca)
            context.load_verify_locations(authorities.path)
            if self.signs and not context.get_ca_certs() and _lacks_authority(self.ca):
                raise OSError(_NO_AUTHORITY)

    def load_pair(self, context: ssl.SSLContext) -> None:
        """Load certificate and key into a context, as ``load`` does, without the authorities."""
        if self.cert is not None:
            cert = copy_of(self.cert)
            key = cert if self.key is None else copy_of(self.key)
            context.load_cert_chain(cert.path, key.path, password=self._pass_phrase)

    def refusal(self, error: OSError) -> SetupError:
        """Return ``error`` in words for an operator: setting, file, fault, cure."""
        for fault in faults_of(self):
            if fault.fatal:
                return SetupError(
                    f"{fault.part} {fault.message}", setting=self.setting, cure=fault.cure
                )
        return SetupError(
            f"{' and '.join(map(str, self.files))} cannot be loaded: {error}",
            setting=self.setting,
            cure="name readable PEM files; the key must belong to the certificate and have no pass phrase",
        )

    def _pass_phrase(self) -> str:
        """Return the pass phrase. OpenSSL calls this only for an encrypted key."""
        if not self.password:
            raise OSError("the key is encrypted")
        return self.password


class PemFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of one PEM file. A fatal fault prevents TLS. With any other fault, a peer may refuse
    the certificate."""

    part: str
    message: str
    cure: str
    fatal: bool = True


def faults_of(pems: Pems, now: dt.datetime | None = None) -> list[PemFault]:
    """Return the faults of the files. A fault is fatal only if OpenSSL refuses the files."""
    unreadable = list(_unreadable(pems))
    if unreadable:
        return unreadable
    try:
        pems.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    except OSError as error:
        return _refused(pems, error)
    return list(_warnings(pems, now or dt.datetime.now(dt.UTC)))


def _parts(pems: Pems) -> Iterator[tuple[str, Path]]:
    for part, path in (
        (pems.cert_part, pems.cert),
        (pems.key_part, pems.key),
        (pems.ca_part, pems.ca),
    ):
        if path is not None:
            yield part, path


def _unreadable(pems: Pems) -> Iterator[PemFault]:
    for part, path in _parts(pems):
        try:
            read_regular(path)
        except FileNotFoundError:
            cure = "name a readable PEM file"
            yield PemFault(part=part, message=f"{path} does not exist", cure=cure)
        except NotRegular:
            message = f"{path} is not a regular file"
            cure = "name a file: a pipe or a device cannot be read again"
            yield PemFault(part=part, message=message, cure=cure)
        except OSError as error:
            words = error.strerror or type(error).__name__
            yield PemFault(part=part, message=f"{path} cannot be read: {words}", cure=_READABLE)


def _refused(pems: Pems, error: OSError) -> list[PemFault]:
    """Return why OpenSSL refused readable files: at least one fault."""
    found: list[PemFault] = []
    chain: list[Certificate] = []
    if pems.cert is not None and not _has(pems.cert, _CERTIFICATES):
        found.append(_no_pem(pems.cert_part, pems.cert, "certificate", "openssl x509 -inform DER"))
    elif pems.cert is not None:
        chain = _certificates(pems.cert)
        if not chain:
            found.append(_damaged(pems.cert_part, pems.cert, "certificate"))
    found += _key_faults(pems, chain)
    if pems.ca is not None and not _has(pems.ca, _CERTIFICATES):
        found.append(_no_pem(pems.ca_part, pems.ca, "certificate", "openssl x509 -inform DER"))
    elif pems.ca is not None and not _certificates(pems.ca):
        found.append(_damaged(pems.ca_part, pems.ca, "certificate"))
    elif pems.ca is not None and pems.signs and _lacks_authority(pems.ca):
        found.append(
            PemFault(
                part=pems.ca_part,
                message=f"{pems.ca} {_NO_AUTHORITY}: no certificate of a client can be verified",
                cure="name the certificate of the authority that signs the certificates of the clients",
            )
        )
    if not found:
        part, path = next(_parts(pems))
        found.append(
            PemFault(
                part=part,
                message=f"{path} is refused by OpenSSL: {error}",
                cure="name PEM files that OpenSSL accepts",
            )
        )
    return found


def _key_faults(pems: Pems, chain: Sequence[Certificate]) -> Iterator[PemFault]:
    path, part = pems.key or pems.cert, pems.key_part if pems.key else pems.cert_part
    if path is None:
        return
    if not _has(path, _KEYS):
        yield _no_pem(part, path, "private key", "openssl pkey -inform DER")
        return
    if not pems.password and b"ENCRYPTED" in read_regular(path):
        yield PemFault(
            part=part,
            message=f"{path} is encrypted, and Skybridge has no pass phrase for it",
            cure="write the key without a pass phrase: openssl pkey -in KEY -out NEW, NEW readable by Skybridge alone",
        )
        return
    key = _public_of(path, pems.password)
    if key is None:
        words = "; its pass phrase is wrong, or the key is damaged" if pems.password else ""
        yield _damaged(part, path, "private key", words)
    elif chain and key != _public_in(chain[0]):
        yield _key_mismatch(pems, part, path, key, chain)


def _key_mismatch(
    pems: Pems, part: str, path: Path, key: bytes, chain: Sequence[Certificate]
) -> PemFault:
    """Return the fault of a key that does not belong to the first certificate."""
    if any(key == _public_in(each) for each in chain[1:]):
        return PemFault(
            part=pems.cert_part,
            message=f"{pems.cert} is in the wrong order: its first certificate is not the one of the key",
            cure="put the certificate of the key first, then the authority that signed it, and so on",
        )
    return PemFault(
        part=part,
        message=f"{path} does not belong to the certificate in {pems.cert}: they do not match",
        cure="replace certificate and key together, with the two halves of one pair",
    )


def _warnings(pems: Pems, now: dt.datetime) -> Iterator[PemFault]:
    """Yield faults that OpenSSL accepts and peers may refuse."""
    for path, part, kind in ((pems.cert, pems.cert_part, ""), (pems.ca, pems.ca_part, "ca")):
        if path is None:
            continue
        chain = _certificates(path)
        if kind == "ca":  # an expired authority does no harm if another is valid
            chain = [] if any(_is_valid(each, now) for each in chain) else chain[:1]
        for number, each in enumerate(chain, start=1):
            yield from _validity_faults(part, path, number, each, now)
        if kind != "ca" and (number := _broken_link(chain)):
            yield PemFault(
                part=part,
                message=f"{path} is in the wrong order: certificate {number} did not sign the one before it",
                cure="put the certificate of the key first, then the authority that signed it, and so on",
                fatal=False,
            )


def _validity_faults(
    part: str, path: Path, number: int, found: Certificate, now: dt.datetime
) -> Iterator[PemFault]:
    which = f"certificate {number} of {path}" if number > 1 else str(path)
    if found.not_valid_after_utc < now:
        words = f"{which} has expired on {found.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
        yield PemFault(part=part, message=words, cure="renew it", fatal=False)
    elif found.not_valid_before_utc > now:
        words = f"{which} is not yet valid: it begins on {found.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC"
        cure = "wait until then, or set the clock of this machine"
        yield PemFault(part=part, message=words, cure=cure, fatal=False)


def _is_valid(found: Certificate, now: dt.datetime) -> bool:
    return found.not_valid_before_utc <= now <= found.not_valid_after_utc


def _broken_link(chain: Sequence[Certificate]) -> int:
    """Return the number of the first certificate that did not sign the one before it; 0
    for none.
    """
    for number, (one, other) in enumerate(itertools.pairwise(chain), start=2):
        if one.issuer != other.subject:
            return number
    return 0


def _has(path: Path, endings: Sequence[bytes]) -> bool:
    content = read_regular(path)
    return _BEGIN in content and any(each in content for each in endings)


def _no_pem(part: str, path: Path, kind: str, convert: str) -> PemFault:
    if not path.stat().st_size:
        return PemFault(
            part=part, message=f"{path} is empty", cure=f"name a PEM file with a {kind}"
        )
    return PemFault(
        part=part,
        message=f"{path} holds no PEM {kind}",
        cure=f"name a PEM file; one in DER is converted by: {convert} -in FILE -out NEW",
    )


def _damaged(part: str, path: Path, kind: str, words: str = "") -> PemFault:
    return PemFault(
        part=part,
        message=f"{path} holds a {kind} that cannot be read{words or '; it is damaged or half written'}",
        cure="write the file again, whole",
    )


def _certificates(path: Path) -> list[Certificate]:
    """Return the certificates of a file; an empty list if one of them cannot be read."""
    return certificates_in(read_regular(path))


def certificates_in(content: bytes) -> list[Certificate]:
    """Return the certificates in PEM content; an empty list if one of them cannot be read."""
    from cryptography import x509  # noqa: PLC0415 - heavy: only for errors, ``check`` and metrics

    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        return []


def _lacks_authority(path: Path) -> bool:
    """Return True if no certificate in the file is an authority or self-signed."""
    from cryptography.x509 import BasicConstraints, ExtensionNotFound  # noqa: PLC0415 - as above

    def signs(found: Certificate) -> bool:
        try:
            return found.extensions.get_extension_for_class(BasicConstraints).value.ca
        except (ExtensionNotFound, ValueError):
            return False

    return not any(each.issuer == each.subject or signs(each) for each in _certificates(path))


def _public_of(path: Path, password: str) -> bytes | None:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        load_pem_private_key,
    )

    try:
        key = load_pem_private_key(read_regular(path), password.encode() or None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return _der(key.public_key())


def _public_in(certificate: Certificate) -> bytes:
    return _der(certificate.public_key())


def _der(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - as above
        Encoding,
        PublicFormat,
    )

    return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
