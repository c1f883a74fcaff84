"""Copies of PEM files that were tried, for libraries that read files themselves.

Pulsar's client, libpq and requests read certificate and key at each connection. From the operator's files they
would take halves of two pairs, or ask the terminal for the pass phrase of a key that was encrypted meanwhile.
A copy is in memory where the system can do that, so that no key is written to a disk.
"""

from __future__ import annotations

import ssl

from msgspec.structs import replace

from app.tls.faults import Pems
from app.tls.regular import copy_of


class Copies:
    """``pems`` names copies of the files of ``original``, which lasts as long as this object. Raises OSError for files
    that OpenSSL refuses."""

    def __init__(self, original: Pems) -> None:
        copies = {
            part: copy_of(path)
            for part in ("cert", "key", "ca")
            if (path := getattr(original, part)) is not None
        }
        self._copies = tuple(copies.values())
        self.pems = replace(original, **{part: each.path for part, each in copies.items()})
        self.pems.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
