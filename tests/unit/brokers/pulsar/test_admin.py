"""A new topic is made when its partitions can be asked for, whatever the broker answers until then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from app.brokers.pulsar import PulsarSettings, admin
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.errors import AdminError
from threaded_http import QuietHandler, ThreadedServer

_LEDGERS = b'{"lastConfirmedEntry":"1:-1","ledgers":[{"ledgerId":1}],"cursors":{}}'
NO_JSON = (
    b"[" * 200_000,
    b'{"lastConfirmedEntry":"\xff"}',
    b"no",
)  # each raises an error of another class
_STARTS = 3  # questions that a broker without a bookie cannot answer


class Broker(ThreadedServer):
    """Says of a topic's ledgers what ``told`` gives for the number of the question."""

    def __init__(self, told: Callable[[int], tuple[int, bytes]]) -> None:
        super().__init__(_Handler)
        self.told, self.asked = told, 0


class _Handler(QuietHandler):
    server: Broker

    def put(self) -> None:
        self.body()
        self.answer(204)

    def get(self) -> None:
        if self.path.endswith("/partitions"):
            self.answer(200, b'{"partitions":1}')
            return
        self.server.asked += 1
        self.answer(*self.server.told(self.server.asked))


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(request.param) as server:
        yield server


def _looking_for_a_bookie(asked: int) -> tuple[int, bytes]:
    return (500, b'{"reason":"no bookie"}') if asked <= _STARTS else (200, _LEDGERS)


async def _made(broker: Broker) -> None:
    settings = PulsarSettings(name="main", service_url="pulsar://h:6650", admin_url=broker.address)
    asking = PulsarAdmin(settings)
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


@pytest.mark.parametrize("broker", [lambda _: (401, b"[" * 200_000)], indirect=True)
async def test_a_refusal_that_is_nested_without_end_is_told_by_its_status(broker: Broker) -> None:
    with pytest.raises(AdminError) as refused:
        await _made(broker)
    assert refused.value.status == 401


@pytest.mark.parametrize("body", NO_JSON)
async def test_an_answer_that_is_no_json_is_a_fault_of_the_broker(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "MADE_WITHIN", 0.0)
    with Broker(lambda _: (200, body)) as broker, pytest.raises(AdminError) as refused:
        await _made(broker)
    assert refused.value.status == 502
