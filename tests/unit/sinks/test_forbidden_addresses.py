"""The whole set against listeners on loopback, where a machine gives no network of one's own.

``tests/e2e/test_address_guard.py`` is the whole proof; this one runs everywhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from app.bindings.http import HttpMessage
from app.delivery.address_guard import allowed
from app.features.tokens import ask_through
from app.sinks.http_client import HttpClient
from forbidden_addresses import ADDRESSES, CONFUSIONS, FAMILIES
from free_ports import free_ports
from webhook_target import WebhookTarget

EVENT = HttpMessage.of((("ce-id", "1"),), b"{}")
LOOPBACK = ("127.0.0.1", "127.0.0.2", "127.255.255.254", "::1")


class ToLoopback:
    """Every name is this machine."""

    async def resolve(self, host: str) -> Sequence[str]:
        return LOOPBACK


@pytest.fixture
async def listeners() -> AsyncIterator[list[WebhookTarget]]:
    """One port on each of the addresses; none that the system may give to a connection of another test."""
    (port,) = free_ports(1)
    found: list[WebhookTarget] = []
    for host in LOOPBACK:
        target = WebhookTarget()
        target.port = port
        await target.start(host=host)
        found.append(target)
    yield found
    for target in found:
        await target.stop()


@pytest.fixture
async def poster() -> AsyncIterator[HttpClient]:
    poster = HttpClient(lookup=ToLoopback())
    yield poster
    await poster.stop()


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_verdict_on_each_address(address: str) -> None:
    for plain in (False, True):
        assert not allowed(address, "innocent.example", (), plain=plain)


@pytest.mark.parametrize("family", FAMILIES)
async def test_nobody_is_called(
    listeners: list[WebhookTarget], poster: HttpClient, family: str
) -> None:
    port = listeners[0].port
    for host in FAMILIES[family].hosts:
        refused = (
            "bad-request" if "%6c" in host else "blocked-address"
        )  # no name has a percent code
        for scheme in ("https", "http"):
            url = f"{scheme}://{host}:{port}/"
            assert (await poster.post(url, EVENT, 2.0)).fault == refused, url
            answer, _ = await poster.ask(url, EVENT, 2.0)
            assert answer.fault == refused, url
            with pytest.raises(OSError, match=refused):
                await ask_through(poster)(url, {}, ("id", "secret"), 2.0)
    assert [target.connections for target in listeners] == [0] * len(listeners)


@pytest.mark.parametrize("about", CONFUSIONS)
async def test_nor_by_a_url_that_is_read_in_two_ways(
    listeners: list[WebhookTarget], poster: HttpClient, about: str
) -> None:
    answer = await poster.post(CONFUSIONS[about], EVENT, 2.0)
    assert answer.fault in {"blocked-address", "bad-request"}
    assert [target.connections for target in listeners] == [0] * len(listeners)


async def test_credentials_in_a_url_are_neither_sent_nor_told(poster: HttpClient) -> None:
    """They would be in every log."""
    answer = await poster.post("https://user:canary@public.example/", EVENT, 2.0)
    assert (answer.status, answer.fault) == (None, "bad-request")
    assert "canary" not in answer.detail
