"""uvicorn's protocol for ASGI requests, as the base of our own (ADR 0046).

======================= ============================================================================================
undocumented            gain, and the public alternative
======================= ============================================================================================
``HttpToolsProtocol``   the hot path: an event is read and answered before an ASGI scope is built (ADR 0002; figures in
                        ADR 0046). An ASGI application: uvicorn's own protocol also has few bounds.
``_start_asgi_task``    correctness: answers leave in the order of the requests, hot ones between ASGI ones. None.
======================= ============================================================================================

For another version of uvicorn: run ``tests/e2e/test_listener*.py`` and ``tests/unit/gateway`` with it, then name it
in ``KNOWN``. Where a version lacks what is used here, no listener starts: the bounds are in our protocol.
"""

from __future__ import annotations

import abc
import asyncio
import inspect
import sys
from typing import Any, Protocol

import httptools
from uvicorn import Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.errors import SetupError
from app.libraries.versions import demand

KNOWN = ("0.53", "0.54")

_METHODS = frozenset({
    "connection_made", "connection_lost", "eof_received", "data_received",
    "on_message_begin", "on_url", "on_header", "on_headers_complete", "on_body",
    "on_message_complete", "on_response_complete", "shutdown", "pause_writing", "resume_writing",
    "_start_asgi_task",
})  # fmt: skip
_FIELDS = frozenset({"parser", "transport", "flow", "cycle", "headers", "url"})
_CYCLE_FIELDS = frozenset({"disconnected", "keep_alive", "response_started", "message_event"})
_SERVER_METHODS = frozenset({"startup", "on_tick"})


class AsgiCycle(Protocol):
    """A request of the ASGI way and its answer, as far as a connection looks at it."""

    disconnected: bool
    keep_alive: bool
    response_started: bool
    response_complete: bool
    message_event: asyncio.Event


class AsgiProtocol(HttpToolsProtocol, abc.ABC):
    """A connection of uvicorn that says when an ASGI request could begin, and begins it when it is told to."""

    @abc.abstractmethod
    def asgi_ready(self, cycle: AsgiCycle, app: Any) -> None:
        """Take a request whose head is whole. ``begin_asgi`` runs it."""

    def begin_asgi(self, cycle: Any, app: Any) -> None:
        super()._start_asgi_task(cycle, app)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self.asgi_ready(cycle, app)


def demand_known_uvicorn() -> None:
    """Raise SetupError for a uvicorn of another version, or one that lacks what is used of it."""
    demand("uvicorn", KNOWN, "app/gateway/uvicorn_adapter.py")
    if found := differences():
        raise SetupError(
            f"uvicorn is incompatible with the listeners: {'; '.join(found)}",
            cure=f"install uvicorn {' or '.join(KNOWN)}",
        )


def differences() -> list[str]:
    """Return what is not as expected, one sentence each; empty when all is well."""
    found = _missing(HttpToolsProtocol, _METHODS)
    found += _missing(Server, _SERVER_METHODS)
    found += _unset(HttpToolsProtocol, _FIELDS | _CYCLE_FIELDS)
    found += _missing(httptools.HttpRequestParser, frozenset({"set_dangerous_leniencies"}))
    return found


def _missing(kind: type, names: frozenset[str]) -> list[str]:
    return [f"{kind.__name__} has no {name}" for name in sorted(names) if not hasattr(kind, name)]


def _unset(kind: type, names: frozenset[str]) -> list[str]:
    """Return the fields that nothing in the module of ``kind`` sets: to read one class, ``inspect`` would parse it."""
    source = inspect.getsource(sys.modules[kind.__module__])
    return [
        f"the module of {kind.__name__} sets no {name}"
        for name in sorted(names)
        if f"self.{name} = " not in source and f"self.{name}: " not in source
    ]
