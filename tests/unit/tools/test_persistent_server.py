"""``make servers ARGS=--stop``, whatever has become of the servers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import persistent_server
from persistent_server import PersistentServer
from server_process import ServerProcess

SLEEPER = [sys.executable, "-c", "import sys; sys.stdin.read()"]


class Sleeper(ServerProcess):
    """A server that answers as its test says."""

    name = "Sleeper"
    up = True

    def begin(self) -> None:
        """Nothing: the test starts the processes."""

    @staticmethod
    def answering(ports: Mapping[str, int]) -> bool:
        return Sleeper.up

    @staticmethod
    def addresses(ports: Mapping[str, int]) -> str:
        return "nowhere"


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "data").mkdir()
    with subprocess.Popen(SLEEPER, cwd=tmp_path / "data", stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


def ended() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    return gone.pid


@pytest.mark.parametrize("up", [True, False])
def test_stop_after_a_part_of_a_server_has_died(
    tmp_path: Path, process: subprocess.Popen[bytes], up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and once more: nothing of it is left, and there is no traceback."""
    monkeypatch.setattr(persistent_server, "SERVERS", tmp_path)
    monkeypatch.setattr(Sleeper, "up", up)
    server = PersistentServer(Sleeper, lambda: None)
    folder = tmp_path / "data"
    state = {"pids": [ended(), process.pid], "ports": {"port": 1}, "folder": str(folder)}
    (tmp_path / "sleeper.json").write_text(json.dumps(state))
    server.stop()
    server.stop()
    assert process.wait(60) != 0
    assert not folder.exists()


def test_another_process_with_the_same_id_lives_on(
    tmp_path: Path, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persistent_server, "SERVERS", tmp_path)
    monkeypatch.setattr(Sleeper, "up", False)
    state = {"pids": [process.pid], "ports": {"port": 1}, "folder": str(tmp_path / "other")}
    (tmp_path / "sleeper.json").write_text(json.dumps(state))
    PersistentServer(Sleeper, lambda: None).stop()
    assert process.poll() is None


@pytest.mark.parametrize("taken", [False, True])
def test_a_server_starts_on_its_usual_port_if_that_is_free(
    tmp_path: Path, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People expect Kafka on 9092, and may have one there."""

    class Usual(Sleeper):
        port = 1

        def begin(self) -> None:
            self._process = self._spawn(SLEEPER)

    monkeypatch.setattr(persistent_server, "SERVERS", tmp_path)
    monkeypatch.setattr(Sleeper, "up", True)
    server = PersistentServer(Usual, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        usual = listener.getsockname()[1]
        monkeypatch.setattr(Usual, "usual_port", usual)
        if not taken:
            listener.close()
        server.begin()
    state = json.loads((tmp_path / "sleeper.json").read_text())
    server.stop()
    assert state["ports"]["port"] == (Usual.port if taken else usual)
