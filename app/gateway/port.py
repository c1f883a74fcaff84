"""Open the port of a listener. An error names the wrong setting, which is the host or the port."""

from __future__ import annotations

import errno
import os
import secrets
import socket
from ipaddress import ip_address
from pathlib import Path

from app.errors import SetupError

BACKLOG = 2048
LOOPBACK = "127.0.0.1"
_MARK = "skybridge/port/"
_ABOUT_THE_PORT = frozenset({errno.EADDRINUSE, errno.EACCES})


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a listener on this address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def open_port(host: str, port: int, settings: str, *, shared: bool = False) -> socket.socket:
    """Return a listening socket. Raise SetupError if the address cannot be used.

    Args:
        host: the address.
        port: the port; 0 takes a free one.
        settings: the name of the setting with ``{}`` for ``host`` or ``port``, such as
            ``server.events.{}``.
        shared: whether other processes of this user may listen on the port, too (SO_REUSEPORT). The
            system spreads connections over them. Call ``share_port`` first.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()  # all addresses, as 0.0.0.0 suggests
    try:
        return socket.create_server(
            (host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both, reuse_port=shared
        )
    except OSError as failure:
        raise _refusal(host, port, settings, failure) from failure
    except UnicodeError as failure:  # a label of the name is empty or longer than 63 characters
        raise _bad_host(host, port, settings, "the value is no name of a host") from failure


def share_port(port: int, installation: str) -> socket.socket:
    """Reserve ``port`` for this installation until the returned socket is closed. Raise SetupError
    if another installation has it.

    Without the reservation, two installations of one user could share a port unnoticed through SO_REUSEPORT,
    and each would get half of the other's events. The reservation is an abstract socket address in this
    network namespace (Linux). It ends with the process.
    """
    mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    mark.bind(f"\0{_MARK}{port}/{installation}/{secrets.token_hex(8)}")
    if others := sorted(_installations_at(port) - {installation}):
        mark.close()
        raise SetupError(
            f"installation {others[0]} listens on port {port}",
            setting="server.events.port",
            cure="choose another port; gateways that share a port need the same installation",
        )
    return mark


def _installations_at(port: int) -> set[str]:
    start = f"@{_MARK}{port}/"
    lines = Path("/proc/net/unix").read_text().splitlines()
    marks = [line.rpartition(" ")[2] for line in lines]
    return {mark.removeprefix(start).partition("/")[0] for mark in marks if mark.startswith(start)}


def _refusal(host: str, port: int, settings: str, failure: OSError) -> SetupError:
    about_port = failure.errno in _ABOUT_THE_PORT
    is_name = isinstance(failure, socket.gaierror)
    reason = failure.strerror if is_name else os.strerror(failure.errno or errno.EINVAL)
    if not about_port:
        return _bad_host(host, port, settings, str(reason))
    return SetupError(
        f"cannot listen on {host}:{port}: {reason}",
        setting=settings.format("port"),
        cure="choose a free port, or stop what uses it",
    )


def _bad_host(host: str, port: int, settings: str, reason: str) -> SetupError:
    return SetupError(
        f"cannot listen on {host}:{port}: {reason}",
        setting=settings.format("host"),
        cure="name an address of this machine, or 0.0.0.0 for all",
    )
