"""Names that hang: who waits for them, and who does not."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from app.bindings.http import HttpMessage
from app.sinks.dns import ThreadLookup
from app.sinks.http_client import HttpClient
from waiting import until
from webhook_target import WebhookTarget

LOOPBACK = ("127.0.0.0/8",)
HERE = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]
EMPTY = HttpMessage.of((), b"")


class HangingNames:
    """A resolver of the system that does not answer before ``release``."""

    def __init__(self) -> None:
        self._hosts: list[str] = []
        self._gate = threading.Event()

    def __call__(self, host, port, **_):
        self._hosts.append(host)
        assert self._gate.wait(120)
        return HERE

    @property
    def asked(self):
        return len(self._hosts)

    def release(self):
        self._gate.set()


@pytest.fixture
def hanging():
    names = HangingNames()
    yield names
    names.release()


async def test_names_are_looked_up_by_the_system():
    assert "127.0.0.1" in await ThreadLookup().resolve("localhost")


@pytest.mark.parametrize("error", [socket.gaierror(-2, "unknown"), UnicodeError("label too long")])
async def test_a_name_that_there_is_none_of_is_an_error_of_the_network(error):
    """Whatever the system's resolver raises, the sink calls it dns and does not die of it."""

    def fails(*_, **__):
        raise error

    with pytest.raises(OSError, match=str(error.args[-1])):
        await ThreadLookup(fails).resolve("nowhere.example")


async def test_a_hanging_name_leaves_the_threads_of_the_process_alone(hanging):
    """The loop's executor is everybody's: with its threads all hanging in DNS, no other sink, no
    store and no log would get one."""
    lookups = [asyncio.create_task(ThreadLookup(hanging).resolve("a.example")) for _ in range(64)]
    await until(lambda: hanging.asked == 64)
    assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 60) == 1
    hanging.release()
    assert len(await asyncio.gather(*lookups)) == 64


async def test_one_sink_hangs_in_few_threads(hanging):
    """However many attempts are made meanwhile: a slot is free when its thread is, not when its caller
    has gone."""
    lookup = ThreadLookup(hanging, most=2)
    waiting = [asyncio.create_task(lookup.resolve(f"{n}.example")) for n in range(5)]
    await until(lambda: hanging.asked == 2)
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting)
    late = asyncio.create_task(lookup.resolve("late.example"))
    await asyncio.sleep(0)
    assert hanging.asked == 2
    hanging.release()
    assert await late == ["127.0.0.1"]


async def test_hanging_names_of_one_target_do_not_time_out_another(hanging):
    """Each sink has a look-up of its own: the neighbour is delivered while the first waits for DNS."""
    target = WebhookTarget()
    await target.start()
    stuck = HttpClient(allow_private=LOOPBACK, lookup=ThreadLookup(hanging), dns_timeout=60.0)
    other = HttpClient(allow_private=("localhost", *LOOPBACK), dns_timeout=30.0)
    try:
        attempts = [
            asyncio.create_task(stuck.post(f"https://{n}.example/", EMPTY, 120.0))
            for n in range(40)
        ]
        await until(lambda: hanging.asked == 4)
        answer = await other.post(f"http://localhost:{target.port}/hook", EMPTY, 60.0)
        assert answer.status == 204
        for each in attempts:
            each.cancel()
        await asyncio.wait(attempts)
    finally:
        await stuck.stop()
        await other.stop()
        await target.stop()
