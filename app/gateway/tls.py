"""TLS of a listener; certificates and authorities are read again when their files change (reliability S15)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import msgspec

from app.errors import SetupError

_log = logging.getLogger(__name__)


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """``certificate``: PEM, the chain, leaf first. ``client_ca``: PEM; when set, a client must show
    a certificate that it signed. ``check_every``: seconds between looks at the files.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    check_every: float = 5.0


class Certificates:
    """``context`` is the one of a listener. It hands new connections to what was loaded last; others keep
    theirs. ``setting`` names its TLS in error messages.
    """

    def __init__(self, settings: Tls, setting: str = "server.events.tls") -> None:
        self._settings = settings
        self._seen = self._stamps()
        try:
            self.context = self._latest = _context(settings)
        except (OSError, ssl.SSLError) as error:
            raise SetupError(
                f"cannot load the certificate: {error}",
                setting=setting,
                cure="name a PEM certificate and the key that belongs to it, without a pass phrase;"
                " client_ca, where it is set, holds PEM certificates",
            ) from error
        # Asked at each handshake, whether the client names a host or not.
        self.context.sni_callback = self._hand_over

    async def watch(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await asyncio.sleep(self._settings.check_every)
            stamps = await asyncio.to_thread(self._stamps)
            if stamps != self._seen and self._reload():
                self._seen = stamps

    def _reload(self) -> bool:
        """A pair that does not load (a key without its certificate yet) is tried again later, and
        the old one stays."""
        try:
            self._latest = _context(self._settings)
        except (OSError, ssl.SSLError) as error:
            _log.warning("the new certificate does not load, the old one stays: %s", error)
            return False
        _log.info("certificate loaded again from %s", self._settings.certificate)
        return True

    def _hand_over(
        self, handshake: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext
    ) -> None:
        handshake.context = self._latest

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        files = (self._settings.certificate, self._settings.key, self._settings.client_ca)
        return tuple(_stamp(file) for file in files if file is not None)


def _stamp(file: Path) -> tuple[int, int, int]:
    """Changes with the file: also when it is replaced through a symbolic link."""
    try:
        found = file.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _context(settings: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # With an empty pass phrase: OpenSSL would else ask for one on the terminal, and wait.
    context.load_cert_chain(settings.certificate, settings.key, password="")
    if settings.client_ca is not None:
        context.load_verify_locations(settings.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
