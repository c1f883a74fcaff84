"""A program on a host of the laboratory, which is started, killed, paused, stopped and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from proof.clock import ShiftedClock
from proof.hosts import Host
from waiting import wait_until


class HostProcess(ABC):
    """A program on a host. Its folder stays the same through kill and restart.

    Attributes:
        ready_within: The seconds in which a start must end, also on a busy machine.
        user: The user that it runs as; None: root.
        stopped_by: The signal that lets it end in order.
    """

    ready_within: ClassVar[float] = 240.0
    user: str | None = None
    stopped_by: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._clock: ShiftedClock | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command of the program."""

    @abstractmethod
    def answers(self) -> bool:
        """Return True if the program does its work."""

    def prepare(self) -> None:  # noqa: B027 - most have nothing to make
        """Make what must be there before the first start."""

    def environ(self) -> Mapping[str, str]:
        """Return additions to the environment."""
        return {}

    def files(self) -> Mapping[str, Any]:
        """Return its standard files, as arguments of ``subprocess.Popen``. By default it has no input."""
        return {}

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def log(self) -> Path:
        return self.folder / "out.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def begin(self) -> None:
        """Start the program without waiting until it answers."""
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            if self.user is not None:
                shutil.chown(self.folder, self.user)
            self.prepare()
        self._process = self.host.spawn(
            self.command(),
            log=self.log,
            environ={**self.environ(), **(self._clock.environ() if self._clock else {})},
            user=self.user,
            **self.files(),
        )

    def wait_until_answering(self) -> None:
        wait_until(
            self._answers_or_ended, f"{self.name} to answer (see {self.log})", self.ready_within
        )

    def _answers_or_ended(self) -> bool:
        if not self.running:
            raise RuntimeError(f"{self.name} ended by itself:\n{self.log.read_text()[-2000:]}")
        return self.answers()

    def start(self) -> None:
        self.begin()
        self.wait_until_answering()

    def signal(self, sign: signal.Signals) -> None:
        """Send a signal to all processes of the host, if the program runs. Each host has one program."""
        for pid in self.host.pids() if self.running else ():
            with suppress(ProcessLookupError):
                os.kill(pid, sign)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the program with SIGKILL."""
        self.signal(signal.SIGKILL)
        self.wait_for_end()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def kill_if_running(self) -> None:
        if self.running:
            self.kill()

    def ask_to_end(self) -> None:
        """Send the signal that ends the program in order, and do not wait."""
        if self._process is not None and self.running:
            self._process.send_signal(self.stopped_by)
        self.resume()

    def wait_for_end(self) -> int:
        """Wait until the program has ended, and return its exit code."""
        assert self._process is not None, "not started"
        return self._process.wait(self.ready_within)

    def stop(self) -> int:
        """End the program in order, and return its exit code."""
        self.ask_to_end()
        return self.wait_for_end()

    def use_clock(self) -> None:
        """Let ``set_clock`` shift the wall clock of this program from its next start on. Raises Missing."""
        self._clock = ShiftedClock(self.folder.with_suffix(".clock"))

    def set_clock(self, seconds: float) -> None:
        """Shift the wall clock of the program by so many seconds."""
        assert self._clock is not None, "use_clock comes before the start"
        self._clock.shift(seconds)
