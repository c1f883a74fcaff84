"""Copies of valid PEM files, for libraries that read files themselves.

Pulsar's client, libpq and requests read certificate and key at each connection. From the operator's
files they could read a certificate and a key that do not match during a replacement. They could
also ask for a pass phrase at the terminal. A copy is in memory if the system supports that, so that
no key is written to a disk.
"""

from __future__ import annotations

import ssl

from msgspec.structs import replace

from app.tls.faults import Pems
from app.tls.regular import copy_of


class Copies:
    """Copies of PEM files, whose paths are in ``pems``. The copies exist as long as this object."""

    def __init__(self, original: Pems) -> None:
        """Copy the files. Raise OSError if OpenSSL refuses them."""
        copies = {
            part: copy_of(path)
            for part in ("cert", "key", "ca")
            if (path := getattr(original, part)) is not None
        }
        self._copies = tuple(copies.values())
        self.pems = replace(original, **{part: each.path for part, each in copies.items()})
        self.pems.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
