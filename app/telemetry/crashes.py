"""Write errors that no code handles to the log, instead of as plain text to standard error."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType

_log = logging.getLogger("skybridge.crash")


def log_crashes(*, wanted: bool) -> None:
    """Log errors that no code handles, in any thread. If it is not wanted, Python prints them."""
    sys.excepthook = _log_end if wanted else sys.__excepthook__
    threading.excepthook = _log_thread if wanted else threading.__excepthook__
    sys.unraisablehook = _log_unraisable if wanted else sys.__unraisablehook__


def _log_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Log the error that ends the process."""
    _log.critical("the process ends: %s", kind.__name__, exc_info=(kind, error, trace))


def _log_thread(ended: threading.ExceptHookArgs) -> None:
    """Log the error that ends a thread. SystemExit ends a thread without an error."""
    if ended.exc_type is SystemExit:
        return
    error = ended.exc_value or ended.exc_type()
    name = ended.thread.name if ended.thread else "unknown"
    _log.error("thread %s ends", name, exc_info=error)


def _log_unraisable(ignored: sys.UnraisableHookArgs) -> None:
    """Log an error that Python cannot raise, such as one of a finalizer."""
    message = ignored.err_msg or "an error was ignored"
    error = ignored.exc_value or ignored.exc_type()
    _log.error("%s: %r", message, ignored.object, exc_info=error)
