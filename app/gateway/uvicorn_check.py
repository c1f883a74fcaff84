"""Whether uvicorn is as ``httptools_protocol`` knows it. Asked once, at start.

Where it is not, no listener starts: the bounds are in our protocol, and uvicorn's own has few.
"""

from __future__ import annotations

import inspect
import sys

import httptools
import uvicorn
from uvicorn.protocols.http import flow_control, httptools_impl
from uvicorn.server import Server, ServerState

from app.errors import SetupError

KNOWN_VERSIONS = frozenset({"0.54.0"})

_METHODS = frozenset({
    "connection_made", "connection_lost", "eof_received", "data_received",
    "on_message_begin", "on_url", "on_header", "on_headers_complete", "on_body",
    "on_message_complete", "on_response_complete", "shutdown", "pause_writing", "resume_writing",
    "_start_asgi_task",
})  # fmt: skip
_CYCLE_FIELDS = frozenset({"disconnected", "keep_alive", "response_started", "message_event"})
_FLOW_METHODS = frozenset({"pause_reading", "resume_reading", "pause_writing", "resume_writing"})
_STATE_FIELDS = frozenset({"total_requests", "connections", "tasks", "default_headers"})
_SERVER_METHODS = frozenset({"startup", "on_tick"})


def demand_known_uvicorn() -> None:
    """Raises SetupError where it is another one."""
    if found := differences():
        raise SetupError(
            f"uvicorn is incompatible with the listeners: {'; '.join(found)}",
            cure=f"install uvicorn {', '.join(sorted(KNOWN_VERSIONS))}, the versions of this release",
        )


def differences() -> list[str]:
    """What is not as expected, one sentence each; empty when all is well."""
    protocol = httptools_impl.HttpToolsProtocol
    found = [] if uvicorn.__version__ in KNOWN_VERSIONS else [f"uvicorn is {uvicorn.__version__}"]
    found += _missing(protocol, _METHODS)
    found += _missing(flow_control.FlowControl, _FLOW_METHODS)
    found += _missing(Server, _SERVER_METHODS)
    found += _missing(ServerState(), _STATE_FIELDS)
    found += _unset(httptools_impl.RequestResponseCycle, _CYCLE_FIELDS)
    found += _unset(protocol, frozenset({"parser", "transport", "flow", "cycle", "headers", "url"}))
    found += _missing(httptools.HttpRequestParser, frozenset({"set_dangerous_leniencies"}))
    return found


def _missing(thing: object, names: frozenset[str]) -> list[str]:
    shown = getattr(thing, "__name__", type(thing).__name__)
    return [f"{shown} has no {name}" for name in sorted(names) if not hasattr(thing, name)]


def _source_of(module: str) -> str:
    """Of the whole module: to find the part of a class, ``inspect`` would parse it."""
    return inspect.getsource(sys.modules[module])


def _unset(kind: type, names: frozenset[str]) -> list[str]:
    """Fields that no method of ``kind`` sets."""
    source = _source_of(kind.__module__)
    return [
        f"{kind.__name__} sets no {name}"
        for name in sorted(names)
        if f"self.{name} = " not in source and f"self.{name}: " not in source
    ]
