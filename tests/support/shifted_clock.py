"""A wall clock that differs from the system's, for a forked process (``forked``).

``SKYBRIDGE_TEST_CLOCK`` names a file with the difference in seconds. The clock reads the file each time, so
a test makes the clock jump by writing the file.
"""

from __future__ import annotations

import time
from pathlib import Path

from app.interfaces.clock import SystemClock

VARIABLE = "SKYBRIDGE_TEST_CLOCK"


def shift(by: Path) -> None:
    real = time.time_ns

    def now_ns() -> int:
        return real() + int(by.read_text()) * 10**9

    time.time_ns = now_ns
    time.time = lambda: now_ns() / 10**9  # noqa: TID251 - what is shifted
    SystemClock.now = staticmethod(time.time)  # noqa: TID251 - it has the function, not its name
