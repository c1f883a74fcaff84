"""Paste the blocks of a page into terminals, as a reader does.

Free ports replace the ports that the page names, because those may be taken on this machine.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forked import FORKER
from pages import Block
from waiting import wait_until

WITHIN = 400.0  # seconds for a block to end, or for a program to listen


def localised(text: str, ports: Mapping[str, str]) -> str:
    """Return the text with free ports in place of the documented ones."""
    for documented, free in ports.items():
        for before in (":", "--port ", "port: "):
            text = text.replace(f"{before}{documented}", f"{before}{free}")
    return text


def environment(ports: Mapping[str, str], *before: Path) -> dict[str, str]:
    """Return the environment of a reader whose commands speak to the service on these ports.

    Args:
        ports: The free ports by the documented ones.
        before: Folders that come first on the path.
    """
    folders = [*map(str, before), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {
        **os.environ,
        "PATH": os.pathsep.join(folders),
        "SKYBRIDGE_SERVER": f"http://127.0.0.1:{ports['8081']}",
        "SKYBRIDGE_EVENTS_URL": f"http://127.0.0.1:{ports['8080']}/events",
    }


class Terminals:
    """The terminals of a reader in one folder. A program that keeps running has one of them until the next program on
    its port starts.

    Args:
        folder: The folder.
        ports: The free ports by the documented ones.
        forked: Whether commands that end are forked, which saves most of their time.
    """

    def __init__(self, folder: Path, ports: Mapping[str, str], *, forked: bool = False) -> None:
        self._folder = folder
        self._ports = ports
        self._forked = forked
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._outputs: dict[str, list[Path]] = {}
        (folder / ".venv").symlink_to(Path(sys.executable).parents[1])

    def paste(self, block: Block) -> str:
        """Paste a block. Return its output, or "" if it keeps running. Raise AssertionError if it fails."""
        if block.port:
            self._start(block)
            return ""
        place = [FORKER.command(Path(tempfile.mkdtemp(dir=self._folder)))] if self._forked else []
        done = subprocess.run(
            self._bash(block),
            **self._options(*(folder for folder, _ in place)),
            stderr=subprocess.STDOUT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=WITHIN,
            check=False,
            pass_fds=[control for _, control in place],
        )
        assert done.returncode == 0, f"{block}: {done.stdout}"
        return done.stdout

    def shown(self, port: str) -> str:
        """Return the output of the newest program on a documented port."""
        return self._outputs[port][-1].read_text()

    def end(self) -> None:
        """Press Ctrl+C in every terminal."""
        for port in [*self._running]:
            self._end(port)

    def _start(self, block: Block) -> None:
        self._end(block.port)
        outputs = self._outputs.setdefault(block.port, [])
        output = self._folder / f"terminal-{block.port}-{len(outputs)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                self._bash(block),
                **self._options(),
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        outputs.append(output)
        self._running[block.port] = process

        def listens() -> bool:
            assert process.poll() is None, f"{block} ended: {output.read_text()}"
            return _listens(int(self._ports[block.port]))

        wait_until(listens, f"a listener of {block}", WITHIN)

    def _end(self, port: str) -> None:
        if (process := self._running.pop(port, None)) is not None:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(WITHIN)

    def _bash(self, block: Block) -> list[str]:
        return ["bash", "-euo", "pipefail", "-c", localised(block.text, self._ports)]

    def _options(self, *before: Path) -> dict[str, Any]:
        environ = {
            "SKYBRIDGE_SERVER__EVENTS__PORT": self._ports["8080"],
            "SKYBRIDGE_SERVER__ADMIN__PORT": self._ports["8081"],
            "SKYBRIDGE_TIMEOUTS__NOT_READY": "0s",
        }
        return {
            "cwd": self._folder,
            "env": {**environment(self._ports, *before), **environ},
            "stdin": subprocess.DEVNULL,
        }


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def terminals(
    folder: Path, ports: Mapping[str, str], *, forked: bool = False
) -> Iterator[Terminals]:
    """Open terminals in a folder, and end their programs with the block."""
    opened = Terminals(folder, ports, forked=forked)
    try:
        yield opened
    finally:
        opened.end()
