"""End a command at the first signal, even while DuckDB and Arrow are busy. Only commands that do
not change the lake may use this module.

Python handles a signal on its main thread. A call of DuckDB blocks its thread until the running
task has ended, which takes minutes if a task spills to disk. So the query runs on another thread.
When a signal ends the process, Python's finalization is skipped, because it would abort while
threads of DuckDB or Arrow run.
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
_BY_SIGNAL: Final = 128  # plus the signal number is the exit code, as in shells


class _Ended(BaseException):
    """An exception that ends the process because of a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def exit_on_signal() -> Iterator[None]:
    """End the process with 130 at SIGINT and 143 at SIGTERM, and remove its temporary files."""
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


def run_in_thread(work: Callable[[], T]) -> T:
    """Run ``work`` on a thread of its own. Return its result or raise its exception."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as fault:  # noqa: BLE001 - raised again by the caller
            done.set_exception(fault)

    threading.Thread(target=run, name="lake", daemon=True).start()
    return done.result()


def _end(number: int, _: FrameType | None) -> None:
    """Raise an exception at the first signal. Restore the default handlers, so that a second signal
    kills the process.
    """
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    raise _Ended(number)


@contextmanager
def _scratch() -> Iterator[str]:
    """Yield a folder for all temporary files, and delete it at the end, because files of DuckDB can
    take gigabytes.
    """
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="skybridge-") as folder:
        tempfile.tempdir = folder
        try:
            yield folder
        finally:
            tempfile.tempdir = before
