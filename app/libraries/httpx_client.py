"""Import httpx without its own command line, which would load rich and pygments.

================ =================================================================================================
undocumented     gain
================ =================================================================================================
``httpx._main``  220 ms of CPU in each command that asks a service (122 against 343 ms for the import alone)
================ =================================================================================================

The public alternative is a plain ``import httpx``. The command line is hidden only while httpx is imported. A
version without ``httpx._main`` works too, and is only slower to import.
"""

from __future__ import annotations

import sys

_COMMAND_LINE = "httpx._main"

if "httpx" not in sys.modules:
    sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]  # makes the import fail, which httpx expects

import httpx  # noqa: E402

if sys.modules.get(_COMMAND_LINE, httpx) is None:
    del sys.modules[_COMMAND_LINE]

__all__ = ["httpx"]
