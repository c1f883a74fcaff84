"""Start ``skybridge`` processes by forking a process that has already imported the modules.

Tests start hundreds of services, and imports take 2 s of processor time in each, or 4 s on a slow
machine. Apart from its imports a forked process is like any other. It has its own process number,
environment, folder, descriptors and signals, and ends as if started from a shell. Tests whose claim
is about the program itself run the program.

``python forked.py FD`` is the process that forks. It ends, with all its children, when the test run
does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import shifted_clock

SKYBRIDGE = str(Path(sys.executable).with_name("skybridge"))
LARGEST = 1 << 17  # bytes of one request: arguments and environment
MODULES = (
    *(
        "app.cli.commands",
        "app.api.app",
        "app.api.status.metrics",
        "app.runtime.run",
        "app.features.storage.backup",
        "app.features.lake.replay",
        "app.features.lake.settings",
    ),
    *("app.brokers.embedded", "app.brokers.kafka", "app.brokers.rabbitmq", "app.brokers.pulsar"),
    *(
        "app.features.kafka_listeners",
        "app.kafka_listener.server",
        "kio.static.primitive",
        "scramp",
    ),
    *(
        "jsonschema_rs",
        "app.cli.example_request",
        "typer._adapters",
        "encodings.idna",
        "uvicorn.lifespan.off",
    ),
    *("app.store.sqlite", "app.store.postgresql", "alembic.command", "httpx", "psycopg"),
    *("anyio._backends._asyncio", "certifi.core", "encodings.utf_8_sig", "h11", "httpcore"),
    *(
        "app.cli.client",
        "app.cli.pull_consumer",
        "app.config.model.schema",
        "app.features.checks.cases",
    ),
    *("importlib.readers", "rich.progress", "typer._click._textwrap", "typer._click.decorators"),
    *("rich.console", "rich.markup", "rich.table", "yaml", "uvicorn.config"),
    *("sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql", "fastapi.openapi.utils"),
    *(
        "pydantic.v1",
        "pydantic._internal._validators",
        "rich._emoji_codes",
        "stringprep",
        "uvicorn.lifespan.on",
    ),
)


class Forked:
    """A forked process, with those methods of ``subprocess.Popen`` that tests use."""

    def __init__(self, pid: int, told: socket.socket) -> None:
        self.pid = pid
        self._told = told
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], timeout)[0]:
            self.returncode = int(self._told.recv(64) or -signal.SIGKILL)
            self._told.close()
        return self.returncode


class Forker:
    """Starts the process that forks, at ``begin`` or at its first use, and asks it for processes.

    Processes that are forked after ``begin`` share the process that forks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None

    def begin(self) -> None:
        """Start the process that forks, unless it runs or the system has no ``pidfd_open``."""
        if hasattr(os, "pidfd_open"):
            with self._lock:
                self._begun()

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> Forked | subprocess.Popen[bytes]:
        """Start ``skybridge <arguments>``.

        Where the system has no ``pidfd_open``, the program itself is started.

        Args:
            arguments: The command-line arguments.
            cwd: The working folder.
            env: All environment variables.
            stdin: A descriptor, which the caller must close, as the next two.
            stdout: A descriptor.
            stderr: A descriptor.
        """
        if not hasattr(os, "pidfd_open"):
            files = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
            return subprocess.Popen([SKYBRIDGE, *arguments], cwd=cwd, env=env, **files)
        request = json.dumps([list(arguments), str(cwd), dict(env)]).encode()
        here, there = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with self._lock, there:
            control = self._begun()
            socket.send_fds(control, [request], [there.fileno(), stdin, stdout, stderr])
        return Forked(int(here.recv(64)), here)

    def command(self, folder: Path) -> tuple[Path, int]:
        """Write a program ``skybridge`` into ``folder``, by which shells start forked processes.

        The shell needs the returned folder on its path and must inherit the returned descriptor.
        The program passes the signals that end it on to the forked process.
        """
        with self._lock:
            control = self._begun()
        program = folder / "skybridge"
        program.write_text(_COMMAND.format(python=sys.executable, control=control.fileno()))
        program.chmod(0o755)
        return folder, control.fileno()

    def _begun(self) -> socket.socket:
        """Return the connection to the process that forks, which is started if it does not run."""
        if self._control is not None:
            return self._control
        here, there = socket.socketpair(type=socket.SOCK_SEQPACKET)
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LARGEST)
        with there:
            process = subprocess.Popen(
                [sys.executable, __file__, str(there.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
            )
        self._control = here
        atexit.register(self._end, process, os.getpid())
        return here

    def _end(self, process: subprocess.Popen[bytes], starter: int) -> None:
        """End the process that forks. Only the process that started it does so."""
        if os.getpid() == starter and self._control is not None:
            self._control.shutdown(socket.SHUT_RDWR)  # processes left by a shell have it too
            self._control.close()
            process.wait()


_COMMAND = """#!{python} -IS
import json, os, signal, socket, sys

ENDING = {{signal.SIGHUP, signal.SIGINT, signal.SIGTERM}}
signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
here, there = socket.socketpair(type=socket.SOCK_SEQPACKET)
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(socket.socket(fileno={control}), [request], [there.fileno(), 0, 1, 2])
there.close()
pid = int(here.recv(64))
for each in ENDING:
    signal.signal(each, lambda number, _: os.kill(pid, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
code = int(here.recv(64) or -signal.SIGKILL)
os._exit(code if code >= 0 else 128 - code)
"""

FORKER = Forker()


def completed(
    *words: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    within: float = 240.0,
) -> subprocess.CompletedProcess[str]:
    """Run ``skybridge <words>`` to its end with an empty standard input, and return its exit code
    and output.
    """
    with (
        Path(os.devnull).open("rb") as nothing,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        files = {"stdin": nothing.fileno(), "stdout": out.fileno(), "stderr": err.fileno()}
        process = FORKER.start(words, cwd=cwd or Path.cwd(), env=env or os.environ, **files)
        try:
            code = process.wait(within)
        finally:
            process.kill()
        said = [(file.seek(0), file.read().decode())[1] for file in (out, err)]
    return subprocess.CompletedProcess(words, code, *said)


@dataclass(frozen=True)
class _Child:
    pid: int
    told: socket.socket


class _Forking:
    """The main loop of the process that forks. In each child it returns the arguments."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, _Child] = {}  # by the descriptor that reports their end

    def run(self) -> list[str] | None:
        """Fork on each request. Return the arguments in a child, and None in the parent when the
        test run has ended.
        """
        while True:
            ready, _, _ = select.select([self._control, *self._children], [], [])
            for each in ready:
                if each is not self._control:
                    self._bury(each)
                    continue
                data, fds, _, _ = socket.recv_fds(self._control, LARGEST, 4)
                if not data:
                    self._end()
                    return None
                arguments, cwd, env = json.loads(data)
                if self._is_child(fds):
                    os.chdir(cwd)
                    os.environ.clear()
                    os.environ.update(env)
                    return list(arguments)

    def _is_child(self, fds: Sequence[int]) -> bool:
        told = socket.socket(fileno=fds[0])
        pid = os.fork()
        if pid == 0:
            self._leave(told)
            for number, fd in enumerate(fds[1:]):
                os.dup2(fd, number)
        else:
            self._children[os.pidfd_open(pid)] = _Child(pid, told)
            told.send(str(pid).encode())
        for fd in fds[1:]:
            os.close(fd)
        return pid == 0

    def _leave(self, told: socket.socket) -> None:
        """Close in a child what belongs to the parent only."""
        told.close()
        self._control.close()
        for fd, child in self._children.items():
            os.close(fd)
            child.told.close()
        self._children.clear()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _bury(self, fd: int) -> None:
        child = self._children.pop(fd)
        _, status = os.waitpid(child.pid, 0)
        os.close(fd)
        with child.told:
            try:
                child.told.send(str(os.waitstatus_to_exitcode(status)).encode())
            except OSError:
                return  # the caller is gone

    def _end(self) -> None:
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)


def main(control: int) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # from the terminal: the test run ends its processes itself
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # no service has it; kio would take seconds for it
    for each in MODULES:
        importlib.import_module(each)
    for route in importlib.import_module("app.api.app").skeleton().routes:
        route.matches(
            {"type": "http", "method": "GET", "path": "/", "headers": []}
        )  # builds its routes
    importlib.import_module("app.store.schema").statements("sqlite")
    if os.environ.get("SKYBRIDGE_TEST_HURRIED"):
        importlib.import_module("hurried").hurry()
    sys.path.pop(0)  # tests/support, which a program would not have
    gc.freeze()
    arguments = _Forking(socket.socket(fileno=control)).run()
    if arguments is not None:
        if shifted_clock.VARIABLE in os.environ:
            shifted_clock.shift(Path(os.environ[shifted_clock.VARIABLE]))
        sys.argv = ["skybridge", *arguments]
        _run(importlib.import_module("app.cli").main)


def _run(program: Callable[[], object]) -> None:
    """Run the program to its end and exit at once.

    The interpreter's cleanup is skipped: it would copy memory shared with the parent, which takes
    longer than most programs run.
    """
    code: object = None
    try:
        program()
    except SystemExit as end:
        code = end.code
    if code is None or isinstance(code, int):  # otherwise the interpreter prints it
        threading._shutdown()  # waits for threads, as at any end
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit((code or 0) & 0xFF)
    sys.exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
