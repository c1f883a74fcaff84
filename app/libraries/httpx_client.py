"""httpx without its own command line, which it imports where it can: rich and pygments with it.

================ =================================================================================================
undocumented     gain
================ =================================================================================================
``httpx._main``  220 ms of CPU of each command that asks a service (122 against 343 ms for the import alone)
================ =================================================================================================

The public alternative is a plain ``import httpx``. Nothing stays patched: the command line is out of reach while
httpx is imported, and then no more. A version without ``httpx._main`` needs no cure: it is only slower to import.
"""

from __future__ import annotations

import sys

_COMMAND_LINE = "httpx._main"

if "httpx" not in sys.modules:
    sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]  # an ImportError, which httpx expects

import httpx  # noqa: E402

if sys.modules.get(_COMMAND_LINE, httpx) is None:
    del sys.modules[_COMMAND_LINE]

__all__ = ["httpx"]
