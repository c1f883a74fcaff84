"""TLS towards webhooks: the trusted authorities and the client certificate. Changed files are read
again.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

from app.sinks import secrets
from app.tls import ClientContext, Pems


@cache
def trusted_by_system() -> TlsFiles:
    """Return the TLS settings for all webhooks without files of their own.

    They are shared, because the authorities of the system take a megabyte.
    """
    return TlsFiles()


class TlsFiles:
    """The TLS files for requests to webhooks. ``context`` serves new connections with the files
    that were valid last.

    Args:
        ca: authorities to trust instead of those of the system.
        cert: the client certificate, if any; it needs ``key``.
        key: the private key of the client certificate.
        setting: the setting that errors name.

    Raises:
        SetupError: a file cannot be used.
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
        """Load the files if they have changed and are valid. Return True once after each change.

        Connections that are open then were made with other files. The pool calls this for each
        request, so that idle connections with old files are not used.
        """
        now = time.monotonic()
        if now - self._looked >= secrets.CHECK_EVERY:
            self._looked = now
            self.context.look()
        generation, self._generation = self._generation, self.context.generation
        return generation != self._generation
