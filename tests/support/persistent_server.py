"""A server that keeps running after the command: ``python -m kafka_server start`` and the like."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafka_install import SERVERS, Missing
from server_process import ServerProcess, is_free


class PersistentServer:
    """The one server of a kind that keeps running. A file in ``.servers/`` has its ports and
    processes."""

    def __init__(self, kind: type[ServerProcess], install: Callable[[], object]) -> None:
        self._kind = kind
        self._install = install
        self._file = SERVERS / f"{kind.name.lower()}.json"
        self._here: ServerProcess | None = None  # the server, if this process started it

    def ports(self) -> Mapping[str, int] | None:
        """Return the ports of the started server, or None if it does not answer."""
        ports: Mapping[str, int] | None = self._state().get("ports")
        return ports if ports and self._kind.answering(ports) else None

    def address(self) -> str | None:
        """Return the addresses of the started server in words, or None if it does not answer."""
        ports = self.ports()
        return None if ports is None else self._kind.addresses(ports)

    def begin(self) -> None:
        """Start the server unless it runs, on its usual port if that is free."""
        if self.ports() is not None:
            return
        server = self._kind(outlives_us=True)
        if self._kind.usual_port and is_free(self._kind.usual_port):
            server.port = self._kind.usual_port
        server.start()
        self._here = server
        state = {"pids": server.pids, "ports": dict(server.ports), "folder": str(server.folder)}
        SERVERS.mkdir(exist_ok=True)
        self._file.write_text(json.dumps(state))

    def start(self) -> None:
        self.begin()
        self.status()

    def stop(self) -> None:
        if not (state := self._state()):
            print(f"{self._kind.name} was not started here")
            return
        if self._here is not None:
            self._here.stop()
            self._here = None
        answers = self.ports() is not None
        for pid in state["pids"]:
            if answers or _runs_in(pid, Path(state["folder"])):
                with contextlib.suppress(ProcessLookupError):  # one of several has ended by itself
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(state["folder"], ignore_errors=True)
        self._file.unlink(missing_ok=True)
        print(f"{self._kind.name} stopped")

    def status(self) -> None:
        address = self.address()
        where = "is not running" if address is None else f"answers on {address}"
        print(f"{self._kind.name} {where}")

    def main(self) -> int:
        verbs: dict[str, Callable[[], object]] = {
            "install": self._install,
            "start": self.start,
            "stop": self.stop,
            "status": self.status,
        }
        parser = argparse.ArgumentParser(description=f"A real {self._kind.name} for tests.")
        parser.add_argument("verb", choices=verbs)
        try:
            verbs[parser.parse_args().verb]()
        except Missing as missing:
            print(missing, file=sys.stderr)
            return 1
        return 0

    def _state(self) -> dict[str, Any]:
        return json.loads(self._file.read_text()) if self._file.exists() else {}


def _runs_in(pid: int, folder: Path) -> bool:
    """Return True if the process works in the folder. After the end of a server its id may belong to
    another process."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink().is_relative_to(folder)
    except OSError:
        return False
