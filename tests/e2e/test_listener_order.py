"""Answers leave in request order, whatever mixes on a connection (RFC 9112 9.3.2)."""

from __future__ import annotations

import asyncio

import pytest

from app.gateway.answers import HttpAnswer
from listening import (
    HeldPublisher,
    ImmediatePublisher,
    connection_of,
    echo,
    listening,
    serve_ordinary,
)
from raw_http import PeerClosed, RawConnection, event, request
from waiting import until


async def test_an_early_answer_waits_for_the_ones_before_it() -> None:
    """A sender pairs answers with requests by order alone; a swap would lose an event."""
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        await peer.send(*(event(n) for n in range(4)))
        await held.holds(4)

        held.release(3, 1, 2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await peer.reader.read(1)
        held.release(0)

        assert [answer.body for answer in await peer.answers(4)] == [b"0", b"1", b"2", b"3"]


async def test_hot_and_ordinary_requests_answer_in_order() -> None:
    """The short way must not overtake uvicorn's way, nor be overtaken by it."""
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        await peer.send(
            event(1),
            request("/nowhere", method="GET", length=False),
            event(2),
            request("/events", method="OPTIONS", length=False),
            request("/nowhere", b"x" * 100),
            event(3),
        )
        await held.holds(3)
        held.release(3, 2, 1)

        statuses = [answer.status for answer in await peer.answers(6)]

    assert statuses == [200, 404, 200, 200, 404, 200]


async def test_at_most_sixteen_requests_are_in_work_then_reading_pauses() -> None:
    """One connection must not take the whole process (design: HTTP)."""
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        await peer.send(*(event(n) for n in range(40)))
        await held.holds(16)
        connection = connection_of(server)
        assert connection.flow.read_paused
        assert len(held.requests) == 16

        for n in range(40):
            await until(lambda n=n: str(n) in held.due)
            held.release(n)
        answers = await peer.answers(40)

    assert [answer.body for answer in answers] == [str(n).encode() for n in range(40)]
    assert held.most == 16


async def test_a_paused_connection_reads_on_when_answers_have_left() -> None:
    """Bytes that came while reading was paused are served afterwards, none is lost."""
    held = HeldPublisher()
    async with listening(held, in_work=2) as server, await RawConnection.open(server.port) as peer:
        await peer.send(event(1), event(2))
        await held.holds(2)
        await peer.send(event(3))
        await asyncio.sleep(0.02)
        assert "3" not in held.due

        held.release(1)
        await until(lambda: "3" in held.due)
        held.release(2, 3)

        assert [answer.body for answer in await peer.answers(3)] == [b"1", b"2", b"3"]


async def test_thousands_of_pipelined_requests_in_one_write_are_all_answered() -> None:
    """The queue within one read is walked by a loop: no recursion, no stall."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        sent = asyncio.create_task(peer.send(*(event(n) for n in range(3000))))
        answers = await peer.answers(3000)
        await sent

    assert {answer.status for answer in answers} == {202}
    assert publisher.ids == [str(n) for n in range(3000)]


async def test_one_read_full_of_requests_is_parsed_no_further_than_may_wait() -> None:
    """A request costs a hundred times its bytes: what is read is kept as bytes until its turn."""
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        tiny = b"POST /events HTTP/1.1\r\nhost: x\r\nce-id: %d\r\ncontent-length: 0\r\n\r\n"
        sent = asyncio.create_task(peer.send(*(tiny % n for n in range(5000))))
        await held.holds(16)
        connection = connection_of(server)
        assert len(connection._queue) < 500
        reading = asyncio.create_task(peer.answers(5000))
        while not reading.done():
            held.release(*held.due)
            await asyncio.sleep(0)
        await sent
    assert [answer.body for answer in await reading] == [str(n).encode() for n in range(5000)]


@pytest.mark.parametrize("in_work", [1, 2])
async def test_a_narrow_connection_still_reads_the_body_of_an_ordinary_request(
    in_work: int,
) -> None:
    """Its place in the pipeline is taken with its head: the body must not wait for room."""
    body = b"x" * 300_000
    async with listening(ImmediatePublisher(), in_work=in_work) as server:
        serve_ordinary(server, echo)
        async with await RawConnection.open(server.port) as peer:
            await peer.send(event(1), request("/echo", body), event(2))
            answers = await peer.answers(3)
    assert [(answer.status, answer.body) for answer in answers] == [
        (202, b""), (200, body), (202, b""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "target",
    [
        *("http://x/events?key=k", "/%65vents?key=k", "/events?key=k#part"),
        *("/events/?key=k", "http://x/events/?key=k", "/events/orders/?key=k"),
    ],
)
async def test_every_form_of_the_target_is_the_same_resource(target: str) -> None:
    """RFC 9112 3.2: and all take the same way, so that events keep their order."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        await peer.send(event(1), event(2, target=target), event(3))
        statuses = [answer.status for answer in await peer.answers(3)]
    assert statuses == [202, 202, 202]
    assert publisher.ids == ["1", "2", "3"]
    assert publisher.requests[1].query == b"key=k"
    assert publisher.requests[1].route == ("orders" if "orders" in target else None)


async def test_a_target_without_a_path_is_not_ours() -> None:
    async with (
        listening(ImmediatePublisher()) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(
            request("http://x", method="GET", length=False), request("http://x?events", b"{}")
        )
        assert [answer.status for answer in await peer.answers(2)] == [404, 404]


async def test_a_malformed_request_is_refused_behind_the_answers_that_are_due() -> None:
    """400 then close, but what came before it keeps its answer (uvicorn would cut it)."""
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        await peer.send(event(1), event(2), b"NONSENSE\r\n\r\n")
        await held.holds(2)
        held.release(2, 1)

        answers = await peer.answers(3)

        assert [answer.status for answer in answers] == [200, 200, 400]
        assert answers[2].headers["connection"] == "close"
        assert await peer.closed() == b""


async def test_nothing_behind_connection_close_is_published() -> None:
    """After ``Connection: close`` no answer can be sent, so nothing may be taken (RFC 9112 9.6)."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        await peer.send(event(1), event(2, connection="close"), event(3))

        answers = await peer.answers(2)

        assert answers[1].headers["connection"] == "close"
        with pytest.raises(PeerClosed):
            await peer.answer()
    assert publisher.ids == ["1", "2"]


async def test_http_1_0_is_answered_and_closed() -> None:
    """As uvicorn does, also when it asks to be kept alive."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server:
        for headers in ([], [("connection", "keep-alive")]):
            async with await RawConnection.open(server.port) as peer:
                await peer.send(request(version="1.0", headers=[("ce-id", "1"), *headers]))
                answer = await peer.answer()
                assert (answer.status, answer.headers["connection"]) == (202, "close")
                assert await peer.closed() == b""


async def test_keep_alive_serves_one_request_after_another() -> None:
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        for n in range(5):
            await peer.send(event(n))
            answer = await peer.answer()
            assert (answer.status, answer.body) == (202, b"")
            assert set(answer.headers) == {"content-length"}


async def test_a_request_in_single_bytes_is_the_same_request() -> None:
    """Boundaries of reads mean nothing."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        for byte in event(1, b'{"a": 1}'):
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await peer.answer()).status == 202
    assert publisher.requests[0].body == b'{"a": 1}'
    assert dict(publisher.requests[0].headers)[b"ce-source"] == b"/test"


async def test_a_peer_that_resets_while_its_answers_are_due_leaves_nothing_behind() -> None:
    """No write to a closed transport, no connection kept."""
    held = HeldPublisher()
    async with listening(held) as server:
        peer = await RawConnection.open(server.port)
        await peer.send(event(0), event(1), request("/x", method="GET", length=False))
        await held.holds(2)
        peer.reset()
        await until(lambda: server.connections == 0)

        held.release(1, 0)

        assert server.connections == 0


async def test_a_peer_that_closes_while_its_answers_are_due_is_let_go_after_them() -> None:
    """A close looks like a half-close; the answers find out."""
    held = HeldPublisher()
    async with listening(held) as server:
        peer = await RawConnection.open(server.port)
        await peer.send(event(0), event(1))
        await held.holds(2)
        connection = connection_of(server)
        await peer.close()
        await until(lambda: connection._ended)

        held.release(1, 0)

        await until(lambda: server.connections == 0)


async def test_a_peer_that_goes_while_its_reading_is_paused_is_noticed_at_the_next_answer() -> None:
    """Nobody looks at a socket that is not read; the answers that are due come to look."""
    held = HeldPublisher()
    async with listening(held, in_work=2) as server:
        peer = await RawConnection.open(server.port)
        await peer.send(*(event(n) for n in range(4)))
        await held.holds(2)
        peer.writer.transport.abort()
        while server.connections:
            held.release(*held.due)
            await asyncio.sleep(0.005)
    assert held.most == 2, "a peer that is gone gets no more than its share"


async def test_a_peer_that_only_stops_sending_still_gets_its_answers() -> None:
    """``printf ... | nc`` half-closes: an answer that is due is not cut."""
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        await peer.send(event(1), event(2))
        peer.writer.write_eof()
        await held.holds(2)
        connection = connection_of(server)
        await until(lambda: connection._ended)  # it has heard that no more comes
        held.release(2, 1)

        answers = await peer.answers(2)

        assert [answer.body for answer in answers] == [b"1", b"2"]
        assert answers[1].headers["connection"] == "close"
        assert await peer.closed() == b""
        await until(lambda: server.connections == 0)


async def test_an_upgrade_is_ignored_and_the_body_is_kept() -> None:
    """Java's client offers h2c with its first POST; the parser would throw that body away."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        upgrade = event(1, b'{"a": 1}', connection="Upgrade, HTTP2-Settings", upgrade="h2c")
        await peer.send(upgrade, event(2))
        chunked = [("upgrade", "h2c"), ("connection", "upgrade"), ("transfer-encoding", "chunked")]
        await peer.send(request(headers=chunked, length=False), b"3\r\nabc\r\n0\r\n\r\n", event(4))

        answers = await peer.answers(4)

    assert [answer.status for answer in answers] == [202, 202, 202, 202]
    assert [r.body for r in publisher.requests] == [b'{"a": 1}', b"{}", b"abc", b"{}"]
    assert b"upgrade" not in publisher.requests[0].named


async def test_head_has_no_body_and_the_next_answer_is_found() -> None:
    """RFC 9110 9.3.2: a body behind a HEAD would be read as the next answer."""
    async with (
        listening(ImmediatePublisher()) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(request(method="HEAD", length=False), event(1))
        assert (await peer.answer(head=True)).status == 405
        assert (await peer.answer()).status == 202


async def test_a_websocket_handshake_is_an_ordinary_request() -> None:
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        headers = [("upgrade", "websocket"), ("connection", "Upgrade")]
        await peer.send(request(method="GET", headers=headers, length=False), event(1))
        assert [answer.status for answer in await peer.answers(2)] == [405, 202]


async def test_connect_is_refused() -> None:
    """We are no tunnel."""
    async with (
        listening(ImmediatePublisher()) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(b"CONNECT example.com:443 HTTP/1.1\r\nhost: x\r\n\r\nabc")
        assert (await peer.answer()).status == 405
        assert await peer.closed() == b""


async def test_trailers_are_not_merged_into_the_event() -> None:
    """A ``ce-`` trailer would change an event behind the checks (RFC 9110 6.5.1)."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        head = request(headers=[("ce-id", "1"), ("transfer-encoding", "chunked")], length=False)
        await peer.send(head, b"2\r\nab\r\n0\r\nce-id: 2\r\nce-x: y\r\n\r\n", event(3))
        assert [answer.status for answer in await peer.answers(2)] == [202, 202]
    assert publisher.ids == ["1", "3"]
    assert b"ce-x" not in publisher.requests[0].named


async def test_expect_continue_is_met_when_the_body_will_be_read() -> None:
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        whole = event(1, b"body", expect="100-continue")
        await peer.send(whole[:-4])
        assert (await peer.answer()).status == 100
        await peer.send(whole[-4:])
        assert (await peer.answer()).status == 202
        await peer.send(whole)
        assert (await peer.answer()).status == 202, "no 100 when the body is already there"


async def test_expect_continue_is_not_met_when_the_body_will_not_be_read() -> None:
    """The point of Expect: a body that would be refused need not travel (RFC 9110 10.1.1)."""
    async with listening(ImmediatePublisher(), body=3) as server:
        for headers, status in (
            ([("expect", "100-continue"), ("content-length", "4")], 413),
            (
                [("expect", "100-continue"), ("content-length", "3"), ("content-encoding", "br")],
                415,
            ),
        ):
            async with await RawConnection.open(server.port) as peer:
                await peer.send(request(headers=headers, length=False))
                assert (await peer.answer()).status == status


async def test_expect_continue_waits_for_the_answers_before_it() -> None:
    """A 100 ahead of an earlier answer would be taken for that answer's."""
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        waiting = event(2, b"body", expect="100-continue")
        await peer.send(event(1), waiting[:-4])
        await held.holds(1)
        held.release(1)
        assert [answer.status for answer in await peer.answers(2)] == [200, 100]
        await peer.send(waiting[-4:])
        await held.holds(1)
        held.release(2)
        assert (await peer.answer()).body == b"2"


async def test_a_peer_that_does_not_read_its_answers_is_read_no_further() -> None:
    """Answers nobody takes must not pile up here (reliability G4)."""
    publisher = ImmediatePublisher(HttpAnswer(200, (), b"x" * 50_000))
    async with listening(publisher) as server:
        peer = await RawConnection.open(server.port)
        flood = event(1) * 2000
        peer.writer.write(flood)
        await until(lambda: server.connections == 1)
        connection = connection_of(server)
        await until(lambda: connection.flow.write_paused)
        await until(lambda: connection.flow.read_paused)
        taken = len(publisher.requests)
        await asyncio.sleep(0.05)
        assert len(publisher.requests) == taken < 2000
        answers = await peer.answers(2000)
        assert len(answers) == 2000
        await peer.close()
