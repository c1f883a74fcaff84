"""Secrets that may change at run time. A secret from a file is read again when the file changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from app.model.secret import FileSecret, Mark, is_sendable
from app.tls import mark_of, read_text

CHECK_EVERY = 1.0  # seconds between checks of a file

_log = logging.getLogger(__name__)


class WatchedFiles:
    """Detects that files have changed since the last reported change.

    ``marks`` are the versions (inode, time, size) of the files before they were read. Without
    ``marks``, the caller must read the files after creating this object.
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        monotonic: Callable[[], float] = time.monotonic,
        *,
        marks: tuple[Mark | None, ...] | None = None,
    ) -> None:
        self._paths = paths
        self._monotonic = monotonic
        self._checked_at = monotonic()
        self._marks = tuple(map(mark_of, paths)) if marks is None else marks

    def changed(self) -> bool:
        """Return True once after a change of any file. A missing file does not count, because it is
        being replaced.
        """
        now = self._monotonic()
        if now - self._checked_at < CHECK_EVERY:
            return False
        self._checked_at = now
        marks = tuple(map(mark_of, self._paths))
        if marks == self._marks or None in marks:
            return False
        self._marks = marks
        return True


class LiveSecret:
    """A function that returns the current text of a secret. If its file cannot be read, the last
    text stays.

    ``path`` is the path of the file, or "" for a secret without one.
    """

    def __init__(self, secret: FileSecret, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._text = secret.get_secret_value()
        self.path = secret.path
        marks = (secret.mark,)
        self._watched = (
            WatchedFiles((secret.path,), monotonic, marks=marks) if secret.path else None
        )

    def __call__(self) -> str:
        """Return the current text of the secret."""
        if self._watched is not None and self._watched.changed():
            self._read()
        return self._text

    def _read(self) -> None:
        try:
            text = read_text(self.path).removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            _log.error(
                "secret file %s cannot be read, its old text stays: %s",
                self.path,
                type(error).__name__,
            )
            return
        if text and is_sendable(text):  # an empty file is still being written
            self._text = text
