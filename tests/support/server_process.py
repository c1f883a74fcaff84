"""A real server on loopback, run as a process: the common part of Kafka, Pulsar, RabbitMQ and
PostgreSQL."""

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


def answer_to(port: int, question: bytes, host: str = "127.0.0.1") -> bytes:
    """Return the first bytes that a server answers, or b"" if it does not answer within 2 s."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.settimeout(2)
            connection.sendall(question)
            return connection.recv(4096)
    except OSError:
        return b""


def is_free(port: int) -> bool:
    """Return True if no server listens on this port of loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class ServerProcess(ABC):
    """A server in a child process. Its ports and data stay the same through kill and restart.

    Attributes:
        name: The name of the product.
        usual_port: The port on which people expect the product, or 0.
        ready_within: The seconds in which a start must end, also on a busy machine.
        restarted_by: The signal that ends a running server before a restart.
    """

    name: ClassVar[str]
    usual_port: ClassVar[int] = 0
    port: int
    ready_within: ClassVar[float] = 240.0
    restarted_by: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, *, outlives_us: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"skybridge-{self.name.lower()}-"))
        self._outlives_us = outlives_us
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def begin(self) -> None:
        """Start the server without waiting until it answers. One node of a cluster answers only when the other
        nodes run."""

    @property
    def ports(self) -> Mapping[str, int]:
        """Return the ports that ``answering`` and ``addresses`` need."""
        return {"port": self.port}

    @staticmethod
    @abstractmethod
    def answering(ports: Mapping[str, int]) -> bool:
        """Return True if a server on these ports does its work. An open port does not suffice."""

    @staticmethod
    @abstractmethod
    def addresses(ports: Mapping[str, int]) -> str:
        """Return the addresses in words, for the console."""

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        """Return the ids of all processes that the server started."""
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
        """End the server with SIGKILL. Writes that the operating system has not received are lost."""
        self._end(signal.SIGKILL)

    def end(self) -> None:
        """End the server with SIGTERM, which lets it stop in order."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """End the server if it runs, and start it on the same ports and data."""
        self._end(self.restarted_by)
        self.start()

    def pause(self) -> None:
        """Stop the server with SIGSTOP: connections stay open and nothing answers.

        The call returns when every thread is stopped.
        """
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def revive(self) -> None:
        """Make the server run and answer, whether a test has stopped, killed or ended it."""
        assert self._process is not None
        if self._process.poll() is None:
            self.resume()
            self.wait_until_answering()
        else:
            self.start()

    def stop(self) -> None:
        """Kill the server and delete its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(how)
        self._process.send_signal(signal.SIGCONT)  # a stopped process receives no other signal
        self._process.wait(self.ready_within)

    def _spawn(self, command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        """Start a process of the server; ``more`` are arguments of ``subprocess.Popen``."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C for the tests must not reach the server
                preexec_fn=None if self._outlives_us else die_with_parent(),  # noqa: PLW1509
                **more,
            )


def die_with_parent() -> Callable[[], None] | None:
    """Return a function that makes Linux end the child when this process ends, even by SIGKILL.

    The function is safe with threads, because the child only makes one system call. Linux counts the
    thread that starts the child as its parent, so only the main thread gets the function.
    """
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
