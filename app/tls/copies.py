"""Copies of PEM files that were tried, for libraries that read files themselves.

Pulsar's client, libpq and requests read certificate and key at each connection. From the operator's files they
would take halves of two pairs, or ask the terminal for the pass phrase of a key that was encrypted meanwhile.
A copy is in memory where the system can do that, so that no key is written to a disk.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path
from weakref import finalize

from msgspec.structs import replace

from app.tls.faults import Pems


class Copies:
    """``pems`` names copies of the files of ``original``, which lasts as long as this object. Raises OSError for files
    that OpenSSL refuses."""

    def __init__(self, original: Pems) -> None:
        copies = {
            part: _copy(path)
            for part in ("cert", "key", "ca")
            if (path := getattr(original, part)) is not None
        }
        self._copies = tuple(copies.values())
        self.pems = replace(original, **{part: each.path for part, each in copies.items()})
        self.pems.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


class _Memory:
    """A file of this process alone, without a place in any folder."""

    def __init__(self, content: bytes) -> None:
        descriptor = os.memfd_create("skybridge-pem", os.MFD_CLOEXEC)
        finalize(self, os.close, descriptor)
        os.fchmod(descriptor, 0o600)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        self.path = Path(f"/proc/self/fd/{descriptor}")


class _Temporary:
    """The same as a temporary file, which its owner alone may read."""

    def __init__(self, content: bytes) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="skybridge-")  # noqa: SIM115 - it lasts as long as this
        self._file.write(content)
        self._file.flush()
        self.path = Path(self._file.name)


def _copy(path: Path) -> _Memory | _Temporary:
    content = path.read_bytes()
    return _Memory(content) if hasattr(os, "memfd_create") else _Temporary(content)
