"""A pytest plugin: whatever the product does from time to time comes ten times as often.

``make test ARGS="-p hurried"``. Every sleep of the product's clock is a tenth as long, here and in the services that
tests start; the time that the clock tells is as ever. What fails then has counted on a pace.
"""

from __future__ import annotations

import os

from app.runtime.clock import SystemClock

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
