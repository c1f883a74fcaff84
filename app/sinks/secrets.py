"""Secrets that may change while we run: those that are a file are read again when it does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from app.model.secret import FileSecret, Mark, is_sendable
from app.tls import mark_of, read_text

LOOK_AGAIN = 1.0  # seconds between looks at a file

_log = logging.getLogger(__name__)


class WatchedFiles:
    """Whether any of these files is another one than it was at the last look that said so. ``marks``: from
    before they were read; without it they are read after this."""

    def __init__(
        self,
        paths: tuple[str, ...],
        monotonic: Callable[[], float] = time.monotonic,
        *,
        marks: tuple[Mark | None, ...] | None = None,
    ) -> None:
        self._paths = paths
        self._monotonic = monotonic
        self._looked = monotonic()
        self._marks = tuple(map(mark_of, paths)) if marks is None else marks

    def changed(self) -> bool:
        """A file that is gone has not changed: it is being replaced."""
        now = self._monotonic()
        if now - self._looked < LOOK_AGAIN:
            return False
        self._looked = now
        marks = tuple(map(mark_of, self._paths))
        if marks == self._marks or None in marks:
            return False
        self._marks = marks
        return True


class LiveSecret:
    """Called for its text. What cannot be read keeps the text that it had. ``path``: of its file, or ""."""

    def __init__(self, secret: FileSecret, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._text = secret.get_secret_value()
        self.path = secret.path
        marks = (secret.mark,)
        self._watched = (
            WatchedFiles((secret.path,), monotonic, marks=marks) if secret.path else None
        )

    def __call__(self) -> str:
        if self._watched is not None and self._watched.changed():
            self._read()
        return self._text

    def _read(self) -> None:
        try:
            text = read_text(self.path).removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            _log.error("%s stays as it was: %s", self.path, type(error).__name__)
            return
        if text and is_sendable(text):  # an empty file is one that is being written
            self._text = text
