"""Every bound of the listener, met by a peer that breaks it (reliability S4-S7, design: HTTP)."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.telemetry import Counters
from listening import (
    HeldPublisher,
    ImmediatePublisher,
    connection_of,
    echo,
    listening,
    resource_of,
    serve_ordinary,
    tasks_of,
)
from raw_http import PATIENCE, RawAnswer, RawConnection, event, request
from waiting import until

KIB = 1024
MIB = 1024 * KIB


def code(answer: RawAnswer) -> str:
    """The last part of the problem type."""
    assert answer.headers["content-type"] == "application/problem+json"
    return str(json.loads(answer.body)["type"]).removeprefix("urn:skybridge:problem:")


async def refused(port: int, *parts: bytes) -> RawAnswer:
    """The one answer to ``parts``, after which the connection closes."""
    async with await RawConnection.open(port) as peer:
        await peer.send(*parts)
        answer = await peer.answer()
        assert answer.headers["connection"] == "close"
        assert await peer.closed() == b""
        return answer


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_put_is_as_good_as_post(method: str) -> None:
    """H1."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        await peer.send(request("/events/orders?key=k", b"abc", method=method))
        assert (await peer.answer()).status == 202
    (taken,) = publisher.requests
    assert (taken.body, taken.route, taken.query) == (b"abc", "orders", b"key=k")


async def test_a_header_block_of_exactly_the_bound_passes_and_one_byte_more_is_431() -> None:
    """Rule 8: 256 KiB, so that a 64 KiB event made of headers passes even percent-encoded."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server:
        around = len("/events") + len("host") + 1 + 4 + len("content-length") + 1 + 4 + 4 + 4
        for size, status in ((256 * KIB - around, 202), (256 * KIB - around + 1, 431)):
            whole = request(headers=[("ce-x", b"v" * size)])
            async with await RawConnection.open(server.port) as peer:
                await peer.send(whole)
                assert (await peer.answer()).status == status
    assert len(publisher.requests) == 1


async def test_a_header_of_fifty_megabytes_is_431_and_memory_stays_flat() -> None:
    """uvicorn took it and grew by 50 MB (reliability 4.2, S5)."""
    async with (
        listening(ImmediatePublisher(), linger=10) as server,
        await RawConnection.open(server.port) as peer,
    ):
        with memory_stays_below(5 * MIB):
            await peer.send(b"POST /events HTTP/1.1\r\nhost: x\r\nce-bomb: ")
            await _flood(peer, 50 * MIB)
            assert (await peer.answer()).status == 431


async def test_half_a_million_fields_are_431() -> None:
    """Reliability S5: each field costs an object, so fields are bounded too."""
    async with listening(ImmediatePublisher()) as server:
        assert code(await refused(server.port, b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 500_000)) == (
            "headers-too-large"
        )


@pytest.mark.parametrize(("fields", "status"), [(256, 202), (257, 431)])
async def test_the_bound_on_fields_is_exact(fields: int, status: int) -> None:
    async with (
        listening(ImmediatePublisher()) as server,
        await RawConnection.open(server.port) as peer,
    ):
        extra = [(f"x-{n}", "v") for n in range(fields - 2)]
        await peer.send(request(headers=extra))
        assert (await peer.answer()).status == status


async def test_an_endless_request_line_is_431() -> None:
    async with listening(ImmediatePublisher(), header_bytes=16 * KIB) as server:
        answer = await refused(server.port, b"GET /", b"a" * 300 * KIB, b" HTTP/1.1\r\n\r\n")
        assert answer.status == 431


@pytest.mark.parametrize(
    "target",
    [b"/events/%b", b"/events?%b", b"/in/%b", b"/other/%b", b"http://h/events?%b", b"/events#%b"],
)
async def test_a_target_that_no_parser_of_urls_reads_is_414(
    target: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """RFC 9110 15.5.15, on the short way and on uvicorn's; the longest one is read."""
    most = 0xFFFF - len(target) + 2
    async with listening(ImmediatePublisher()) as server:
        for size, refused in ((most, False), (most + 1, True), (200 * KIB, True)):
            async with await RawConnection.open(server.port) as peer:
                await peer.send(request((target % (b"a" * size)).decode(), b"x"))
                answer = await peer.answer()
                assert (answer.status == 414) == refused
                assert not refused or code(answer) == "target-too-long"
    assert caplog.records == []


async def test_an_endless_trailer_is_431() -> None:
    """The parser keeps a field to itself until it is whole: also behind the body."""
    async with (
        listening(ImmediatePublisher()) as server,
        await RawConnection.open(server.port) as peer,
    ):
        head = request(headers=[("transfer-encoding", "chunked")], length=False)
        peer.writer.write(head + b"1\r\na\r\n0\r\nx: ")
        for _ in range(20):
            peer.writer.write(b"v" * 64 * KIB)
            await asyncio.sleep(0)
        assert (await peer.answer()).status == 431


NEVER_ENDING = {
    "line": b"GET /",
    "field": b"POST /events HTTP/1.1\r\nhost: x\r\nce-x: ",
    "trailer": b"1\r\na\r\n0\r\nx: ",
}


@pytest.mark.parametrize("kind", NEVER_ENDING)
async def test_the_bound_on_what_never_ends_is_exact(kind: str) -> None:
    """Reliability S5: the parser keeps it to itself, and the bound of a whole head holds for it."""
    begun, around = NEVER_ENDING[kind], 64  # method, version, line ends; what a byte of body allows
    async with (
        listening(ImmediatePublisher()) as server,
        await RawConnection.open(server.port) as peer,
    ):
        if kind == "trailer":
            coding = [("transfer-encoding", "chunked"), ("expect", "100-continue")]
            await peer.send(request(headers=coding, length=False))
            assert (await peer.answer()).status == 100  # the head was a read of its own
        await peer.send(begun, b"a" * (256 * KIB + around - len(begun)))
        assert (await peer.answer()).status == (414 if kind == "line" else 431)


async def test_a_body_beyond_the_bound_is_413_before_a_byte_of_it_is_read() -> None:
    """Reliability S6: Content-Length tells at once."""
    async with listening(ImmediatePublisher(), body=10) as server:
        head = request(headers=[("content-length", "11")], length=False)
        assert code(await refused(server.port, head)) == "body-too-large"


async def test_a_chunked_body_is_413_as_soon_as_it_passes_the_bound() -> None:
    """Reliability S6: it is never held whole."""
    publisher = ImmediatePublisher()
    async with listening(publisher, body=10) as server:
        head = request(headers=[("transfer-encoding", "chunked")], length=False)
        answer = await refused(server.port, head, b"6\r\nabcdef\r\n6\r\nabcdef\r\n")
        assert code(answer) == "body-too-large"
        async with await RawConnection.open(server.port) as peer:
            await peer.send(head, b"6\r\nabcdef\r\n4\r\nabcd\r\n0\r\n\r\n")
            assert (await peer.answer()).status == 202
    assert [r.body for r in publisher.requests] == [b"abcdefabcd"]


async def test_a_refusal_leaves_the_ordinary_request_before_it_its_answer() -> None:
    """Only the request that is refused is withdrawn."""
    async with (
        listening(ImmediatePublisher(), body=10) as server,
        await RawConnection.open(server.port) as peer,
    ):
        large = request(headers=[("content-length", "11")], length=False)
        await peer.send(request("/nowhere", method="GET", length=False), large)
        assert [answer.status for answer in await peer.answers(2)] == [404, 413]


async def test_bodies_on_their_way_are_bounded_over_all_connections() -> None:
    """Reliability G4: many slow bodies must not fill memory, and the bound is free again later."""
    publisher = ImmediatePublisher()
    async with listening(publisher, receiving=3000) as server:
        half = request(headers=[("content-length", "4000")], length=False) + b"x" * 2000
        first = await RawConnection.open(server.port)
        await first.send(half)
        await until(lambda: resource_of(server).receiving > 600)  # with its head
        async with await RawConnection.open(server.port) as second:
            await second.send(half)
            answer = await second.answer()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert code(answer) == "bound-reached"
        await first.send(b"x" * 2000)
        assert (await first.answer()).status == 202
        third = await RawConnection.open(server.port)
        await third.send(half)
        await until(lambda: resource_of(server).receiving > 600)
        await third.close()
        await until(lambda: resource_of(server).receiving == 0)
        await first.close()


async def test_unfinished_heads_are_bounded_over_all_connections_and_the_oldest_makes_room() -> (
    None
):
    """Reliability S5: 400 heads that never end grew the process by 92 MB, and 10,000 would by 2.5 GiB."""
    head = b"GET / HTTP/1.1\r\nhost: x\r\n" + b"".join(
        b"x-%d: %b\r\n" % (n, b"v" * 4000) for n in range(50)
    )
    async with listening(ImmediatePublisher(), heads=MIB, linger=PATIENCE) as server:
        peers = [await RawConnection.open(server.port) for _ in range(20)]
        try:
            with memory_stays_below(4 * MIB):
                for peer in peers:
                    await peer.send(head)
                answer = await peers[0].answer()
                await until(lambda: resource_of(server).heads > MIB * 3 // 4)
            assert (answer.status, code(answer)) == (503, "bound-reached")
            await peers[-1].send(b"\r\n")
            assert (await peers[-1].answer()).status == 404  # the youngest was left alone
        finally:
            for peer in peers:
                await peer.close()
        await until(lambda: resource_of(server).heads == 0)


async def test_the_head_of_an_unfinished_body_counts_as_one_with_it() -> None:
    """Else 10,000 connections keep 256 KiB each, with one byte of a body behind it."""
    large = request(headers=[("x", "v" * 50_000), ("content-length", "9")], length=False)
    async with listening(ImmediatePublisher(), receiving=60_000) as server:
        async with await RawConnection.open(server.port) as first:
            await first.send(large, b"a")
            await until(lambda: resource_of(server).receiving > 50_000)
            assert code(await refused(server.port, large, b"a")) == "bound-reached"
        await until(lambda: resource_of(server).receiving == 0)


async def test_a_body_of_an_ordinary_request_has_the_same_bound() -> None:
    """The application reads all of it, whatever it is for."""
    async with listening(ImmediatePublisher(), body=10) as server:
        serve_ordinary(server, echo)
        chunked = request("/echo", headers=[("transfer-encoding", "chunked")], length=False)
        answer = await refused(server.port, chunked, b"6\r\nabcdef\r\n6\r\nabcdef\r\n")
        assert code(answer) == "body-too-large"


async def test_a_request_is_let_go_when_it_has_begun() -> None:
    """Sixteen bodies of 4 MiB else wait on each connection beside the records that were made of them."""
    held = HeldPublisher()
    async with listening(held) as server, await RawConnection.open(server.port) as peer:
        await peer.send(event(1), event(2, b"x" * 1000))
        await held.holds(2)
        connection = connection_of(server)
        held.release(2)
        first, second = connection._queue._cycles
        assert (first.request, first.answer) == (None, None)
        assert (second.request, second.answer.status) == (None, 200)
        held.release(1)
        assert [answer.body for answer in await peer.answers(2)] == [b"1", b"2"]


async def test_connections_are_bounded_and_a_place_is_free_again() -> None:
    """Reliability G4: each open connection costs memory, also one that sends nothing."""
    counters = Counters()
    async with listening(ImmediatePublisher(), connections=2, counters=counters) as server:
        first = await RawConnection.open(server.port)
        async with await RawConnection.open(server.port) as second:
            await until(lambda: server.connections == 2)
            async with await RawConnection.open(server.port) as third:
                answer = await third.answer()
                assert (answer.status, answer.headers["retry-after"]) == (503, "1")
                assert code(answer) == "bound-reached"
                assert await third.closed() == b""
            await first.close()
            await until(lambda: server.connections == 1)
            async with await RawConnection.open(server.port) as fourth:
                await fourth.send(event(4))
                await second.send(event(2))
                assert (await fourth.answer()).status == (await second.answer()).status == 202
    assert counters.values()["events_refused"] == {("bound-reached",): 1}


async def test_a_refusal_reaches_a_peer_that_is_still_sending() -> None:
    """A connection closed over unread bytes is reset, and the peer would never see its 413."""
    async with (
        listening(ImmediatePublisher()) as server,
        await RawConnection.open(server.port) as peer,
    ):
        peer.writer.write(request(headers=[("content-length", str(50 * MIB))], length=False))
        sending = asyncio.create_task(_flood(peer, 20 * MIB))
        assert (await peer.answer()).status == 413
        await sending


async def test_a_head_that_does_not_come_is_408() -> None:
    """Slow loris: uvicorn kept 200 of 200 for ever (reliability 4.2, S4)."""
    counters = Counters()
    async with listening(ImmediatePublisher(), head_timeout=0.1, counters=counters) as server:
        assert code(await refused(server.port, b"POST /events HTTP/1.1\r\nhost:")) == (
            "request-timeout"
        )
    assert counters.values()["events_refused"] == {("request-timeout",): 1}


async def test_dripping_does_not_move_the_deadline() -> None:
    """One deadline for a head, however many bytes come within it."""
    async with (
        listening(ImmediatePublisher(), head_timeout=0.2) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(b"POST /events HTTP/1.1\r\nx: ")
        dripping = asyncio.create_task(_drip(peer))
        assert (await peer.answer()).status == 408
        dripping.cancel()


@pytest.mark.parametrize("target", ["/events", "/nowhere"])
async def test_a_body_that_does_not_come_is_dropped(target: str) -> None:
    """408 where no answer has left; a connection that wastes its body is closed all the same."""
    async with (
        listening(ImmediatePublisher(), body_timeout=0.5) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(request(target, headers=[("content-length", "9")], length=False), b"abc")
        assert (await peer.answer()).status == (408 if target == "/events" else 404)
        assert await peer.closed() == b""


async def test_a_slow_request_is_408_behind_the_answers_that_are_due() -> None:
    held = HeldPublisher()
    async with (
        listening(held, head_timeout=0.1) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(event(1), b"POST /ev")
        await held.holds(1)
        await asyncio.sleep(0.2)
        held.release(1)
        assert [answer.status for answer in await peer.answers(2)] == [200, 408]


async def test_an_idle_connection_is_closed_without_an_answer() -> None:
    async with (
        listening(ImmediatePublisher(), keep_alive=0.5) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(event(1))
        assert (await peer.answer()).status == 202
        assert await peer.closed() == b""


async def test_a_request_that_waits_for_the_log_has_no_deadline_here() -> None:
    """Publishing has its own time-out; the connection must not be cut before it."""
    held = HeldPublisher()
    async with (
        listening(held, keep_alive=0.2, head_timeout=0.2, body_timeout=0.2) as server,
        await RawConnection.open(server.port) as peer,
    ):
        await peer.send(event(1))
        await held.holds(1)
        await asyncio.sleep(0.6)
        held.release(1)
        assert (await peer.answer()).body == b"1"


async def test_a_peer_that_never_reads_its_answers_is_cut() -> None:
    """Slow read (reliability S4): the answers it does not take must not be kept for ever."""
    from app.gateway.answers import HttpAnswer

    async with listening(
        ImmediatePublisher(HttpAnswer(200, (), b"x" * 100_000)), body_timeout=0.2
    ) as server:
        peer = await RawConnection.open(server.port)
        peer.writer.transport.pause_reading()
        peer.writer.write(event(1) * 500)
        await until(lambda: server.connections == 1)
        await until(lambda: server.connections == 0)
        await peer.close()


async def test_hundreds_of_slow_peers_do_not_hold_up_a_good_one() -> None:
    """Reliability S4, in short: all slow ones are dropped, the good one is served meanwhile."""
    publisher = ImmediatePublisher()
    async with listening(publisher, head_timeout=0.5, linger=0.2) as server:
        slow = [await RawConnection.open(server.port) for _ in range(100)]
        for peer in slow:
            peer.writer.write(b"POST /events HTTP/1.1\r\nx")
        async with await RawConnection.open(server.port) as good:
            for n in range(50):
                await good.send(event(n))
                assert (await good.answer()).status == 202
        assert {(await peer.answer()).status for peer in slow} == {408}
        await until(lambda: server.connections == 0)
        for peer in slow:
            await peer.close()


GZIPPED = gzip.compress(b'{"a": 1}')
RAW_DEFLATE = zlib.compress(b'{"a": 1}')[2:-4]


CODED = [
    ("identity", b'{"a": 1}'),
    ("gzip", GZIPPED),
    ("X-GZIP", GZIPPED),
    ("gzip", gzip.compress(b'{"a"') + gzip.compress(b": 1}")),
    ("deflate", zlib.compress(b'{"a": 1}')),
    ("deflate", RAW_DEFLATE),
    ("identity, gzip", GZIPPED),
    ("gzip\r\ncontent-encoding: identity", GZIPPED),
]


async def test_a_known_content_coding_is_undone() -> None:
    """Design: HTTP. The header goes no further."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        await peer.send(*(event(1, body, content_encoding=coding) for coding, body in CODED))
        assert {answer.status for answer in await peer.answers(len(CODED))} == {202}
    assert [taken.body for taken in publisher.requests] == [b'{"a": 1}'] * len(CODED)
    assert all(b"content-encoding" not in dict(taken.headers) for taken in publisher.requests)


async def test_an_unknown_content_coding_is_415_and_tells_what_would_do() -> None:
    """RFC 9110 15.5.16; W7. The connection lives on."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        for coding in ("br", "zstd", "gzip, gzip", "compress", "x"):
            await peer.send(event(1, content_encoding=coding))
            answer = await peer.answer()
            assert code(answer) == "unsupported-content-encoding", coding
            assert answer.headers["accept-encoding"] == "gzip, deflate, identity"
        await peer.send(event(2))
        assert (await peer.answer()).status == 202
        await peer.send(event(3, content_encoding="br\r\ncontent-encoding: identity"))
        assert (await peer.answer()).status == 415
    assert publisher.ids == ["2"]


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_compressed_bomb_is_413_and_memory_stays_flat(coding: str) -> None:
    """Reliability S7: what comes out is bounded, not what goes in."""
    press = zlib.compressobj(9, wbits=31 if coding == "gzip" else 15)
    bomb = b"".join(press.compress(bytes(MIB)) for _ in range(100)) + press.flush()
    async with (
        listening(ImmediatePublisher(), body=MIB) as server,
        await RawConnection.open(server.port) as peer,
    ):
        with memory_stays_below(5 * MIB):
            await peer.send(event(1, bomb, content_encoding=coding))
            assert code(await peer.answer()) == "body-too-large"


async def test_a_broken_content_coding_is_400() -> None:
    async with (
        listening(ImmediatePublisher()) as server,
        await RawConnection.open(server.port) as peer,
    ):
        for body in (GZIPPED[:-3], GZIPPED + b"rest", b"{}", b"\x1f\x8b"):
            await peer.send(event(1, body, content_encoding="gzip"))
            assert code(await peer.answer()) == "broken-content-encoding", body


SMUGGLING = {
    "content-length and transfer-encoding": b"content-length: 4\r\ntransfer-encoding: chunked\r\n",
    "two content-lengths": b"content-length: 0\r\ncontent-length: 5\r\n",
    "the same content-length twice": b"content-length: 0\r\ncontent-length: 0\r\n",
    "content-length list": b"content-length: 0, 0\r\n",
    "negative content-length": b"content-length: -1\r\n",
    "signed content-length": b"content-length: +1\r\n",
    "hexadecimal content-length": b"content-length: 0x1\r\n",
    "endless content-length": b"content-length: 99999999999999999999999\r\n",
    "bare line feed": b"a: b\nce-id: 9\r\n",
    "bare carriage return": b"a: b\rce-id: 9\r\n",
    "obs-fold": b"a: b\r\n c\r\n",
    "NUL in a value": b"a: b\0c\r\n",
    "NUL in a name": b"a\0b: c\r\n",
    "space before the colon": b"a : b\r\n",
    "space before the first name": b" a: b\r\n",
    "no colon": b"ab\r\n",
    "empty name": b": b\r\n",
    "chunked not last": b"transfer-encoding: chunked, gzip\r\n",
    "coding under chunked": b"transfer-encoding: gzip, chunked\r\n",
    "chunked twice": b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    "coding in a field before chunked": (
        b"transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n"
    ),
    "chunked misspelt": b"transfer-encoding: xchunked\r\n",
    "chunked after a tab": b"transfer-encoding: \x0bchunked\r\n",
}


async def test_what_two_servers_could_read_in_two_ways_is_400() -> None:
    """Reliability 4.2, S10: refused whole, connection closed, nothing published."""
    publisher = ImmediatePublisher()
    statuses = {}
    async with listening(publisher) as server:
        for name, fields in SMUGGLING.items():
            head = b"POST /events HTTP/1.1\r\nhost: x\r\n" + fields + b"\r\n"
            answer = await refused(server.port, head, b"0\r\n\r\n", event("smuggled"))
            statuses[name] = answer.status
    assert statuses == dict.fromkeys(SMUGGLING, 400)
    assert publisher.requests == []


MALFORMED_CHUNKS = [
    b"x\r\n\r\n", b"-1\r\n", b"1;\n\r\na\r\n0\r\n\r\n", b"1\ra\r\n", b"ffffffffffffffffff\r\n",
    b"1 \r\na\r\n0\r\n\r\n", b"0x1\r\na\r\n0\r\n\r\n", b"1\r\nab\r\n0\r\n\r\n",
]  # fmt: skip


async def test_a_malformed_chunk_is_refused() -> None:
    """Reliability S10: the end of a body must not be a matter of taste."""
    publisher = ImmediatePublisher()
    async with listening(publisher) as server:
        head = request(headers=[("transfer-encoding", "chunked")], length=False)
        answers = [await refused(server.port, head, chunks) for chunks in MALFORMED_CHUNKS]
    assert [answer.status for answer in answers] == [400] * len(MALFORMED_CHUNKS)
    assert publisher.requests == []


NO_HTTP = [
    b"PRI * HTTP/2.0\r\n\r\nSM", b"POST /events", b"POST /events HTTP/3.1", b"POST /events HTTP/2.0",
    b"post /events HTTP/1.1", b"POST /ev\0nts HTTP/1.1", b"\x16\x03\x01\x02", b"{}",
]  # fmt: skip


async def test_what_is_no_http_is_400() -> None:
    async with listening(ImmediatePublisher()) as server:
        answers = [await refused(server.port, line, b"\r\n\r\n") for line in NO_HTTP]
    assert [answer.status for answer in answers] == [400] * len(NO_HTTP)


async def test_a_malformed_body_of_an_ordinary_request_ends_its_application() -> None:
    """The application behind it would otherwise wait for the rest for ever."""
    async with listening(ImmediatePublisher()) as server:
        serve_ordinary(server, echo)
        async with await RawConnection.open(server.port) as peer:
            chunked = [("transfer-encoding", "chunked")]
            await peer.send(request("/echo", headers=chunked, length=False))
            await until(lambda: tasks_of(server))
            await peer.send(b"nonsense\r\n")
            assert (await peer.answer()).status == 400
            await peer.closed()
        await until(lambda: not tasks_of(server))


async def test_a_slow_body_of_an_ordinary_request_is_408_and_ends_its_application() -> None:
    async with listening(ImmediatePublisher(), body_timeout=0.1) as server:
        serve_ordinary(server, echo)
        async with await RawConnection.open(server.port) as peer:
            length = [("content-length", "9")]
            await peer.send(request("/echo", headers=length, length=False), b"abc")
            assert (await peer.answer()).status == 408
        await until(lambda: not tasks_of(server))


async def test_a_head_may_come_in_pieces_behind_a_full_read_of_requests() -> None:
    """Bytes of earlier requests are not counted against a later head."""
    publisher = ImmediatePublisher()
    async with (
        listening(publisher, header_bytes=4 * KIB) as server,
        await RawConnection.open(server.port) as peer,
    ):
        many = event(1, b"x" * 3000) * 50
        late = request(headers=[("ce-id", "2"), ("x", b"v" * 3000)])
        await peer.send(many, late[:50])
        for start in range(50, len(late), 500):
            await peer.send(late[start : start + 500])
            await asyncio.sleep(0.002)
        assert {answer.status for answer in await peer.answers(51)} == {202}


async def _flood(peer: RawConnection, size: int) -> None:
    try:
        for _ in range(size // (64 * KIB)):
            peer.writer.write(b"x" * 64 * KIB)
            await peer.writer.drain()
    except ConnectionError:
        pass


async def _drip(peer: RawConnection) -> None:
    while True:
        peer.writer.write(b"v")
        await asyncio.sleep(0.01)


@contextmanager
def memory_stays_below(size: int) -> Iterator[None]:
    """Of what Python allocates meanwhile, at its peak: also what is freed again."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()
