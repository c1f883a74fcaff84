"""A certificate authority for one test, and the certificates that it issues, as PEM files."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


class Authority:
    """A certificate authority that writes its certificates and keys as PEM files into one folder.

    Keys are in PKCS 8, which Java reads too. ``ca`` is the path of the certificate that clients
    must trust.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = self._write("ca.pem", self._authority.cert_pem.bytes())

    def bundle(self, *names: str) -> str:
        """Return the path of one file that has the key and the certificate of a server with these
        host names.
        """
        issued = self._authority.issue_cert(*names)
        return self._write(f"{names[0]}.pem", _pkcs8(issued) + _chain(issued))

    def server(self, *names: str) -> tuple[str, str]:
        """Return the paths of a certificate and of its key for a server with these host names, in
        two files.
        """
        issued = self._authority.issue_cert(*names)
        certificate = self._write(f"{names[0]}.crt", _chain(issued))
        return certificate, self._write(f"{names[0]}.key", _pkcs8(issued))

    def client(self, name: str) -> tuple[str, str]:
        """Return the paths of a certificate and of its key for a client with this common name."""
        issued = self._authority.issue_cert(f"{name}@example.com", common_name=name)
        certificate = self._write(f"{name}.crt", _chain(issued))
        return certificate, self._write(f"{name}.key", _pkcs8(issued))

    def _write(self, name: str, content: bytes) -> str:
        path = self._folder / name
        path.write_bytes(content)
        return str(path)


def _chain(issued: trustme.LeafCert) -> bytes:
    return b"".join(blob.bytes() for blob in issued.cert_chain_pems)


def _pkcs8(issued: trustme.LeafCert) -> bytes:
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
