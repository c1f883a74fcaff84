"""A pytest plugin that makes the periodic work of the product ten times as frequent.

``make test ARGS="-p hurried"`` divides every sleep of the product's clock by ten, in tests and in
the services that they start. The clock's time stays correct. A test that then fails relied on a
certain pace.
"""

from __future__ import annotations

import os

from app.interfaces.clock import SystemClock

ASKED = "SKYBRIDGE_TEST_HURRIED"
FASTER = 10.0


def hurry() -> None:
    sleep = SystemClock.sleep

    async def sooner(self: SystemClock, seconds: float) -> None:
        await sleep(self, seconds / FASTER)

    SystemClock.sleep = sooner  # type: ignore[method-assign]


def pytest_configure() -> None:
    os.environ[ASKED] = "1"
    hurry()
