"""The webhook receiver behind ``receive`` and ``demo``."""

from __future__ import annotations

import json

import httpx
import pytest

from app.cli.receive import _show, _show_json, reply_function
from app.cli.receiver import BODY_BOUND, Arrival, Receiver, Reply

TAKEN = Reply(204)
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}


def client(seen: list[Arrival], reply: Reply = TAKEN) -> httpx.AsyncClient:
    def answer(arrival: Arrival) -> Reply:
        seen.append(arrival)
        return reply

    transport = httpx.ASGITransport(app=Receiver(answer))  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


async def test_an_event_is_read_and_answered_as_told() -> None:
    """Path, attributes and body reach whoever decides the answer."""
    seen: list[Arrival] = []
    async with client(seen, Reply(429, ((b"retry-after", b"3"),))) as http:
        answer = await http.post("/hook", headers=EVENT, content=b"data")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert seen[0].path == "/hook"
    assert seen[0].events[0].event.data == b"data"


async def test_what_is_no_event_is_shown_with_the_reason() -> None:
    """A receiver is where one looks when something arrives wrongly."""
    seen: list[Arrival] = []
    async with client(seen) as http:
        await http.post("/", content=b"{}")
    assert seen[0].events == ()
    assert "specversion" in seen[0].fault


async def test_the_handshake_is_consented_to() -> None:
    """W1-W8: consent is the very origin that asks."""
    async with client([]) as http:
        answer = await http.options("/", headers={"webhook-request-origin": "shop.example"})
    assert answer.headers["webhook-allowed-origin"] == "shop.example"


async def test_an_endless_body_is_refused() -> None:
    """Also a receiver on loopback has bounds."""
    seen: list[Arrival] = []
    async with client(seen) as http:
        answer = await http.post("/", headers=EVENT, content=b"x" * (BODY_BOUND + 1))
    assert answer.status_code == 413
    assert seen == []


@pytest.mark.parametrize(
    ("number", "status", "waits"), [(1, 503, True), (2, 503, True), (3, 204, False)]
)
def test_the_first_n_fail_and_the_rest_succeed(number: int, status: int, waits: bool) -> None:
    """--fail-first with --retry-after: the header only stands on failures."""
    reply = reply_function(204, 2, 503, "5")(number)
    assert (reply.status, bool(reply.headers)) == (status, waits)


OPAQUE = {"content-type": "application/cloudevents+new; v=1", "ce-type": "t"}


async def test_a_document_that_is_not_read_is_shown_as_what_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """4.7: receive names its content type and size, and with --json gives its bytes."""
    seen: list[Arrival] = []
    async with client(seen) as http:
        await http.post("/", headers=OPAQUE, content=b"\x00\xff")
    _show(True)(1, seen[0], TAKEN)
    shown = capsys.readouterr().out
    assert "application/cloudevents+new; v=1" in shown
    assert "2 bytes, not read" in shown
    assert "type: t" in shown
    _show_json(1, seen[0], TAKEN)
    (event,) = json.loads(capsys.readouterr().out)["events"]
    assert (event["document_base64"], event["attributes"]) == ("AP8=", {"type": "t"})
