"""TLS towards webhooks: whom we trust, and the certificate we show. Read again when the files change."""

from __future__ import annotations

import logging
import ssl
from functools import cache
from pathlib import Path

from app.sinks.secrets import WatchedFiles

_log = logging.getLogger(__name__)


@cache
def trusted_by_system() -> TlsFiles:
    """One for all webhooks without files of their own: the authorities of the system are read once, and
    take a megabyte once."""
    return TlsFiles()


class TlsFiles:
    """``context`` serves new connections; those that are open keep what they were made with.

    ``ca``           authorities instead of the system's. An authority that leaves the file is trusted
                     until the next start; one that is added is trusted at once.
    ``cert``, ``key``  ours, both or none.

    Raises OSError, ssl.SSLError among them, for files that cannot be used.
    """

    def __init__(
        self, ca: Path | None = None, cert: Path | None = None, key: Path | None = None
    ) -> None:
        self._ca, self._cert, self._key = ca, cert, key
        self.files = tuple(str(path) for path in (ca, cert, key) if path is not None)
        self.shows_own = cert is not None
        self._watched = WatchedFiles(self.files)
        self.context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        self._load_own()

    def look(self) -> None:
        """Takes what has changed. What cannot be used is said, and the old one kept."""
        if not self._watched.changed():
            return
        try:
            if self._ca is not None:
                self.context.load_verify_locations(self._ca)
            self._load_own()
        except OSError as error:
            _log.error("certificates for a webhook stay as they were: %s", error)

    def _load_own(self) -> None:
        if self._cert is not None:
            self.context.load_cert_chain(self._cert, self._key)
