"""The programs of this folder that run on hosts: the senders on ``load``, the webhooks on ``target``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pages import CHECKOUT
from proof.hosts import Host
from proof.processes import HostProcess

SEARCHED = f"{CHECKOUT}/tests:{CHECKOUT}/tests/support"


class Program(HostProcess):
    """A module of this folder as a program of a host, which is told what to do on its standard input."""

    def __init__(self, host: Host, folder: Path, *arguments: str) -> None:
        super().__init__(host, folder / host.name)
        self._arguments = arguments

    def command(self) -> list[str]:
        return [sys.executable, "-m", f"proof.{self.host.name}", *self._arguments]

    def environ(self) -> Mapping[str, str]:
        return {"PYTHONPATH": SEARCHED}

    def files(self) -> Mapping[str, Any]:
        return {"stdin": subprocess.PIPE}

    def answers(self) -> bool:
        return True

    def tell(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def end_input(self) -> None:
        """Close the standard input of the program, which then comes to its end."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
