"""Run the driver of an SDK, which reads one question a line and answers with one line."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Self

from opinion_install import Sdk, command, installed
from opinion_verdicts import Opinion, opinions_of

Answer = dict[str, Any]
"""An answer of a driver. It has ``events`` or ``message``, or ``error`` if the SDK raised an error,
or ``unable`` if the SDK lacks the feature."""


class Driver:
    """The driver process of one SDK. It ends with the ``with`` block."""

    def __init__(self, sdk: Sdk) -> None:
        self.name = sdk.name
        self._process = subprocess.Popen(
            command(sdk, installed(sdk)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, question: dict[str, Any]) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{self.name} ended at {question}"
        answer: Answer = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)


def opinions_of_sdk(sdk: Sdk, invented: frozenset[str]) -> list[Opinion]:
    """Return the opinions of an SDK on every question."""
    with Driver(sdk) as driver:
        return opinions_of(driver, invented)
