"""Pairs of certificate and key that tests renew, mix, encrypt and cut, and a server that requires
client certificates."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization


class CertificatePair:
    """A certificate and its key in two files of one folder.

    ``renew`` replaces both files; ``write_cert`` and ``write_key`` replace one of them.
    """

    def __init__(self, folder: Path, authority: trustme.CA, name: str) -> None:
        self.cert, self.key = folder / f"{name}.crt", folder / f"{name}.key"
        self._authority, self._name = authority, name
        self.renew()

    def issue(self, **validity: Any) -> trustme.LeafCert:
        return self._authority.issue_cert(f"{self._name}.example", **validity)

    def renew(self, **validity: Any) -> str:
        """Replace both files, and return the serial number of the certificate as ``getpeercert``
        writes it."""
        issued = self.issue(**validity)
        self.write_key(issued)
        return self.write_cert(issued)

    def write_cert(self, issued: trustme.LeafCert) -> str:
        replace(self.cert, b"".join(each.bytes() for each in issued.cert_chain_pems))
        return serial_of(issued)

    def write_key(self, issued: trustme.LeafCert) -> None:
        replace(self.key, issued.private_key_pem.bytes())

    def encrypt_key(self, *, pkcs8: bool = True) -> None:
        """Encrypt the key in place, as PKCS 8 or in the older form with headers (RFC 1421)."""
        form = (
            serialization.PrivateFormat.PKCS8
            if pkcs8
            else serialization.PrivateFormat.TraditionalOpenSSL
        )
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        encryption = serialization.BestAvailableEncryption(b"secret")
        replace(self.key, key.private_bytes(serialization.Encoding.PEM, form, encryption))


def serial_of(issued: trustme.LeafCert) -> str:
    number = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes()).serial_number
    text = f"{number:X}"
    return text if len(text) % 2 == 0 else f"0{text}"


def replace(path: Path, content: bytes) -> None:
    """Replace a file by renaming a new one, as cert-manager does, so that inode, time and size
    change."""
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(path)


class ClientCertificates:
    """A record of the connections and requests that ``client_certificate_server`` accepted.

    Attributes:
        port: The port of the server.
        serials: The serial number of the client certificate of each connection.
        requests: The serial number of the client certificate of each request.
    """

    def __init__(self) -> None:
        self.port = 0
        self.serials: list[str] = []
        self.requests: list[str] = []


@asynccontextmanager
async def client_certificate_server(
    authority: trustme.CA, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> AsyncIterator[ClientCertificates]:
    """Run an HTTP server that accepts only clients of ``authority`` and answers each request 204."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("hook.example", "localhost", "127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = version
    seen = ClientCertificates()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shown = str(writer.get_extra_info("peercert")["serialNumber"])
        seen.serials.append(shown)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                seen.requests.append(shown)
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError, ValueError):
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
