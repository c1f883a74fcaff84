"""Run a command in a pseudo-terminal, as a person does: read what it shows, and type."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 120.0  # seconds until a command must have shown a text
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
# The session of the command gets the terminal as its own, so that Ctrl+C reaches it.
_LAUNCH = "import fcntl,os,sys,termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


class Terminal:
    """A command in a pseudo-terminal. ``shown`` is everything that it has shown, without control sequences."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.shown = ""
        self._process = process
        self._screen = screen
        self._read_to = 0

    def read_until(self, text: str) -> str:
        """Wait until the command shows a text after those that were awaited before. Return what it showed since."""
        deadline = time.monotonic() + PATIENCE
        while (at := self.shown.find(text, self._read_to)) < 0:
            if time.monotonic() > deadline or not self._read():
                raise AssertionError(f"{text!r} was not shown:\n{self.shown[self._read_to :]}")
        begin, self._read_to = self._read_to, at + len(text)
        return self.shown[begin : self._read_to]

    def type(self, line: str) -> None:
        """Type a line and Enter."""
        os.write(self._screen, f"{line}\n".encode())

    def type_end(self) -> None:
        """Press Ctrl+D."""
        os.write(self._screen, b"\x04")

    def interrupt(self) -> None:
        """Press Ctrl+C."""
        os.write(self._screen, b"\x03")

    def end(self) -> int:
        """Read until the command has ended, and return its exit code."""
        while self._read():
            pass
        return self._process.wait(PATIENCE)

    def _read(self) -> bool:
        """Read what the command has shown. Return False when it shows no more."""
        readable, _, _ = select.select([self._screen], [], [], 1.0)
        if not readable:
            return True
        try:
            content = os.read(self._screen, 65536)
        except OSError:  # every process that had the terminal has ended
            return False
        self.shown += _CONTROL.sub("", content.decode("utf-8", "replace"))
        return bool(content)


@contextmanager
def terminal(
    command: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> Iterator[Terminal]:
    """Run a command in a terminal of 100 columns until the block ends; then kill it if it still runs."""
    screen, end = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _LAUNCH, *command],
        cwd=folder,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", **environ},
        stdin=end,
        stdout=end,
        stderr=end,
        start_new_session=True,
    )
    os.close(end)
    try:
        yield Terminal(process, screen)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        os.close(screen)
