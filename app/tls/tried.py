"""Reload objects built from PEM files when the files change, and only if the new files are valid.

An operator may replace the files at any moment and one after another: a certificate before its key,
or half of a bundle. So an object is rebuilt from all files, and replaces the old one only when
OpenSSL has accepted it. A context in use is never changed. Otherwise clients could resume sessions
(RFC 5077, RFC 8446 2.2) that began under old rules.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Generic, Self, TypeVar
from weakref import WeakValueDictionary

from app.tls.faults import Pems, certificates_in
from app.tls.regular import copy_of, read_regular

T = TypeVar("T")

RETRY = 5.0  # seconds until refused files are tried again unchanged: marks do not show permissions
_READS = 3  # attempts to read files that change meanwhile

_log = logging.getLogger(__name__)

Marks = tuple[tuple[int, int, int] | None, ...]

_in_use: WeakValueDictionary[tuple[str, Path], PemReloader[Any]] = WeakValueDictionary()


class PemReloader(Generic[T]):
    """A holder of an object built from PEM files, rebuilt when the files change.

    Attributes:
        current: The object built from the last valid files.
        generation: A number that grows with each replacement.
    """

    def __init__(self, pems: Pems, make: Callable[[], T]) -> None:
        """Build the object with ``make``.

        Raises:
            SetupError: The files cannot be used.
        """
        self._pems = pems
        self._make = make
        self._lock = threading.Lock()
        self._refused: Marks | None = None
        self._again = 0.0
        self._words = ""
        self._end: float | None = None
        self.generation = 0
        try:
            self._seen, self._chain, self.current = self._build()
        except OSError as error:
            raise pems.refusal(error) from error
        if pems.cert is not None:
            _in_use[pems.setting, pems.cert] = self

    def look(self) -> bool:
        """Rebuild the object if the files have changed, and return True if it was replaced. Any
        thread may call this.

        If the new files cannot be used, the old object stays in use and the cause is logged.
        """
        marks = self._marks()
        if marks == self._seen:
            return False
        if marks == self._refused and time.monotonic() < self._again:
            return False
        if not self._lock.acquire(blocking=False):
            return False  # another thread is checking
        try:
            return self._swap(marks)
        finally:
            self._lock.release()

    @property
    def end(self) -> float | None:
        """Return the expiry time of the chain in use, in seconds since the epoch; None if it cannot
        be read.
        """
        if self._end is None:
            ends = [each.not_valid_after_utc.timestamp() for each in certificates_in(self._chain)]
            self._end = min(ends, default=None)
        return self._end

    def _swap(self, marks: Marks) -> bool:
        try:
            seen, chain, made = self._build()
        except OSError as error:
            self._refused, self._again = marks, time.monotonic() + RETRY
            self._log_refusal(error)
            return False
        self._seen, self._chain, self.current = seen, chain, made
        self._refused, self._words, self._end = None, "", None
        self.generation += 1
        _log.info("%s: certificate reloaded", self._pems.setting)
        return True

    def _log_refusal(self, error: OSError) -> None:
        words = str(self._pems.refusal(error))
        if words != self._words:
            self._words = words
            _log.error("certificates are not reloaded, the old ones stay in use: %s", words)

    def _build(self) -> tuple[Marks, bytes, T]:
        """Build the object from files that did not change meanwhile. So all its files are of one
        state."""
        for left in reversed(range(_READS)):
            marks = self._marks()
            made = self._make()
            chain = b"" if self._pems.cert is None else read_regular(self._pems.cert)
            if marks == self._marks() or not left:
                return marks, chain, made
        raise AssertionError("the loop runs at least once")

    def _marks(self) -> Marks:
        return tuple(map(mark_of, self._pems.files))


def mark_of(file: str | Path) -> tuple[int, int, int] | None:
    """Return a value that changes with the file, even if a symbolic link is redirected; None if
    there is no file.

    Call this before reading the file, so that a change during the reading is found by the next
    call.
    """
    try:
        found = os.stat(file)  # noqa: PTH116 - called often, and faster than Path.stat
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def end_in_use(setting: str, cert: Path) -> float | None:
    """Return the expiry time of the certificate that this process uses under a setting; None if it
    uses none.
    """
    tried = _in_use.get((setting, cert))
    if tried is None:
        return None
    tried.look()
    return tried.end


class ClientContext(ssl.SSLContext):
    """A client's context for libraries that keep their context. Each handshake uses the last valid
    files.

    Open connections are not affected by a change.
    """

    def __new__(cls, pems: Pems, *, verify_host: bool = True) -> Self:  # noqa: ARG004 - for __init__
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, pems: Pems, *, verify_host: bool = True) -> None:
        """Build the context.

        Raises:
            SetupError: The files cannot be used.
        """
        self.check_hostname = verify_host  # some libraries read it; handshakes use `_tried`
        self._tried = PemReloader(pems, partial(_client, pems, verify_host=verify_host))

    @property
    def generation(self) -> int:
        """Return a number that changes with each replacement of the files."""
        return self._tried.generation

    def look(self) -> None:
        """Rebuild the context if the files have changed."""
        self._tried.look()

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        self._tried.look()
        return self._tried.current.wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        self._tried.look()
        return self._tried.current.wrap_socket(*args, **options)


def _client(pems: Pems, *, verify_host: bool) -> ssl.SSLContext:
    authorities = None if pems.ca is None else copy_of(pems.ca)
    cafile = None if authorities is None else str(authorities.path)
    context = ssl.create_default_context(cafile=cafile)
    pems.load_pair(context)
    context.check_hostname = verify_host
    return context


def server_context(pems: Pems, *, demands_client: bool) -> ssl.SSLContext:
    """Return the context of a listener, with sessions of its own.

    A session that began under other files or other demands cannot be resumed in it. Otherwise a
    client could connect without a check of its certificate.

    Args:
        pems: The certificate, the key and the authorities.
        demands_client: Whether each client must have a certificate; without it a certificate is
            optional.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    pems.load(context)
    if pems.ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED if demands_client else ssl.CERT_OPTIONAL
    return context
