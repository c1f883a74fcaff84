"""The port of a listener: which setting is wrong when it does not open."""

from __future__ import annotations

import socket

import pytest

from app.errors import SetupError
from app.gateway.port import open_port, share_port


def test_a_taken_port_is_said_of_the_port_without_the_systems_own_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SetupError) as refused:
            open_port("127.0.0.1", port, "server.events.{}")
    assert refused.value.setting == "server.events.port"
    assert refused.value.args[0] == f"cannot listen on 127.0.0.1:{port}: Address already in use"


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_here_is_said_of_the_host(host: str) -> None:
    """Another port would not cure it."""
    with pytest.raises(SetupError, match=r"^server\.events\.host: .*Cure: name an address"):
        open_port(host, 0, "server.events.{}")


def test_every_address_is_of_both_families_where_the_machine_has_both() -> None:
    every = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    with open_port(every, 0, "{}") as opened:
        port = opened.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=30).close()


@pytest.mark.skipif("sys.platform != 'linux'")
def test_a_port_is_shared_within_an_installation_and_with_no_other() -> None:
    """SO_REUSEPORT asks for the same user alone."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with share_port(port, "shop"), share_port(port, "shop"):
        with pytest.raises(SetupError, match=f"installation shop listens on port {port}"):
            share_port(port, "shop-2")
        share_port(port + 1, "shop-2").close()
    share_port(port, "shop-2").close()
