"""TLS towards webhooks: the authorities to trust, and the client certificate. Read again when the files change."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

from app.sinks import secrets
from app.tls import ClientContext, Pems


@cache
def trusted_by_system() -> TlsFiles:
    """One for all webhooks without files of their own: the authorities of the system are read once, and
    take a megabyte once."""
    return TlsFiles()


class TlsFiles:
    """``context`` serves new connections, each with the files as they were tried last.

    ``ca``           authorities instead of the system's.
    ``cert``, ``key``  ours, both or none.

    Raises SetupError for files that cannot be used.
    """

    def __init__(
        self,
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
        *,
        setting: str = "subscriptions.tls",
    ) -> None:
        pems = Pems(setting=setting, cert=cert, key=key, ca=ca)
        self.files = tuple(map(str, pems.files))
        self.shows_own = cert is not None
        self.context = ClientContext(pems)
        self._generation = 0
        self._looked = time.monotonic()

    def look(self) -> bool:
        """Take the files if they have changed and can be used. Return True once after each swap: connections that are
        open were made with other files. Asked for each request, so that idle connections do not keep old files."""
        now = time.monotonic()
        if now - self._looked >= secrets.LOOK_AGAIN:
            self._looked = now
            self.context.look()
        generation, self._generation = self._generation, self.context.generation
        return generation != self._generation
