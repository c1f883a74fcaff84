"""Clean up after a block of code without hiding the error that ended the block."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def cleaning_up(clean: Callable[[], object]) -> Iterator[None]:
    """Call ``clean`` after the block.

    If the block raised an error, an error of ``clean`` is only logged, so the caller sees the first
    error. Both often have one cause: a catalog or a JVM that does not answer.
    """
    try:
        yield
    except BaseException:
        try:
            clean()
        except Exception as second:  # noqa: BLE001 - any error here must not hide the first one
            _log.debug("cleaning up failed: %s", second)
        raise
    clean()
