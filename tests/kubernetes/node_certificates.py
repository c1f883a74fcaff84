"""Make the certificates and keys of a cluster: one authority, and a certificate for each user."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


class Authority:
    """The certificate authority of a cluster. ``folder`` has its files.

    Files: ``ca.crt``, ``NAME.crt`` and ``NAME.key`` for each certificate, ``accounts.key`` and
    ``accounts.pub`` for the tokens of service accounts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(str(folder / "ca.crt"))
        self._make_account_key()

    def issue(self, name: str, user: str, group: str = "", addresses: tuple[str, ...] = ()) -> None:
        """Write the certificate ``name`` for a user, and for addresses where it serves."""
        issued = self._authority.issue_cert(
            *(addresses or (f"{name}.example",)),
            common_name=user,
            organization_name=group or None,
        )
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
        (self.folder / f"{name}.crt").write_bytes(chain)
        issued.private_key_pem.write_to_path(str(self.folder / f"{name}.key"))

    def path(self, file: str) -> str:
        return str(self.folder / file)

    def _make_account_key(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self.folder / "accounts.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        (self.folder / "accounts.pub").write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
