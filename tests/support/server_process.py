"""A real server on loopback, run as a process: what Kafka, Pulsar, RabbitMQ and PostgreSQL share."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

ASK_AGAIN = 0.05
_PR_SET_PDEATHSIG = 1


def answer_to(port: int, question: bytes) -> bytes:
    """The first bytes that a server on loopback answers; none where nothing answers soon."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.settimeout(2)
            connection.sendall(question)
            return connection.recv(4096)
    except OSError:
        return b""


class ServerProcess(ABC):
    """``start`` returns when it answers. Ports and data stay the same through kill and restart.

    ``name``          for people.
    ``ready_within``  seconds; beside busy neighbours a start takes its time.
    ``restarted_by``  the signal that ends one which still runs.
    """

    name: ClassVar[str]
    port: int
    ready_within: ClassVar[float] = 240.0
    restarted_by: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, *, outlives_us: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"skybridge-{self.name.lower()}-"))
        self._outlives_us = outlives_us
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def begin(self) -> None:
        """Start, and do not wait: one node of several answers only when others are there."""

    @property
    def ports(self) -> Mapping[str, int]:
        """What ``answering`` has to know."""
        return {"port": self.port}

    @staticmethod
    @abstractmethod
    def answering(ports: Mapping[str, int]) -> bool:
        """Whether a server there does its work; that a port is open is not enough."""

    @staticmethod
    @abstractmethod
    def addresses(ports: Mapping[str, int]) -> str:
        """For people."""

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        """Of all that it started."""
        return [self.pid]

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def start(self) -> None:
        self.begin()
        self.wait_until_answering()

    def wait_until_answering(self) -> None:
        if not self.answers_within(self.ready_within):
            self.kill()
            raise RuntimeError(f"{self.name} did not come up: {self.log.read_text()[-2000:]}")

    def answers_within(self, seconds: float) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < deadline:
            if self.answers():
                return True
            time.sleep(ASK_AGAIN)
        return False

    def answers(self) -> bool:
        return self.answering(self.ports)

    def kill(self) -> None:
        """SIGKILL: what the operating system has not yet been given is lost."""
        self._end(signal.SIGKILL)

    def end(self) -> None:
        """SIGTERM: in order."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Up again on the same ports and data, whether it was killed or is still running."""
        self._end(self.restarted_by)
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers. Returns when every thread stands."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def revive(self) -> None:
        """Up and awake, whatever a test has done to it."""
        assert self._process is not None
        if self._process.poll() is None:
            self.resume()
            self.wait_until_answering()
        else:
            self.start()

    def stop(self) -> None:
        """For good. The data is thrown away, so nothing is gained by asking politely."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(how)
        self._process.send_signal(signal.SIGCONT)  # one that stands still hears nothing else
        self._process.wait(self.ready_within)

    def _spawn(self, command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        """``more``: as of ``subprocess.Popen``."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C meant for the tests is not meant for the server
                preexec_fn=None if self._outlives_us else _die_with_parent(),  # noqa: PLW1509
                **more,
            )


def _die_with_parent() -> Callable[[], None] | None:
    """Linux ends the server with us, even when we are killed and no fixture gets to clean up.

    Safe beside threads: the child does nothing but this one system call. Its parent is the thread
    that starts it, so only the main one will do.
    """
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
