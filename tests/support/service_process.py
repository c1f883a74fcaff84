"""``skybridge serve`` as a child process, which a test starts, waits for, kills or stops."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from configuration import Settings, merged, written
from forked import FORKER, Forked
from free_ports import free_ports
from sending import event_headers
from waiting import wait_until

READY_WITHIN = 240.0  # seconds; on a busy machine an interpreter starts slowly
STOPS_WITHIN = 120.0  # seconds: the drain bound of the service, plus a reserve for a busy machine


def with_ports(settings: Mapping[str, Any]) -> Settings:
    """Return the settings with a free port in place of each listener's port 0."""
    ports = iter(free_ports(2))
    server = settings["server"]
    return merged(settings, {
        "server": {
            name: {"port": server[name]["port"] or next(ports)} for name in ("events", "admin")
        }
    })  # fmt: skip


class ServeProcess:
    """``skybridge serve`` on a configuration file that another part of the test wrote, or without a file.

    Standard error goes to ``<folder>/service.log``. The process is forked from one that has imported its modules
    already (``forked``). If ``program`` is set, the next start runs it instead, with ``arguments``.
    """

    def __init__(
        self, config: Path | None, folder: Path, admin_port: int, program: Sequence[str] = ()
    ) -> None:
        self.arguments = ["serve"] if config is None else ["serve", "--config", str(config)]
        self.program = program
        self.folder = folder
        self.admin_port = admin_port
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self.log = folder / "service.log"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the service was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, environ: Mapping[str, str] | None = None) -> None:
        """Start the process, and return when ``/readyz`` answers 200."""
        self.begin(environ)
        wait_until(self.ready, f"ready service (see {self.log})", READY_WITHIN)

    def begin(self, environ: Mapping[str, str] | None = None) -> None:
        """Start the process without waiting, because the service may have a reason not to be ready."""
        env = {**os.environ, **(environ or {})}
        with self.log.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            files = {"stdin": nothing.fileno(), "stdout": log.fileno(), "stderr": log.fileno()}
            if self.program:
                command = [*self.program, *self.arguments]
                self._process = subprocess.Popen(command, cwd=self.folder, env=env, **files)
            else:
                self._process = FORKER.start(self.arguments, cwd=self.folder, env=env, **files)

    def ready(self) -> bool:
        """Return True if ``/readyz`` answers 200. Raise RuntimeError if the process has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"the service ended by itself:\n{self.log.read_text()[-2000:]}")
        return self.answers("/readyz") == 200

    def answers(self, path: str) -> int | None:
        """Return the status of a GET on the admin listener, or None if nothing answers."""
        try:
            return self.ask("GET", path)[0]
        except OSError:
            return None

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        port: int | None = None,
    ) -> tuple[int, str]:
        """Send a request to the admin listener, or another ``port``, and return status and text."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.admin_port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """Return the JSON that the admin listener answers for a path, whatever its status."""
        return json.loads(self.ask("GET", path)[1])

    def resident(self) -> int:
        """Return the resident memory of the process in bytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def send_signal(self, sign: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError("the service was not started")
        self._process.send_signal(sign)

    @contextmanager
    def ended(self) -> Iterator[None]:
        """Kill the service at the end of the block if it still runs."""
        try:
            yield
        finally:
            if self.running:
                self.kill()

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End the process with SIGTERM and return its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, sign: signal.Signals) -> int:
        self.send_signal(sign)
        assert self._process is not None
        try:
            return self._process.wait(STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise


class ServiceProcess(ServeProcess):
    """A service process on settings of the test, which ``write`` puts into ``file``."""

    def __init__(self, settings: Mapping[str, Any], folder: Path, *arguments: str) -> None:
        """Write the settings into ``folder/skybridge.yaml``, with free ports in place of 0.

        Args:
            settings: The configuration.
            folder: The folder of the file and the service's log.
            arguments: Arguments of ``skybridge serve`` after the file.
        """
        self.settings = with_ports(settings)
        self.file = folder / "skybridge.yaml"
        self.write()
        server = self.settings["server"]
        super().__init__(self.file, folder, server["admin"]["port"])
        self.arguments += arguments
        self.events_port: int = server["events"]["port"]

    @property
    def events_url(self) -> str:
        return f"http://127.0.0.1:{self.events_port}"

    def write(self) -> None:
        """Write the current settings to the file, without a reload."""
        written(self.settings, self.file.parent)

    def send(
        self,
        id_: str,
        data: bytes | str | None = "{}",
        headers: Mapping[str, str] | None = None,
        **attributes: str,
    ) -> tuple[int, str]:
        """Send one event in binary mode on a new connection; return status and text."""
        named = {**event_headers(id_, **attributes), **(headers or {})}
        if data is not None:
            named.setdefault("content-type", "application/json")
        return self.ask("POST", "/events", data, named, port=self.events_port)


@contextmanager
def serving(settings: Mapping[str, Any], folder: Path, *arguments: str) -> Iterator[ServiceProcess]:
    """Run a service until the block ends, and assert that it stops with exit code 0."""
    service = ServiceProcess(settings, folder, *arguments)
    with service.ended():
        service.start()
        yield service
        assert service.stop() == 0
