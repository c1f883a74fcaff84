"""A cluster of several brokers, of which some do not answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence

import pytest

from app.brokers.pulsar import PulsarSettings
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.errors import AdminError
from app.libraries.httpx_client import httpx
from threaded_http import QuietHandler, ThreadedServer


class Broker(ThreadedServer):
    """A broker that answers all questions with ``status``.

    Attributes:
        owner: The address of the broker to which all questions are redirected, or "".
        token: The login that it demands, or "".
        asked: The count of questions.
    """

    status, owner, token, asked = 200, "", "", 0

    def __init__(self) -> None:
        super().__init__(_Handler)


class _Handler(QuietHandler):
    server: Broker

    def get(self) -> None:
        self.server.asked += 1
        if self.server.owner:
            self.send_response(307)
            self.send_header("location", self.server.owner + self.path)
            self.send_header("content-length", "0")
            self.end_headers()
        elif self.server.token and self.headers["authorization"] != f"Bearer {self.server.token}":
            self.answer(401)
        else:
            self.answer(self.server.status, b'{"partitions":4}')


@pytest.fixture
def brokers() -> Iterator[Sequence[Broker]]:
    with Broker() as one, Broker() as other:
        yield one, other


@pytest.fixture
def silent() -> Iterator[str]:
    """A host that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


async def partitions(*hosts: str, times: int = 1, token: str | None = None) -> int | None:
    hosts_of_url = ",".join(each.removeprefix("http://") for each in hosts)
    settings = PulsarSettings(
        name="main",
        service_url="pulsar://h:6650",
        admin_url=f"http://{hosts_of_url}",
        token=token,
        operation_timeout=0.2,
    )
    admin = PulsarAdmin(settings)
    try:
        for _ in range(times - 1):
            await admin.partitions("orders")
        return await admin.partitions("orders")
    finally:
        await admin.stop()


async def test_a_broker_that_does_not_answer_is_followed_by_the_next(
    brokers: Sequence[Broker], silent: str
) -> None:
    """Workers delivered nothing while the one broker that they asked was away."""
    assert await partitions(silent, brokers[0].address, times=3) == 4
    assert brokers[0].asked == 3


async def test_the_broker_that_answered_last_is_asked_first(brokers: Sequence[Broker]) -> None:
    """A broker that has lost the metadata of the cluster answers with 5xx."""
    brokers[0].status = 503
    assert await partitions(*(each.address for each in brokers), times=3) == 4
    assert [each.asked for each in brokers] == [1, 3]


async def test_without_any_answer_the_last_fault_is_raised(
    brokers: Sequence[Broker], silent: str
) -> None:
    with pytest.raises(httpx.TimeoutException):
        await partitions(silent)
    brokers[0].status = 500
    with pytest.raises(AdminError):
        await partitions(silent, brokers[0].address)


async def test_the_broker_that_serves_a_topic_gets_the_login_too(brokers: Sequence[Broker]) -> None:
    """httpx drops the login when a request is redirected to another host."""
    first, owner = brokers
    first.owner, owner.token = owner.address, "abc"
    assert await partitions(first.address, token="abc") == 4
