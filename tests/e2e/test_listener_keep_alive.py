"""After ``limits.keep_alive_requests`` answers a connection ends, so that senders find new pods.

The last answer says ``Connection: close`` (RFC 9112 9.6). A sender that pipelines has sent more by
then, and would have to repeat it. So a connection whose requests overlap does not end.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable, Sequence

import pytest
import trustme

from app.gateway.timeouts import Phase
from app.gateway.tls import Tls
from listening import (
    HeldPublisher,
    ImmediatePublisher,
    connection_of,
    echo,
    listening,
    serve_ordinary,
)
from raw_http import PeerClosed, RawAnswer, RawConnection, event, request
from waiting import until

ORDINARY = request("/nowhere", method="GET", length=False)


def closes(answers: Sequence[RawAnswer]) -> list[bool]:
    return [answer.headers.get("connection") == "close" for answer in answers]


@pytest.mark.parametrize("kind", ["fast", "ordinary"])
async def test_the_last_of_so_many_answers_says_close(kind):
    sent = [event(n) if kind == "fast" else ORDINARY for n in range(3)]
    async with (
        listening(_Soon(), keep_alive_requests=3) as server,
        await RawConnection.open(server.port) as peer,
    ):
        answers = []
        for each in sent:
            await peer.send(each)
            answers.append(await peer.answer())
        assert closes(answers) == [False, False, True]
        assert await peer.closed() == b""


async def test_both_kinds_are_counted_together():
    async with (
        listening(_Soon(), keep_alive_requests=4) as server,
        await RawConnection.open(server.port) as peer,
    ):
        answers = []
        for n in range(4):
            await peer.send(event(n) if n % 2 else ORDINARY)
            answers.append(await peer.answer())
        assert closes(answers) == [False, False, False, True]


@pytest.mark.parametrize("kind", ["fast", "ordinary"])
async def test_each_answer_is_the_last_once_the_process_will_stop(kind):
    """On connections that are open, and on new ones. A sender then meets no closed connection."""
    sent = event(1) if kind == "fast" else ORDINARY
    async with (
        listening(_Soon()) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(sent)
        assert closes([await peer.answer()]) == [False]
        server.leave()
        async with await RawConnection.open(server.port) as later:
            for each in (peer, later):
                await each.send(sent)
                assert closes([await each.answer()]) == [True]
                assert await each.closed() == b""


async def test_a_request_under_way_gets_the_last_answer_once_the_process_will_stop():
    held = HeldPublisher()
    async with (
        listening(held) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(event(1))
        await held.holds(1)
        server.leave()
        held.release(1)
        assert closes([await peer.answer()]) == [True]
        assert await peer.closed() == b""


async def test_zero_means_any_number():
    async with (
        listening(ImmediatePublisher(), keep_alive_requests=0) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(*(event(n) for n in range(1500)))
        assert not any(closes(await peer.answers(1500)))


@pytest.mark.parametrize("held", [True, False])
async def test_a_connection_whose_requests_overlap_does_not_end(held):
    """Forty in one write, also those that wait because reading pauses at sixteen. The count begins
    again behind them."""
    publisher = HeldPublisher() if held else ImmediatePublisher()
    async with (
        listening(publisher, keep_alive_requests=2) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(*(event(n) for n in range(40)))
        for n in range(40 if held else 0):
            await until(lambda n=n: str(n) in publisher.due)
            publisher.release(n)
        assert closes(await peer.answers(40)) == [False] * 40
        ends = []
        while not any(ends):
            await peer.send(ORDINARY)
            ends += closes([await peer.answer()])
        assert len(ends) <= 4
        assert await peer.closed() == b""


async def test_an_answer_given_while_bytes_are_parsed_is_not_the_last():
    """More requests may follow in the same bytes. Refusals are answered at once."""
    async with (
        listening(ImmediatePublisher(), keep_alive_requests=1) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(event(1), event(2))
        assert closes(await peer.answers(2)) == [False, False]
        await peer.send(ORDINARY)
        assert closes([await peer.answer()]) == [False]  # the count began again
        await peer.send(ORDINARY)
        assert closes([await peer.answer()]) == [True]


@pytest.mark.parametrize("then", ["fast", "ordinary"])
async def test_a_request_that_has_begun_to_arrive_is_answered_before_the_end(then):
    held = HeldPublisher()
    whole = event(2) if then == "fast" else ORDINARY
    async with (
        listening(held, keep_alive_requests=1) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(event(1), whole[:20])
        await held.holds(1)
        connection = connection_of(server)
        await until(lambda: connection._phase is Phase.HEAD)
        held.release(1)
        first = await peer.answer()
        await peer.send(whole[20:])
        if then == "fast":
            await held.holds(1)
            held.release(2)
        assert closes([first, await peer.answer()]) == [False, True]
        assert await peer.closed() == b""


async def test_an_ordinary_answer_that_starts_before_its_request_has_arrived_does_not_close():
    """The rest of the body would be lost. The next answer closes."""

    async def early(scope, receive, send):
        length = (b"content-length", b"2")
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.body", "body": b"ok"})

    async with listening(ImmediatePublisher(), keep_alive_requests=1) as server:
        serve_ordinary(server, early)
        async with await RawConnection.open(server.port) as peer:
            whole = request("/echo", b"x" * 1000)
            await peer.send(whole[:-10])
            head = await peer.reader.readuntil(b"\r\n\r\n")
            await peer.send(whole[-10:])
            assert await peer.reader.readexactly(2) == b"ok"
            assert b"close" not in head
            await peer.send(ORDINARY)
            assert closes([await peer.answer()]) == [True]


async def test_a_request_behind_a_last_ordinary_answer_is_not_begun():
    """The answer has said close, so nothing more may be processed (RFC 9112 9.6)."""
    publisher, may_end = ImmediatePublisher(), asyncio.Event()

    async def slow(scope, receive, send):
        length = (b"content-length", b"2")
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await may_end.wait()
        await send({"type": "http.response.body", "body": b"ok"})

    async with listening(publisher, keep_alive_requests=1) as server:
        serve_ordinary(server, slow)
        async with await RawConnection.open(server.port) as peer:
            await peer.send(ORDINARY)
            head = await peer.reader.readuntil(b"\r\n\r\n")
            assert b"connection: close" in head
            await peer.send(event(1))
            await asyncio.sleep(0)
            may_end.set()
            assert await peer.closed() == b"ok"
        assert publisher.ids == []


async def test_a_request_that_crosses_the_last_answer_resets_nothing():
    """The client gets the answer, and the end of the stream behind it, though it still sends."""
    held = HeldPublisher()
    async with (
        listening(held, keep_alive_requests=1) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(event(1))
        await held.holds(1)
        held.release(1)
        await peer.send(*(event(n, b"x" * 60_000) for n in range(2, 20)))
        assert closes([await peer.answer()]) == [True]
        assert await peer.closed() == b""
        assert held.ids == ["1"]


async def test_a_client_that_stays_is_closed_after_a_while():
    async with (
        listening(_Soon(), keep_alive_requests=1, linger=0.2) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(event(1))
        await peer.answer()
        await until(lambda: server.connections == 0, "the end of a connection")


async def test_tls_connections_end_too(tmp_path):
    authority, trusting = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trusting)
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "pair.pem")
    tls = Tls(certificate=tmp_path / "pair.pem", key=tmp_path / "pair.pem")
    async with (
        listening(_Soon(), keep_alive_requests=1, tls=tls, linger=0.2) as server,
        await RawConnection.open(server.port, trusting) as peer,
    ):
        await peer.send(event(1))
        assert closes([await peer.answer()]) == [True]
        assert await peer.closed() == b""


@pytest.mark.parametrize("seed", range(6))
async def test_no_request_is_lost_or_begun_twice_whatever_a_sender_pipelines(seed):
    """A sender that obeys RFC 9112 9.3.2: it repeats on a new connection what was not answered."""
    chance = random.Random(seed)
    publisher = _Soon(chance.random)
    wanted = list(range(300))
    async with listening(publisher, keep_alive_requests=chance.choice([1, 2, 3])) as server:
        serve_ordinary(server, echo)
        left, connections = wanted[:], 0
        while left:
            connections += 1
            left = left[await _pipelined(server.port, left, chance) :]
    assert connections > 1
    published = [int(each) for each in publisher.ids]
    assert published == sorted(set(published)), "no event twice, and in order"
    assert published == [n for n in wanted if n % 5]


async def _pipelined(port: int, numbers: Sequence[int], chance: random.Random) -> int:
    """Send in bursts until an answer says close. Return the number of answers.

    A burst may come in two parts. If the answer to the first part is the last, the second part was not
    processed.
    """
    answered = 0
    async with await RawConnection.open(port) as peer:
        while answered < len(numbers):
            burst = numbers[answered : answered + chance.choice([1, 1, 1, 1, 2, 9, 30])]
            data = b"".join(event(n) if n % 5 else request("/echo", b"%d" % n) for n in burst)
            cut = chance.randint(0, len(data))
            await peer.send(data[:cut])
            await asyncio.sleep(0)
            await peer.send(data[cut:])
            for _ in burst:
                try:
                    answer = await peer.answer()
                except PeerClosed:
                    return answered
                answered += 1
                if answer.headers.get("connection") == "close":
                    return answered
    return answered


class _Soon(ImmediatePublisher):
    """A publisher that answers after some turns of the loop, and about half of the requests at once
    if ``chance`` says so."""

    def __init__(self, chance: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__()
        self._chance = chance

    def publish(self, request, done):
        answer = super().publish(request, done)
        if self._chance() > 0.5:
            return answer
        asyncio.get_running_loop().call_later(self._chance() / 1000, done, answer)
        return None
