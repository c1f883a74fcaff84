"""Opens the port of a listener, or says which setting of its address is wrong."""

from __future__ import annotations

import errno
import os
import socket

from app.errors import SetupError

BACKLOG = 2048
_ABOUT_THE_PORT = frozenset({errno.EADDRINUSE, errno.EACCES})


def open_port(host: str, port: int, settings: str, *, shared: bool = False) -> socket.socket:
    """Listens already; ``port`` 0 takes a free one. ``settings`` has ``{}`` where ``host`` or
    ``port`` stands in the name of the setting: ``server.events.{}``. ``shared``: other processes of this
    user may listen on it too, and the system spreads connections over them (SO_REUSEPORT). Raises
    SetupError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()  # all addresses, as 0.0.0.0 suggests
    try:
        return socket.create_server(
            (host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both, reuse_port=shared
        )
    except OSError as failure:
        raise _refusal(host, port, settings, failure) from failure


def _refusal(host: str, port: int, settings: str, failure: OSError) -> SetupError:
    about_port = failure.errno in _ABOUT_THE_PORT
    is_name = isinstance(failure, socket.gaierror)
    reason = failure.strerror if is_name else os.strerror(failure.errno or errno.EINVAL)
    return SetupError(
        f"cannot listen on {host}:{port}: {reason}",
        setting=settings.format("port" if about_port else "host"),
        cure=(
            "choose a free port, or stop what uses it"
            if about_port
            else "name an address of this machine, or 0.0.0.0 for all"
        ),
    )
