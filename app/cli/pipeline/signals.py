"""End a verb that only reads the lake at the first signal, whatever DuckDB and Arrow are doing.

Python handles a signal on its main thread, and a call of DuckDB keeps its thread until the running task has ended,
which takes minutes where a task spills to disk. So the query runs on a thread of its own. A process that a signal
ends skips the finalization of Python, which aborts while threads of DuckDB or Arrow are still inside it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_BY_SIGNAL: Final = 128  # and the number of the signal: the exit code that a shell shows


class _Ended(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ending() -> Iterator[None]:
    """End the process at SIGINT with 130, at SIGTERM with 143, and remove the temporary files."""
    before = {each: signal.signal(each, _end) for each in _SIGNALS}
    try:
        with _scratch() as folder:
            try:
                yield
            except _Ended as ended:
                shutil.rmtree(folder, ignore_errors=True)
                with contextlib.suppress(OSError, ValueError):
                    sys.stdout.flush()
                os._exit(_BY_SIGNAL + ended.number)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def apart(work: Callable[[], T]) -> T:
    """Return what ``work`` returns, or raise what it raises, from a thread of its own."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as fault:  # noqa: BLE001 - raised again by the caller
            done.set_exception(fault)

    threading.Thread(target=run, name="lake", daemon=True).start()
    return done.result()


def _end(number: int, _: FrameType | None) -> None:
    """Raise at the first signal; let the second one kill."""
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    raise _Ended(number)


@contextmanager
def _scratch() -> Iterator[str]:
    """Keep all temporary files in one folder: those of DuckDB can take gigabytes."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="skybridge-") as folder:
        tempfile.tempdir = folder
        try:
            yield folder
        finally:
            tempfile.tempdir = before
