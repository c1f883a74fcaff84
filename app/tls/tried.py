"""What was made of PEM files, and is in use until the next make of them has been tried.

A file is replaced by others, at any moment and not always at once: a certificate before its key, half of a
bundle. So whatever is made of the files is made new and whole, and takes the place of the old one only when
OpenSSL has accepted it. No context is ever changed while it is in use, which would also leave the sessions that
clients resume (RFC 5077, RFC 8446 2.2) under rules that are no longer in force.
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

RETRY = 5.0  # seconds until unchanged files that were refused are tried again: a right to read shows in no mark
_READS = 3  # of files that change while they are read

_log = logging.getLogger(__name__)

Marks = tuple[tuple[int, int, int] | None, ...]

_in_use: WeakValueDictionary[tuple[str, Path], Tried[Any]] = WeakValueDictionary()


class Tried(Generic[T]):
    """``current`` is what ``make`` made of the files when they could last be used. ``generation`` grows with each
    swap. Raises SetupError where the files cannot be used at the start."""

    def __init__(self, pems: Pems, make: Callable[[], T]) -> None:
        self._pems = pems
        self._make = make
        self._lock = threading.Lock()
        self._refused: Marks | None = None
        self._again = 0.0
        self._words = ""
        self._end: float | None = None
        self.generation = 0
        try:
            self._seen, self._chain, self.current = self._whole()
        except OSError as error:
            raise pems.refusal(error) from error
        if pems.cert is not None:
            _in_use[pems.setting, pems.cert] = self

    def look(self) -> bool:
        """Swap if the files have changed and can be used; otherwise the old make stays in use, and the log says why.
        Returns whether it swapped. May be called from any thread."""
        marks = self._marks()
        if marks == self._seen:
            return False
        if marks == self._refused and time.monotonic() < self._again:
            return False
        if not self._lock.acquire(blocking=False):
            return False  # another thread looks
        try:
            return self._swap(marks)
        finally:
            self._lock.release()

    @property
    def end(self) -> float | None:
        """When the chain in use ends, in seconds since the epoch; None if it cannot be read."""
        if self._end is None:
            ends = [each.not_valid_after_utc.timestamp() for each in certificates_in(self._chain)]
            self._end = min(ends, default=None)
        return self._end

    def _swap(self, marks: Marks) -> bool:
        try:
            seen, chain, made = self._whole()
        except OSError as error:
            self._refused, self._again = marks, time.monotonic() + RETRY
            self._tell(error)
            return False
        self._seen, self._chain, self.current = seen, chain, made
        self._refused, self._words, self._end = None, "", None
        self.generation += 1
        _log.info("%s: certificate reloaded", self._pems.setting)
        return True

    def _tell(self, error: OSError) -> None:
        words = str(self._pems.refusal(error))
        if words != self._words:
            self._words = words
            _log.error("certificates stay as they were, the old one stays in use: %s", words)

    def _whole(self) -> tuple[Marks, bytes, T]:
        """Make it of files that stood still meanwhile, so that it is of one state of them."""
        for left in reversed(range(_READS)):
            marks = self._marks()
            made = self._make()
            chain = b"" if self._pems.cert is None else read_regular(self._pems.cert)
            if marks == self._marks() or not left:
                return marks, chain, made
        raise AssertionError("it is tried at least once")

    def _marks(self) -> Marks:
        return tuple(map(mark_of, self._pems.files))


def mark_of(file: str | Path) -> tuple[int, int, int] | None:
    """Return what changes with the file, also when it is replaced through a symbolic link; None for no file. Take it
    before the file is read: a change meanwhile must show at the next look."""
    try:
        found = os.stat(file)  # noqa: PTH116 - asked at every second attempt or so
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def end_in_use(setting: str, cert: Path) -> float | None:
    """Return when the certificate ends that this process uses under a setting; None where it uses none."""
    tried = _in_use.get((setting, cert))
    if tried is None:
        return None
    tried.look()
    return tried.end


class ClientContext(ssl.SSLContext):
    """A client's context for libraries that keep the context they were given: each handshake is made with the
    files as they were tried last. Connections that are open keep theirs."""

    def __new__(cls, pems: Pems, *, verify_host: bool = True) -> Self:  # noqa: ARG004 - for __init__
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, pems: Pems, *, verify_host: bool = True) -> None:
        """Raises SetupError for files that cannot be used."""
        self.check_hostname = verify_host  # for libraries that look; handshakes are made below
        self._tried = Tried(pems, partial(_client, pems, verify_host=verify_host))

    @property
    def generation(self) -> int:
        """Another number after each swap."""
        return self._tried.generation

    def look(self) -> None:
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
    """Return the context of a listener. It has sessions of its own: none that began under other files, or another
    demand, can be resumed in it, which would let a client in without a look at its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    pems.load(context)
    if pems.ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED if demands_client else ssl.CERT_OPTIONAL
    return context
