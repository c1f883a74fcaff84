"""A wall clock of its own for a process that is forked (``forked``), as another machine has.

``SKYBRIDGE_TEST_CLOCK`` names a file of the seconds by which it differs. It is read at each look: what a test
writes there is a step.
"""

from __future__ import annotations

import time
from pathlib import Path

VARIABLE = "SKYBRIDGE_TEST_CLOCK"


def shift(by: Path) -> None:
    real = time.time_ns

    def now_ns() -> int:
        return real() + int(by.read_text()) * 10**9

    time.time_ns = now_ns
    time.time = lambda: now_ns() / 10**9  # noqa: TID251 - what is shifted
