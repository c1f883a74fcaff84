"""A service as `make serve` starts it, for the blocks that speak to one."""

from __future__ import annotations

import http.client
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from forked import FORKER
from free_ports import free_ports
from pasting import environment, localised
from service_process import ServeProcess

DOCUMENTED = ("8080", "8081", "9000", "9001", "9002")
"""The ports that the pages write: events, admin, and three of what the examples start."""


@dataclass(frozen=True)
class Running:
    """``folder`` is where the blocks run; free ports stand in for the documented ones, which may
    be taken on this machine.
    """

    folder: Path
    ports: Mapping[str, str]

    def localised(self, text: str) -> str:
        return localised(text, self.ports)

    def pasted(self, text: str) -> subprocess.CompletedProcess[str]:
        """A block as in a shell with the project's environment on its path. Its ``skybridge`` is forked, for a page
        has dozens of them, and most of each is imports."""
        place = Path(tempfile.mkdtemp(dir=self.folder.parent))
        folder, control = FORKER.command(place)
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.localised(text)],
            cwd=self.folder,
            env=environment(self.ports, folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            pass_fds=[control],
        )


@pytest.fixture
def stand_ins(tmp_path: Path) -> Running:
    """Ports and a folder, with nothing running yet."""
    free = map(str, free_ports(len(DOCUMENTED)))
    return Running(tmp_path, dict(zip(DOCUMENTED, free, strict=True)))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for all tests of a module that look and change nothing."""
    with _service_of_a_reader(tmp_path_factory.mktemp("looked-at")) as service:
        yield service


@pytest.fixture
def running_anew(tmp_path: Path) -> Iterator[Running]:
    """A service for one page: what other pages make, and in which order, is nothing to it."""
    with _service_of_a_reader(tmp_path) as service:
        yield service


@contextmanager
def _service_of_a_reader(folder: Path) -> Iterator[Running]:
    """``skybridge serve`` without a file, of a reader who has sent one event: looking makes no topic."""
    free = map(str, free_ports(len(DOCUMENTED)))
    served = Running(folder, dict(zip(DOCUMENTED, free, strict=True)))
    admin = served.ports["8081"]
    service = ServeProcess(None, folder, int(admin))
    service.start(
        {
            "SKYBRIDGE_SERVER__EVENTS__PORT": served.ports["8080"],
            "SKYBRIDGE_SERVER__ADMIN__PORT": admin,
            "SKYBRIDGE_TIMEOUTS__NOT_READY": "0s",
        }
    )
    try:
        _send_one(int(served.ports["8080"]))
        yield served
    finally:
        service.stop()


def _send_one(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    attributes = {"specversion": "1.0", "id": "first", "source": "/", "type": "com.example.first"}
    headers = {f"ce-{name}": value for name, value in attributes.items()}
    connection.request("POST", "/events", headers=headers)
    assert connection.getresponse().status == 202
    connection.close()
