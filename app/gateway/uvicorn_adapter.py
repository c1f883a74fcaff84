"""The adapter to uvicorn's HTTP protocol, which is the base class of the listeners' connections
(ADR 0046).

======================= ============================================================================================
undocumented            gain, and the public alternative
======================= ============================================================================================
``HttpToolsProtocol``   the fast path: an event is read and answered before an ASGI scope is built (ADR 0002; figures
                        in ADR 0046). An ASGI application: uvicorn's own protocol also has few bounds.
``_start_asgi_task``    correctness: answers leave in the order of the requests, fast ones between ASGI ones. None.
======================= ============================================================================================

To support another version of uvicorn, run ``tests/e2e/test_listener*.py`` and
``tests/unit/gateway`` with it, then add it to ``KNOWN``. If a version lacks a part that is used
here, no listener starts, because the bounds depend on it.
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
    """An ASGI request and its answer, with the members that a connection uses."""

    disconnected: bool
    keep_alive: bool
    response_started: bool
    response_complete: bool
    message_event: asyncio.Event


class AsgiProtocol(HttpToolsProtocol, abc.ABC):
    """A connection of uvicorn that lets the request queue decide when an ASGI request begins."""

    @abc.abstractmethod
    def asgi_ready(self, cycle: AsgiCycle, app: Any) -> None:
        """Take an ASGI request whose head is complete. Call ``begin_asgi`` later to run the request."""

    def begin_asgi(self, cycle: Any, app: Any) -> None:
        super()._start_asgi_task(cycle, app)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self.asgi_ready(cycle, app)


def demand_known_uvicorn() -> None:
    """Raise SetupError if uvicorn has an unknown version, or lacks a part that Skybridge uses."""
    demand("uvicorn", KNOWN, "app/gateway/uvicorn_adapter.py")
    if found := differences():
        raise SetupError(
            f"uvicorn is incompatible with the listeners: {'; '.join(found)}",
            cure=f"install uvicorn {' or '.join(KNOWN)}",
        )


def differences() -> list[str]:
    """Return the differences between the installed uvicorn and the expected one, one sentence each.
    The list is empty if there are none.
    """
    found = _missing(HttpToolsProtocol, _METHODS)
    found += _missing(Server, _SERVER_METHODS)
    found += _unset_fields(HttpToolsProtocol, _FIELDS | _CYCLE_FIELDS)
    found += _missing(httptools.HttpRequestParser, frozenset({"set_dangerous_leniencies"}))
    return found


def _missing(kind: type, names: frozenset[str]) -> list[str]:
    return [f"{kind.__name__} has no {name}" for name in sorted(names) if not hasattr(kind, name)]


def _unset_fields(kind: type, names: frozenset[str]) -> list[str]:
    """Return the fields that no code in the module of ``kind`` sets. The text of the whole module is
    searched, which is faster than parsing one class.
    """
    source = inspect.getsource(sys.modules[kind.__module__])
    return [
        f"the module of {kind.__name__} sets no {name}"
        for name in sorted(names)
        if f"self.{name} = " not in source and f"self.{name}: " not in source
    ]
