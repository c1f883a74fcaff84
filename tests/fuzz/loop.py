"""The event loop of checks that need one. It stays open from check to check, because making one takes longer."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Coroutine
from typing import Any, TypeVar

_RUNNER = asyncio.Runner()
atexit.register(_RUNNER.close)

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end, and return its result."""
    return _RUNNER.run(work)
