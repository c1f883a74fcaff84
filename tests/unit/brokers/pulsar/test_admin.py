"""A new topic is made when its partitions can be asked for, whatever the broker answers until then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from app.brokers.pulsar import PulsarSettings, admin
from app.brokers.pulsar.admin import Admin
from app.brokers.pulsar.errors import AdminError

_LEDGERS = b'{"lastConfirmedEntry":"1:-1","ledgers":[{"ledgerId":1}],"cursors":{}}'
_STARTS = 3  # questions that a broker without a bookie cannot answer


class Broker(ThreadingHTTPServer):
    """Says of a topic's ledgers what ``told`` gives for the number of the question."""

    def __init__(self, told: Callable[[int], tuple[int, bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.told, self.asked = told, 0


class _Handler(BaseHTTPRequestHandler):
    server: Broker

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer(204, b"")

    def do_GET(self) -> None:
        if self.path.endswith("/partitions"):
            self._answer(200, b'{"partitions":1}')
            return
        self.server.asked += 1
        self._answer(*self.server.told(self.server.asked))

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    server = Broker(request.param)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def _looking_for_a_bookie(asked: int) -> tuple[int, bytes]:
    return (500, b'{"reason":"no bookie"}') if asked <= _STARTS else (200, _LEDGERS)


async def _made(broker: Broker) -> None:
    url = f"http://127.0.0.1:{broker.server_address[1]}"
    asking = Admin(PulsarSettings(name="main", service_url="pulsar://h:6650", admin_url=url))
    try:
        await asking.create_topic("orders", 1)
    finally:
        await asking.stop()


@pytest.mark.parametrize("broker", [_looking_for_a_bookie], indirect=True)
async def test_a_broker_that_looks_for_a_bookie_is_waited_for(broker: Broker) -> None:
    await _made(broker)
    assert broker.asked == _STARTS + 1


@pytest.mark.parametrize("broker", [lambda _: (500, b'{"reason":"no bookie"}')], indirect=True)
async def test_one_that_finds_none_is_told_in_its_words(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "MADE_WITHIN", 0.3)
    with pytest.raises(AdminError, match="no bookie") as refused:
        await _made(broker)
    assert refused.value.status == 500
    assert broker.asked > 1


@pytest.mark.parametrize("broker", [lambda _: (401, b'{"reason":"who?"}')], indirect=True)
async def test_what_time_does_not_mend_is_told_at_once(broker: Broker) -> None:
    with pytest.raises(AdminError, match="who"):
        await _made(broker)
    assert broker.asked == 1
