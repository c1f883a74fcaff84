"""The sender's side: repeats only what failed, waits as long as it is told to."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from app.bindings import http
from app.bindings.documents import FormatName
from app.bindings.record import Decoded
from app.cli import event_input
from app.cli.client import EventsClient, Mode
from app.errors import SenderError

Handler = Callable[[httpx.Request], httpx.Response]


class Server:
    """Answers in turn; the last answer goes on."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def ids(self, number: int) -> list[str]:
        request = self.requests[number]
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        return [each.event.id for each in http.decode(headers, request.content)]

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def client(
        self, retries: int = 3, key: str | None = None, name: FormatName = "as_received"
    ) -> EventsClient:
        transport = httpx.MockTransport(self)
        return EventsClient(
            "http://x/events", retries=retries, transport=transport, sleep=self.sleep, key=key,
            format=name,
        )  # fmt: skip


def events(count: int = 1) -> list[Decoded]:
    return event_input.make(event_input.Recipe("t", "/s", id="e", data=b'{"a": 1.10}'), count)


def receipts(*indexes: int) -> httpx.Response:
    entries = [
        {"index": index, "route": "r", "broker": "b", "topic": "t", "partition": 0, "position": "1"}
        for index in indexes
    ]
    return httpx.Response(200, json=entries)


def fates(*statuses: int, retryable: bool = True) -> httpx.Response:
    entries = [
        {"index": index, "status": status}
        | (
            {"receipt": {"broker": "b", "topic": "t", "partition": 0, "position": str(index)}}
            if status == 202
            else {"cause": {"code": "c", "detail": "d", "retryable": retryable}}
        )
        for index, status in enumerate(statuses)
    ]
    return httpx.Response(
        503, json={"title": "some", "events": entries}, headers={"retry-after": "2"}
    )


@pytest.mark.parametrize("mode", ["binary", "structured", "batch"])
async def test_an_accepted_event_comes_with_its_receipt(mode: Mode) -> None:
    """In each content mode; receipts are asked for."""
    server = Server(receipts(0))
    (fate,) = await server.client().send(events(), mode)
    assert fate.accepted
    assert fate.receipts[0]["position"] == "1"
    assert server.requests[0].headers["prefer"] == "return=representation"


@pytest.mark.parametrize("mode", ["structured", "batch"])
async def test_json_data_goes_out_as_it_was_given(mode: Mode) -> None:
    """1.10 stays 1.10."""
    server = Server(receipts(0))
    await server.client().send(events(), mode)
    assert b'"data":{"a": 1.10}' in server.requests[0].content


async def test_503_is_repeated_after_the_seconds_it_names() -> None:
    """Retry-After is the server's word, not a hint."""
    server = Server(httpx.Response(503, headers={"retry-after": "7"}), receipts(0))
    (fate,) = await server.client().send(events(), "binary")
    assert fate.accepted
    assert (server.waits, fate.attempts) == ([7.0], 2)


async def test_of_a_batch_only_what_failed_is_sent_again() -> None:
    """A 503 for one event must not double the others (design: HTTP)."""
    server = Server(fates(202, 503, 202), receipts(0))
    found = await server.client().send(events(3), "batch")
    assert all(fate.accepted for fate in found)
    assert server.ids(0) == ["e-1", "e-2", "e-3"]
    assert server.ids(1) == ["e-2"]


async def test_an_event_for_two_places_is_accepted_when_both_have_it() -> None:
    """One entry a place; the worst one counts."""
    entries = [
        {"index": 0, "status": 202, "receipt": {"topic": "a"}},
        {"index": 0, "status": 503, "cause": {"code": "c", "detail": "d", "retryable": True}},
    ]
    server = Server(httpx.Response(503, json={"events": entries}))
    (fate,) = await server.client(retries=0).send(events(), "binary")
    assert not fate.accepted
    assert fate.status == 503


async def test_what_only_a_person_can_mend_is_not_repeated() -> None:
    """An unknown topic stays unknown however long one waits."""
    server = Server(fates(503, retryable=False))
    (fate,) = await server.client().send(events(), "binary")
    assert (len(server.requests), fate.accepted) == (1, False)
    assert fate.problem is not None
    assert fate.problem["title"] == "d"


@pytest.mark.parametrize("status", [400, 404, 413, 415, 422])
async def test_a_refusal_is_final_and_keeps_its_problem(status: int) -> None:
    """The same bytes would be refused again."""
    problem = {"title": "no", "faults": [{"detail": "x", "at": "header ce-id"}]}
    server = Server(httpx.Response(status, json=problem))
    (fate,) = await server.client().send(events(), "binary")
    assert len(server.requests) == 1
    assert fate.problem == problem


async def test_retries_end() -> None:
    """A service that stays away is told to the user, not waited for without end."""
    server = Server(httpx.Response(503))
    (fate,) = await server.client(retries=3).send(events(), "binary")
    assert (len(server.requests), fate.status) == (4, 503)
    assert server.waits == [0.5, 1.0, 2.0]


async def test_a_connection_that_fails_is_tried_again() -> None:
    """A restart of the service in the middle of a file of events."""
    outcomes: list[Exception | httpx.Response] = [httpx.ConnectError("refused"), receipts(0)]

    def handle(_: httpx.Request) -> httpx.Response:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    client = EventsClient(
        "http://x/events", transport=httpx.MockTransport(handle), sleep=Server().sleep
    )
    (fate,) = await client.send(events(), "binary")
    assert fate.accepted


async def test_a_connection_that_never_comes_is_an_error() -> None:
    """Exit code 3: nothing answers there."""

    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    client = EventsClient(
        "http://x/events", retries=1, transport=httpx.MockTransport(refuse), sleep=Server().sleep
    )
    with pytest.raises(httpx.ConnectError):
        await client.send(events(), "binary")


async def test_the_key_travels_in_its_header() -> None:
    """K7: the sender's own record key."""
    server = Server(receipts(0))
    await server.client(key="order-7").send(events(), "binary")
    assert server.requests[0].headers["skybridge-key"] == "order-7"


def _documents(*lines: str) -> bytes:
    return "\n".join(lines).encode()


E1 = '{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1.10}'
E2 = '{"specversion":"1.0","id":"2","source":"/s","type":"t"}'


@pytest.mark.parametrize(
    "content",
    [
        _documents(E1, E2),
        _documents(E1, "", E2, ""),
        f"[{E1}, {E2}]".encode(),
        f"  [\n{E1},\n{E2}]\n".encode(),
    ],
)
def test_files_of_events_are_read_in_each_form(content: bytes) -> None:
    """JSON lines or a batch, nobody has to say which."""
    found = event_input.read(content)
    assert [each.event.id for each in found] == ["1", "2"]
    assert found[0].event.data == b"1.10"


def test_a_file_with_one_event_over_many_lines_is_one_event() -> None:
    """Pretty-printed JSON is not JSON lines."""
    found = event_input.read(json.dumps(json.loads(E1), indent=2).encode())
    assert [each.event.id for each in found] == ["1"]


@pytest.mark.parametrize(
    ("data", "content_type"),
    [(b'{"a":1}', "application/json"), (b"hello", "text/plain; charset=utf-8"), (None, None)],
)
def test_content_type_is_told_by_the_data(data: bytes | None, content_type: str | None) -> None:
    """Nothing is declared where there is no data."""
    (made,) = event_input.make(event_input.Recipe("t", "/s", data=data), 1)
    assert made.event.datacontenttype == content_type


def test_each_of_many_events_has_an_id_of_its_own() -> None:
    """source and id identify an event (core 1.1)."""
    given = event_input.make(event_input.Recipe("t", "/s", id="e"), 3)
    own = event_input.make(event_input.Recipe("t", "/s"), 3)
    assert [each.event.id for each in given] == ["e-1", "e-2", "e-3"]
    assert len({each.event.id for each in own}) == 3


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("structured", "json"), ("structured", "protobuf"), ("structured", "avro"),
        ("batch", "json"), ("batch", "protobuf"), ("batch", "as_received"),
    ],
)  # fmt: skip
async def test_documents_go_in_the_format_asked_for(mode: Mode, name: FormatName) -> None:
    """send --mode, --format: what arrives reads back as the events that were given."""
    sent = events(2 if mode == "batch" else 1)
    server = Server(receipts(*range(len(sent))))
    await server.client(name=name).send(sent, mode)
    content_type = server.requests[0].headers["content-type"]
    assert content_type.split(";")[0].endswith("json" if name == "as_received" else name)
    assert server.ids(0) == [each.event.id for each in sent]


async def test_a_format_without_batches_is_said_before_anything_is_sent() -> None:
    """Avro has none (spec 2.4)."""
    server = Server(receipts(0))
    with pytest.raises(SenderError, match="avro"):
        await server.client(name="avro").send(events(2), "batch")
    assert server.requests == []
