"""``/v1/dead-letters``: pages, counts, one, discard, redrive; over a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from admin_app import admin_app, client_of
from app.api.http import parameters
from app.bindings.amqp_table import from_table
from app.bindings.record import Record
from app.interfaces import DeadLetterFilter
from app.model.message import Message, Partition
from app.model.route import Route
from letters_service import BEGIN_MS, FakeLettersService, a_letter, a_message, a_row, an_attempt

PATH = "/v1/dead-letters"
ALL = DeadLetterFilter()


class Present:
    """The service of the test that runs: to make an application takes longer than most tests of it."""

    service: FakeLettersService

    def __getattr__(self, name: str) -> Any:
        return getattr(self.service, name)


@pytest.fixture(scope="module")
def present() -> Present:
    return Present()


@pytest.fixture(scope="module")
def app(present: Present) -> Any:
    return admin_app(present)


@pytest.fixture
async def service(tmp_path: Path, present: Present) -> AsyncIterator[FakeLettersService]:
    present.service = FakeLettersService(tmp_path)
    await present.service.store.start()
    yield present.service
    await present.service.store.stop()


@pytest.fixture
async def client(service: FakeLettersService, app: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client


async def fill(service: FakeLettersService, *letters: Any) -> None:
    for letter in letters:
        await service.store.letters.add(letter)


async def ids(client: httpx.AsyncClient, path: str) -> list[str]:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return [one["message"]["event"]["id"] for one in answer.json()["dead_letters"]]


async def test_the_newest_come_first_and_next_leads_through_all_of_them(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """Each letter on one page, whatever comes in between: pages go by id."""
    await fill(service, *map(a_letter, range(7)))
    seen, path = [], f"{PATH}?limit=3&cause=status-415"
    while path:
        page = (await client.get(path)).json()
        seen += [one["message"]["event"]["id"] for one in page["dead_letters"]]
        if len(seen) == 3:
            await fill(service, a_letter(100))
        path = page["next"]
    assert seen == ["6", "5", "4", "3", "2", "1", "0"]


async def test_a_page_is_bounded_in_bytes(
    service: FakeLettersService, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 8: a thousand letters of a megabyte each are not one answer; one is always given."""
    monkeypatch.setattr(parameters, "PAGE_BYTES", 1000)
    big = b'"' + b"x" * 2000 + b'"'
    await fill(service, *(a_letter(n, message=a_message(n, body=big)) for n in range(3)))
    page = (await client.get(PATH)).json()
    assert len(page["dead_letters"]) == 1
    assert await ids(client, page["next"]) == ["1"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("subscription=mail", ["3"]),
        ("subscription=mail&subscription=billing", ["3", "2", "1", "0"]),
        ("subscription=mail&subscription=gone", ["3"]),
        ("cause=status-400", ["2"]),
        ("cause=status-400&cause=timeout", ["3", "2"]),
        ("since=2026-01-01T00:00:02Z", ["3", "2"]),
        (f"until={BEGIN_MS + 2000}", ["1", "0"]),
        ("source=/other", ["1"]),
        ("type=com.example.refund", ["0"]),
        ("type=com.example.*", ["3", "2", "1", "0"]),
        ("type=com.example.r*&cause=status-415", ["0"]),
        ("id=1&id=2", ["1", "0"]),
        ("type=COM.*", []),
    ],
)
async def test_filters_choose(
    service: FakeLettersService, client: httpx.AsyncClient, query: str, found: list[str]
) -> None:
    """An operator names the incident, not the letters; list and count agree."""
    await fill(
        service,
        a_letter(0, type_="com.example.refund"),
        a_letter(1, source="/other"),
        a_letter(2, cause="status-400"),
        a_letter(3, subscription="mail", cause="timeout"),
    )
    assert await ids(client, f"{PATH}?{query}") == found
    assert (await client.get(f"{PATH}/count?{query}")).json()["total"] == len(found)


async def test_a_list_without_messages_names_the_events(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """A list of a hundred thousand shows no payload: that is a tenth of the bytes."""
    await fill(service, a_letter(1))
    (letter,) = (await client.get(f"{PATH}?messages=false")).json()["dead_letters"]
    assert letter["event"] == {"id": "1", "source": "/shop", "type": "com.example.order"}
    assert letter["message"] is None
    assert letter["detail"] == "415 no"


async def test_counts_over_time_have_their_interval_and_cause(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """Of what is chosen, from since on."""
    letters = [a_letter(n, cause="timeout" if n == 2 else "status-415") for n in range(12)]
    await fill(service, *letters)  # one a second
    path = f"{PATH}/count?since={BEGIN_MS}&until={BEGIN_MS + 11_000}&every=10"
    answer = (await client.get(path)).json()
    assert answer["over_time"] == [
        {"at_ms": BEGIN_MS, "cause": "status-415", "count": 9},
        {"at_ms": BEGIN_MS, "cause": "timeout", "count": 1},
        {"at_ms": BEGIN_MS + 10_000, "cause": "status-415", "count": 1},
    ]
    assert answer["total"] == 11


@pytest.mark.parametrize("query", ["every=60", f"every=1&since={BEGIN_MS}"])
async def test_counts_over_time_are_bounded(
    service: FakeLettersService, client: httpx.AsyncClient, query: str
) -> None:
    """Rule 8: seconds since 1970 are no answer."""
    answer = await client.get(f"{PATH}/count?{query}")
    assert answer.status_code == 422
    assert answer.json()["type"].endswith("too-many-intervals")
    assert "Raise every or since" in answer.json()["detail"]


async def test_counts_are_by_subscription_and_cause(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """The first question after an alarm."""
    await fill(service, a_letter(0), a_letter(1), a_letter(2, subscription="mail", cause="timeout"))
    assert (await client.get(f"{PATH}/count")).json() == {
        "total": 3,
        "counts": [
            {"subscription": "billing", "cause": "status-415", "count": 2},
            {"subscription": "mail", "cause": "timeout", "count": 1},
        ],
        "over_time": [],
    }


async def test_one_shows_event_record_and_the_attempts_of_this_message_alone(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """Everything that is known of it in one place; failures of the store and of memory once each."""
    await fill(service, a_letter(1))
    await service.store.attempts.add(
        [an_attempt(1), an_attempt(2), an_attempt(1, position="99"), an_attempt(9, event=9)]
    )
    service.remembered = [an_attempt(2), an_attempt(3, outcome="dead-letter")]
    found = (await client.get(f"{PATH}/1")).json()
    assert found["message"]["event"]["id"] == "1"
    assert found["message"]["record"]["body"] == "{}"
    assert [(one["number"], one["outcome"]) for one in found["history"]] == [
        (3, "dead-letter"),
        (2, "retry"),
        (1, "retry"),
    ]


async def test_a_letter_that_is_no_event_is_shown_as_its_record(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """on_foreign: dead_letter. Bytes that are no text come as base64."""
    record = Record(b"\xff", (("x", None),), b"\xfe")
    message = Message(record, Partition("orders", 0), "5", 5, BEGIN_MS, 0)
    await fill(service, a_letter(5, message=message, cause="foreign"))
    found = (await client.get(f"{PATH}/1")).json()
    assert found["message"]["fault"]
    assert found["message"]["record"]["body_base64"] == "/g=="
    assert (await client.get(PATH)).status_code == 200


async def test_values_of_headers_that_are_no_text_are_shown_as_they_were_typed(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """RabbitMQ's: null beside its name would say that there was none."""
    record = from_table({"ce-f": 1.5, "ce-t": {"a": [Decimal("1.10")]}, "x": "1"}, None, b"x")
    message = Message(record, Partition("orders", 0), "5", 5, BEGIN_MS, 0)
    await fill(service, a_letter(5, message=message, cause="foreign"))
    found = (await client.get(f"{PATH}/1")).json()
    assert found["message"]["record"]["headers"] == [
        {"name": "ce-f", "value": None, "typed": 1.5},
        {"name": "ce-t", "value": None, "typed": {"a": ["1.10"]}},
        {"name": "x", "value": "1"},
    ]


async def test_what_no_text_holds_is_shown_in_replacement_characters(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """A broker brings any bytes, and the store keeps them: whoever looks is not to meet a 500."""
    odd = Record(None, (("a\udcff", b"\xff"),), b"x", "text/\udcff")
    message = Message(odd, Partition("orders", 0), "5", 5, BEGIN_MS, 0)
    await fill(service, a_letter(5, message=message))
    (shown,) = (await client.get(PATH, params={"raw": "true"})).json()["dead_letters"]
    assert shown["message"]["record"]["content_type"] == "text/\ufffd"


async def test_without_dry_run_false_nothing_is_changed(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """A request that was sent to look must not throw away."""
    await fill(service, a_letter(0), a_letter(1))
    for verb, done in (("discard", "discarded"), ("redrive", "redriven")):
        for body in ({}, {"dry_run": True}):
            answer = (await client.post(f"{PATH}:{verb}", json=body)).json()
            assert (answer["dry_run"], answer["matched"], answer[done]) == (True, 2, 0)
    assert sum((await service.store.letters.count(ALL)).values()) == 2
    assert await service.store.parked.find() == []


async def test_discard_throws_away_what_is_chosen_and_nothing_else(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    await fill(service, a_letter(0), a_letter(1, cause="timeout"))
    body = {"cause": ["timeout"], "dry_run": False}
    answer = (await client.post(f"{PATH}:discard", json=body)).json()
    assert (answer["matched"], answer["discarded"]) == (1, 1)
    assert await service.store.letters.count(ALL) == {("billing", "status-415"): 1}


async def test_a_redrive_moves_the_oldest_and_says_what_is_left(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """In the order they were given up, in portions; the rows are whole and start anew."""
    await fill(service, *map(a_letter, range(5)))
    body = {"subscription": "billing", "limit": 3, "dry_run": False, "rate": 2}
    answer = (await client.post(f"{PATH}:redrive", json=body)).json()
    assert (answer["matched"], answer["redriven"], answer["left"]) == (5, 3, 2)
    rows = await service.store.parked.find()
    assert [row.event.id for row in rows] == ["0", "1", "2"]
    assert [row.due_ms - rows[0].due_ms for row in rows] == [0, 500, 1000]
    assert all(row.redriven and row.attempts == 0 for row in rows)
    answer = (await client.post(f"{PATH}:redrive", json=body)).json()
    assert (answer["redriven"], answer["left"]) == (2, 0)
    assert await service.store.letters.count(ALL) == {}


@pytest.mark.parametrize("rate", ["1e-5", "1e-16", "1e-300", "1e-310"])
async def test_a_rate_at_which_the_last_would_never_go_is_refused(
    service: FakeLettersService, client: httpx.AsyncClient, rate: str
) -> None:
    """Moments beyond all calendars fit no column; slower than one a day is a mistake."""
    await fill(service, *(a_letter(number) for number in range(3)))
    content = f'{{"subscription": "billing", "dry_run": false, "rate": {rate}}}'
    headers = {"content-type": "application/json"}
    answer = await client.post(f"{PATH}:redrive", content=content, headers=headers)
    assert answer.status_code == 422, answer.text
    assert answer.json()["faults"][0]["at"] == "body.rate"
    assert sum((await service.store.letters.count(ALL)).values()) == 3


@pytest.mark.parametrize("verb", ["redrive", "discard"])
@pytest.mark.parametrize(
    ("wanted", "matched"),
    [("mail", 1), (["mail"], 1), (["billing", "mail"], 3), ([], 3), (None, 3)],
)
async def test_an_order_takes_one_subscription_or_a_list(
    service: FakeLettersService, client: httpx.AsyncClient, verb: str, wanted: object, matched: int
) -> None:
    await fill(service, a_letter(0), a_letter(1), a_letter(2, subscription="mail"))
    body = {"subscription": wanted, "dry_run": False}
    answer = (await client.post(f"{PATH}:{verb}", json=body)).json()
    done = answer["redriven" if verb == "redrive" else "discarded"]
    assert (answer["matched"], done) == (matched, matched)
    assert sum((await service.store.letters.count(ALL)).values()) == 3 - matched


@pytest.mark.parametrize("wanted", [1, [1], [""], {"a": "b"}, ["a"] * 101, [["a"]]])
async def test_an_order_refuses_what_names_no_subscription(
    client: httpx.AsyncClient, wanted: object
) -> None:
    answer = await client.post(f"{PATH}:redrive", json={"subscription": wanted})
    assert answer.status_code == 422, answer.text


async def test_each_named_subscription_that_is_gone_is_named(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    await fill(service, a_letter(0))
    body = {"subscription": ["billing", "gone", "lost"], "dry_run": False}
    answer = await client.post(f"{PATH}:redrive", json=body)
    assert answer.status_code == 409
    assert "gone, lost: the subscription does not exist" in answer.json()["detail"]
    assert sum((await service.store.letters.count(ALL)).values()) == 1


async def test_letters_of_a_subscription_that_is_gone_are_skipped_and_named(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """Nobody would ever send them: as rows they would wait unseen for ever."""
    await fill(
        service, a_letter(0), a_letter(1, subscription="gone"), a_letter(2, subscription="mail")
    )
    answer = (await client.post(f"{PATH}:redrive", json={"dry_run": False})).json()
    assert (answer["matched"], answer["redriven"], answer["left"]) == (3, 2, 0)
    (skipped,) = answer["skipped"]
    assert (skipped["subscription"], skipped["count"]) == ("gone", 1)
    assert await service.store.letters.count(ALL) == {("gone", "status-415"): 1}


async def test_a_named_subscription_that_is_gone_is_409(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """A misspelt name is told, not answered with zero."""
    await fill(service, a_letter(0, subscription="gone"))
    for path, body in ((f"{PATH}:redrive", {"subscription": "gone"}), (f"{PATH}/1:resend", None)):
        answer = await client.post(path, json=body)
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:skybridge:problem:no-such-subscription"


@pytest.mark.parametrize("name", ["spool:orders", "spool:orders@a-log"])
async def test_letters_of_a_spool_are_redriven_though_nobody_can_create_its_subscription(
    service: FakeLettersService, client: httpx.AsyncClient, name: str
) -> None:
    """What the target refused for good was acknowledged, and goes on once the target is mended."""
    to = {"broker": "log", "topic": "orders"}
    spool = {"broker": "kept", "max": "1GiB"}
    await fill(service, a_letter(0, subscription=name))
    gone = await client.post(f"{PATH}:redrive", json={"subscription": name})
    assert gone.status_code == 409  # no route has such a spool
    service.routes = [Route.model_validate({"name": "orders", "to": to, "spool": spool})]
    answer = await client.post(f"{PATH}:redrive", json={"subscription": name, "dry_run": False})
    assert (answer.json()["redriven"], answer.json()["skipped"]) == (1, [])
    assert list(await service.store.parked.count()) == [name]


async def test_a_redrive_says_whose_letters_will_wait(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """A bar that never moves needs a reason."""
    service.paused = {"mail"}
    await service.store.halts.halt("billing", "disabled", "status-410", 0)
    await fill(service, a_letter(0), a_letter(1, subscription="mail"))
    answer = (await client.post(f"{PATH}:redrive", json={})).json()
    assert answer["waiting"] == {
        "billing": "disabled: status-410",
        "mail": "paused by its configuration",
    }


async def test_resend_is_a_redrive_of_one(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    await fill(service, a_letter(0), a_letter(1))
    answer = (await client.post(f"{PATH}/2:resend")).json()
    assert (answer["matched"], answer["redriven"]) == (1, 1)
    assert [row.event.id for row in await service.store.parked.find()] == ["1"]
    assert (await client.post(f"{PATH}/2:resend")).status_code == 404


async def test_a_redrive_that_is_repeated_moves_nothing_twice(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """An answer that was lost is asked for again."""
    await fill(service, a_letter(0))
    body = {"dry_run": False}
    assert (await client.post(f"{PATH}:redrive", json=body)).json()["redriven"] == 1
    assert (await client.post(f"{PATH}:redrive", json=body)).json()["redriven"] == 0
    assert len(await service.store.parked.find()) == 1


BAD_QUERIES = [
    "limit=0", "limit=1001", "limit=x", "before=0", "before=99999999999999999999", "since=yesterday",
    "since=2026-01-01", "until=-1", "until=99999999999999999999", "type=", "type=%00", "source=%00",
    "cause=", "id=0", "id=x", "id=9223372036854775808", "subscritpion=billing", "raw=maybe",
]  # fmt: skip


@pytest.mark.parametrize("query", BAD_QUERIES)
async def test_a_bad_query_is_a_problem_that_names_its_place(
    client: httpx.AsyncClient, query: str
) -> None:
    """A misspelt filter must not choose everything; nothing that is sent is our fault."""
    answer = await client.get(f"{PATH}?{query}")
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert query.partition("=")[0] in answer.json()["faults"][0]["at"]


async def test_every_fault_is_listed(client: httpx.AsyncClient) -> None:
    """Corrected in one go."""
    body = {"rate": -1, "limit": 0, "since": "x", "dry_run": "perhaps", "subscritpion": "billing"}
    answer = await client.post(f"{PATH}:redrive", json=body)
    assert {fault["at"] for fault in answer.json()["faults"]} == {f"body.{name}" for name in body}


BAD_BODIES = [
    b"", b"{", b"null", b"[]", b'"x"', b"\xff", b'{"rate": NaN}', b'{"rate": 1e999}',
    b'{"rate": Infinity}', b'{"\\ud800": 1}', b'{"type": "\\ud800"}', b'{"type": "\\u0000"}',
    b'{"id": [true]}', b'{"id": ["1"]}', b'{"dry_run": "false"}', b'{"id": [1.5]}', b'{"since": true}', b'{"since": {}}', b'{"cause": "x"}',
    b'{"dry_run": null}', b'{"limit": ' + b"9" * 5000 + b"}", b"[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("verb", ["redrive", "discard"])
@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: repr(body[:20]))
async def test_a_bad_body_is_a_problem(client: httpx.AsyncClient, verb: str, body: bytes) -> None:
    """4xx, whatever was sent: halves of characters, numbers that are none, no JSON at all."""
    content = {"content-type": "application/json"}
    answer = await client.post(f"{PATH}:{verb}", content=body, headers=content)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("letter", ["0", "x", "9223372036854775808", "-1", "1.5"])
async def test_an_id_that_is_none_is_a_problem(client: httpx.AsyncClient, letter: str) -> None:
    for answer in (
        await client.get(f"{PATH}/{letter}"),
        await client.post(f"{PATH}/{letter}:resend"),
    ):
        assert answer.status_code == 422


async def test_a_letter_that_is_not_there_is_404(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"{PATH}/17")
    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:skybridge:problem:no-such-dead-letter"


async def test_a_store_that_does_not_answer_is_503(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """Ours, and for now."""
    await service.store.stop()
    for answer in (
        await client.get(PATH),
        await client.get(f"{PATH}/count"),
        await client.get("/v1/parked"),
        await client.get("/v1/attempts"),
        await client.post(f"{PATH}:redrive", json={"dry_run": False}),
    ):
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:skybridge:problem:store-unavailable"


# --- parked


async def test_parked_rows_are_paged_in_their_order(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """What waits and why; its message only where it is asked for."""
    await service.store.parked.park([a_row(n) for n in range(5)])
    first = (await client.get("/v1/parked?limit=3")).json()
    assert [one["event"]["id"] for one in first["parked"]] == ["0", "1", "2"]
    assert (first["parked"][0]["key"], first["parked"][0]["cause"]) == ("k", "status-503")
    assert "message" not in first["parked"][0]
    rest = (await client.get(f"{first['next']}&messages=true")).json()
    assert [one["message"]["event"]["id"] for one in rest["parked"]] == ["3", "4"]
    assert rest["next"] is None


async def test_keys_that_wait_are_told_by_their_oldest(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """Which customer waits, how much of it, why, until when."""
    await service.store.parked.park([a_row(1, key=b"a"), a_row(2, key=b"b"), a_row(3, key=b"a")])
    await service.store.parked.park([a_row(4, key=b"c", subscription="mail", cause="timeout")])
    found = (await client.get("/v1/parked/keys?subscription=billing")).json()["keys"]
    assert [(one["key"], one["rows"], one["event"]["id"]) for one in found] == [
        ("a", 2, "1"),
        ("b", 1, "2"),
    ]
    assert len((await client.get("/v1/parked/keys?limit=2")).json()["keys"]) == 2


async def test_counts_of_parked_rows_tell_redriven_ones_apart(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """A redrive is followed by this number."""
    await service.store.parked.park([a_row(1), a_row(2)])
    await fill(service, a_letter(3))
    await client.post(f"{PATH}:redrive", json={"dry_run": False})
    (count,) = (await client.get("/v1/parked/count")).json()["counts"]
    assert (count["subscription"], count["rows"], count["redriven"]) == ("billing", 3, 1)


@pytest.mark.parametrize(
    "query", ["limit=0", "after=-1", "after=9223372036854775808", "subscription="]
)
async def test_a_bad_query_of_parked_is_a_problem(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"/v1/parked?{query}")).status_code == 422


# --- attempts


async def test_attempts_of_store_and_memory_are_one_list(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """By default successes are in memory alone, failures in both."""
    await service.store.attempts.add([an_attempt(1), an_attempt(2)])
    service.remembered = [an_attempt(3, outcome="delivered"), an_attempt(2)]
    found = (await client.get("/v1/attempts")).json()["attempts"]
    assert [(one["number"], one["outcome"]) for one in found] == [
        (3, "delivered"),
        (2, "retry"),
        (1, "retry"),
    ]
    assert found[0]["event"] == {"id": "1", "source": "/shop", "type": "com.example.order"}


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("subscription=mail", [4]),
        ("event_id=2", [5, 3]),
        ("outcome=delivered", [5]),
        ("event_id=2&outcome=retry", [3]),
        ("limit=1", [5]),
    ],
)
async def test_attempts_are_chosen(
    service: FakeLettersService, client: httpx.AsyncClient, query: str, numbers: list[int]
) -> None:
    """Why did this one not arrive?"""
    await service.store.attempts.add(
        [an_attempt(1), an_attempt(3, event=2), an_attempt(4, subscription="mail")]
    )
    service.remembered = [an_attempt(5, event=2, outcome="delivered")]
    found = (await client.get(f"/v1/attempts?{query}")).json()["attempts"]
    assert [one["number"] for one in found] == numbers


async def test_an_event_that_was_never_tried_is_found_behind_the_one_it_waits_for(
    service: FakeLettersService, client: httpx.AsyncClient
) -> None:
    """Why did this one not arrive? Of its own it has no attempt to tell."""
    await service.store.parked.park([a_row(1, key=b"a"), a_row(2, key=b"a")])
    place = {"subscription": "billing", "topic": "orders", "partition": 0}
    first, second = (
        {"id": number, "source": "/shop", "type": "com.example.order"} for number in "12"
    )
    for event, behind in ((first, None), (second, first)):
        answer = (await client.get(f"/v1/attempts?event_id={event['id']}")).json()
        assert answer == {
            "attempts": [],
            "waiting": [
                {**place, "position": event["id"], "event": event, "behind": behind, "parked": True}
            ],
        }


@pytest.mark.parametrize(
    "query", ["", "?event_id=9", "?event_id=1&subscription=mail", "?event_id=1&outcome=retry"]
)
async def test_what_waits_is_told_of_one_event_alone(
    service: FakeLettersService, client: httpx.AsyncClient, query: str
) -> None:
    """All of them are under /v1/parked."""
    await service.store.parked.park([a_row(1)])
    assert (await client.get(f"/v1/attempts{query}")).json()["waiting"] == []


@pytest.mark.parametrize("query", ["outcome=perhaps", "limit=0", "event_id=%00", "subscription="])
async def test_a_bad_query_of_attempts_is_a_problem(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"/v1/attempts?{query}")).status_code == 422
