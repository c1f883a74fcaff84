"""Start, drain and stop of the listener (rule 11, reliability R14, G6)."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
import weakref

import pytest

from app.errors import SetupError
from app.gateway import uvicorn_adapter
from app.gateway.resource import EventsResource
from app.gateway.server import EventsServer
from app.gateway.timeouts import Phase
from app.telemetry import Counters
from listening import HeldPublisher, ImmediatePublisher, connection_of, listening
from raw_http import PeerClosed, RawConnection, event, request
from waiting import until


async def test_start_returns_when_the_port_is_open_and_tells_it() -> None:
    async with listening(ImmediatePublisher()) as server:
        assert server.port > 0
        async with await RawConnection.open(server.port) as peer:
            await peer.send(event(1))
            assert (await peer.answer()).status == 202


async def test_a_port_in_use_names_the_setting_and_the_cure() -> None:
    """uvicorn would end the process with a bare exit code."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = EventsServer(ImmediatePublisher(), Counters(), port=port)
        with pytest.raises(SetupError, match=rf"server\.events\.port.*{port}.*free port"):
            await server.start()
        await server.stop()


async def test_stop_waits_for_every_answer_that_is_due_and_closes_behind_the_last() -> None:
    """G6: no connection is cut while its answer is due; only the last one says close."""
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        await peer.send(event(1), event(2), event(3))
        await held.holds(3)
        stopping = asyncio.create_task(server.stop(drain=60))
        await asyncio.sleep(0.3)
        assert not stopping.done()

        held.release(2, 3, 1)
        answers = await peer.answers(3)
        await stopping

        assert [answer.body for answer in answers] == [b"1", b"2", b"3"]
        assert [answer.headers.get("connection") for answer in answers] == [None, None, "close"]
        assert await peer.closed() == b""


async def test_stop_waits_for_an_ordinary_request_behind_a_hot_one() -> None:
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        await peer.send(event(1), request("/nowhere", method="GET", length=False))
        await held.holds(1)
        stopping = asyncio.create_task(server.stop(drain=60))
        await asyncio.sleep(0.15)
        held.release(1)
        answers = await peer.answers(2)
        await stopping

    assert [answer.status for answer in answers] == [200, 404]
    assert answers[1].headers["connection"] == "close"


async def test_a_request_that_has_begun_to_arrive_is_served_before_the_end() -> None:
    """Its sender cannot know that the server goes; cutting it would look like a crash."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        whole = event(1, b"body")
        await peer.send(whole[:30])
        await until(lambda: server.connections == 1)
        connection = connection_of(server)
        await until(lambda: connection._phase is Phase.HEAD)  # it has begun to arrive
        stopping = asyncio.create_task(server.stop(drain=60))
        await asyncio.sleep(0.15)
        await peer.send(whole[30:])

        answer = await peer.answer()
        await stopping

    assert (answer.status, answer.headers["connection"]) == (202, "close")
    assert publisher.ids == ["1"]


async def test_a_request_that_arrives_while_draining_is_answered_with_close() -> None:
    """A keep-alive sender may have written just before it could learn of the drain."""
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        await peer.send(event(1))
        await held.holds(1)
        stopping = asyncio.create_task(server.stop(drain=60))
        await asyncio.sleep(0.05)
        await peer.send(event(2))
        await held.holds(2)
        held.release(2, 1)

        answers = await peer.answers(2)
        await stopping

    assert [answer.headers.get("connection") for answer in answers] == [None, "close"]


async def test_idle_connections_are_closed_at_once_and_new_ones_refused() -> None:
    async with listening(ImmediatePublisher()) as server:
        peer = await RawConnection.open(server.port)
        await peer.send(event(1))
        await peer.answer()
        began = time.monotonic()
        await server.stop(drain=60)
        assert time.monotonic() - began < 30, "it waited for its drain"
        assert await peer.closed() == b""
        with pytest.raises(ConnectionRefusedError):
            await RawConnection.open(server.port)
        await peer.close()


async def test_stop_ends_within_its_drain_though_a_request_never_does() -> None:
    """Without a bound a pod is killed by its platform instead (reliability 4.2)."""
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        await peer.send(event(1))
        await held.holds(1)
        began = time.monotonic()
        await server.stop(drain=0.2)
        assert 0.2 <= time.monotonic() - began < 30, "waited for the answer, then cut"
        with pytest.raises(PeerClosed):
            await peer.answer()
        held.release(1)


async def test_nobody_handled_stays_unanswered_through_restarts_under_load() -> None:
    """R14 in short: whatever was published was answered, over 5 stops in full traffic."""
    for _ in range(5):
        publisher = _Soon()
        async with listening(publisher) as server:
            posts = [asyncio.create_task(_post_until_closed(server.port, n)) for n in range(16)]
            await until(lambda publisher=publisher: len(publisher.requests) > 200)
            await server.stop(drain=60)
            answered = sum(await asyncio.gather(*posts))
        assert answered == len(publisher.requests)


async def test_start_and_stop_leave_no_task_and_no_signal_handler() -> None:
    """runtime owns the signals; what the listener starts it ends."""
    import signal

    before = asyncio.all_tasks()
    handlers = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with listening(ImmediatePublisher(), date_header=True):
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == handlers
    assert asyncio.all_tasks() == before


async def test_the_date_header_is_a_switch() -> None:
    async with (
        listening(ImmediatePublisher(), date_header=True) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(event(1), request("/nowhere", method="GET", length=False))
        answers = await peer.answers(2)
    assert all(answer.headers["date"].endswith("GMT") for answer in answers)
    assert all("server" not in answer.headers for answer in answers)


async def test_an_unknown_uvicorn_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own protocol has few bounds: a listener without ours would be open to whoever wants its memory."""
    monkeypatch.setattr(uvicorn_adapter, "KNOWN", ("0.0.1",))
    with pytest.raises(
        SetupError,
        match=r"uvicorn .* is not known to this release.*Cure: install uvicorn 0\.0\.1",
    ):
        await EventsServer(ImmediatePublisher(), Counters(), port=0).start()


async def test_a_fault_of_ours_is_a_500_and_the_connection_lives_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A sender is owed an answer whatever went wrong; silence would be a hang (G5)."""

    class Broken(ImmediatePublisher):
        def publish(self, request, done):
            if request.named[b"ce-id"] == b"1":
                raise ZeroDivisionError
            return super().publish(request, done)

    async with listening(Broken()) as server, await RawConnection.open(server.port) as peer:
        await peer.send(event(1), event(2))
        assert [answer.status for answer in await peer.answers(2)] == [500, 202]
    assert "ZeroDivisionError" in caplog.text


async def test_a_fault_of_ours_between_the_bytes_is_a_500_too(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self, headers, named, *, expects):
        raise ZeroDivisionError

    monkeypatch.setattr(EventsResource, "refuse_head", broken)
    async with (
        listening(ImmediatePublisher()) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(event(1))
        assert (await peer.answer()).status == 500
        assert await peer.closed() == b""
    assert "ZeroDivisionError" in caplog.text


class _Soon(ImmediatePublisher):
    """Answers a few turns of the loop later."""

    def publish(self, request, done):
        answer = super().publish(request, done)
        asyncio.get_running_loop().call_later(0.002, done, answer)


async def _post_until_closed(port: int, number: int) -> int:
    answered = 0
    async with await RawConnection.open(port) as peer:
        try:
            while True:
                await peer.send(event(f"{number}-{answered}"))
                await peer.answer()
                answered += 1
        except (PeerClosed, ConnectionError):
            return answered


@pytest.mark.parametrize(
    "sent", [event(1), request("/nowhere", method="GET"), b"no HTTP\r\n\r\n", b""],
    ids=["event", "ordinary", "malformed", "nothing"],
)  # fmt: skip
async def test_a_closed_connection_is_gone_without_the_garbage_collector(sent: bytes) -> None:
    """It runs seldom in a service: clients that connect for each event would fill the memory until then."""
    async with listening(ImmediatePublisher()) as server:
        gc.disable()
        try:
            async with await RawConnection.open(server.port) as peer:
                await until(lambda: server.connections, "a connection")
                connection = weakref.ref(connection_of(server))
                if sent:
                    await peer.send(sent)
                    await peer.answer()
            await until(lambda: connection() is None, "the end of the connection in memory")
        finally:
            gc.enable()
