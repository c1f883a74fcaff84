"""Events that webhooks answer with: what is taken for one, where it goes, what failing means."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from app.bindings import kafka
from app.bindings.record import Decoded
from app.delivery.outcomes import Fate, judge
from app.errors import BoundReached, BrokerRefused, BrokerUnavailable, PublishUnknown
from app.interfaces import SinkAnswer
from app.model.log_name import LogName
from app.model.message import Partition
from app.model.route import Route
from app.routing.plan import Router
from app.sinks.replies import HOPS, MAX_HOPS, ReplyPublisher
from app.telemetry import Counters
from fake_log import FakeLog
from worker_doubles import an_event

BINARY = (
    (b"Content-Type", b"text/plain"),
    (b"ce-specversion", b"1.0"),
    (b"Ce-Id", b"r%20%C3%BC"),
    (b"CE-SOURCE", b"/answers"),
    (b"ce-type", b"done"),
)
DOCUMENT = b'{"specversion":"1.0","id":"d","source":"/s","type":"t"}'
STRUCTURED = ((b"content-type", b"application/cloudevents+json"),)
BATCH = ((b"content-type", b"application/cloudevents-batch+json"),)
ANSWERED = kafka.decode(an_event(1))


@dataclass
class House:
    log: FakeLog
    counters: Counters
    replies: ReplyPublisher

    async def take(
        self,
        headers=BINARY,
        body: bytes = b"ok",
        *,
        answered: Decoded = ANSWERED,
        key: bytes | None = None,
        cut: bool = False,
    ) -> SinkAnswer:
        return await self.replies.take(
            SinkAnswer(200, headers=tuple(headers), body=body, cut=cut), [answered], key
        )

    @property
    def stored(self):
        return [record for record, _ in self.log.partitions[Partition("answers", 0)]]

    @property
    def ids(self) -> list[str]:
        return [kafka.decode(record).event.id for record in self.stored]

    @property
    def counted(self) -> dict[str, int]:
        values = self.counters.values().get("replies", {})
        return {labels[1]: count for labels, count in values.items()}


async def a_house(**route: object) -> House:
    log = FakeLog("log")
    await log.create_topic("answers", 1)
    routes = [
        Route.model_validate({"name": "other", "to": {"broker": "log", "topic": "other"}}),
        Route.model_validate(
            {"name": "answers", "to": {"broker": "log", "topic": "answers"}, **route}
        ),
    ]
    counters = Counters()
    replies = ReplyPublisher(
        "billing", "answers", Router(routes), {LogName("log"): log}, counters, 10
    )
    return House(log, counters, replies)


@pytest.fixture
async def house() -> House:
    return await a_house()


async def test_a_binary_reply_is_published_by_the_named_route(house: House) -> None:
    """H8 to H10 as on every way in: percent code, any case of names; the route's filters aside."""
    assert (await house.take()).status == 200
    (record,) = house.stored
    event = kafka.decode(record).event
    assert dict(event.attributes) == {
        "specversion": "1.0",
        "id": "r ü",
        "source": "/answers",
        "type": "done",
        "datacontenttype": "text/plain",
    }
    assert event.data == b"ok"
    assert house.counted == {"published": 1}


@pytest.mark.parametrize(
    ("headers", "body", "ids"),
    [
        (STRUCTURED, DOCUMENT, ["d"]),
        (BATCH, b"[" + DOCUMENT + b"," + DOCUMENT.replace(b'"d"', b'"e"') + b"]", ["d", "e"]),
        (BATCH, b"[]", []),
    ],
)
async def test_structured_and_batches_too(house: House, headers, body, ids) -> None:
    assert (await house.take(headers, body)).status == 200
    assert house.ids == ids


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ((), b""),
        (((b"content-type", b"application/json"),), DOCUMENT),
        (((b"content-type", b"text/html"),), b"<p>thanks"),
    ],
)
async def test_any_other_answer_is_an_answer(house: House, headers, body) -> None:
    """Only what says that it is an event is taken for one."""
    assert (await house.take(headers, body)).status == 200
    assert house.stored == []
    assert house.counted == {}


@pytest.mark.parametrize(
    ("headers", "body", "cut"),
    [
        (BINARY[:3], b"", False),
        (STRUCTURED, b"{broken", False),
        (STRUCTURED, b"", False),
        (BATCH, b"[" + DOCUMENT + b",{}]", False),
        (BATCH, b"[" + b",".join([DOCUMENT] * 11) + b"]", False),
        (STRUCTURED, DOCUMENT[:-1], True),
        (BINARY, b"o", True),
        ((*BINARY, (b"Content-Encoding", b"gzip")), b"\x1f\x8b", False),
        (((b"content-type", b"application/cloudevents+xml"),), b"<event/>", False),
    ],
)
async def test_an_unreadable_reply_is_counted_and_said_and_not_retried(
    house: House, headers, body, cut, caplog
) -> None:
    """The webhook dealt with the event: the same request would bring the same answer. Of a batch all
    or nothing is published."""
    answer = await house.take(headers, body, cut=cut)
    assert (answer.status, house.stored, house.counted) == (200, [], {"unreadable": 1})
    assert "a reply is not published (unreadable)" in caplog.text
    assert "cloudevents+xml" not in caplog.text  # nothing that a target answered is in the log


async def test_a_reply_that_its_route_refuses_is_said_and_not_retried(caplog) -> None:
    house = await a_house(key={"mapper": "partitionkey", "missing": "reject"})
    assert (await house.take()).status == 200
    assert house.counted == {"refused": 1}
    assert "No record key" in caplog.text


@pytest.mark.parametrize("kind", ["record-too-large", "not-capable", "rejected"])
async def test_so_is_one_that_no_time_will_make_fit(house: House, kind: str) -> None:
    house.log.refusals.append(BrokerRefused("too large", kind=kind))
    assert (await house.take()).status == 200
    assert house.counted == {"refused": 1}


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (BrokerUnavailable("away", retry_after=3.2), 4.0),
        (BoundReached("full"), 1.0),
        (PublishUnknown("nobody knows"), 0.0),
        (BrokerRefused("no such topic", kind="unknown-topic"), 0.0),
    ],
)
async def test_what_was_not_stored_makes_the_attempt_a_failure(house: House, error, waits) -> None:
    """Rule 2: settled before its reply is stored, the reply could be lost. A broker that is away is
    given time, and takes no step of the event's schedule (rule 6)."""
    house.log.refusals.append(error)
    answer = await house.take()
    assert (answer.status, answer.fault, answer.hold) == (None, "reply", waits)
    assert "answered 200" in answer.detail
    outcome = judge(answer.status, answer.fault, frozenset())
    assert outcome.fate is Fate.RETRY
    assert not outcome.endpoint_fault
    assert house.counted == {"unstored": 1}
    assert (await house.take()).status == 200
    assert house.ids == ["r ü"]


@pytest.mark.parametrize(
    ("headers", "key", "expected"),
    [
        (BINARY, None, None),
        (BINARY, b"\xffk", b"\xffk"),
        ((*BINARY, (b"Skybridge-Key", b"own")), b"k", b"own"),
    ],
)
async def test_the_key_is_the_answers_own_or_that_of_what_it_answers(
    house: House, headers, key, expected
) -> None:
    """So an answer keeps the order of its question, unless it says otherwise (K7)."""
    await house.take(headers, key=key)
    assert house.stored[0].key == expected


async def test_a_reply_to_a_reply_is_counted_beside_the_event_and_ends(house: House) -> None:
    """A webhook that is sent its own answers would answer for ever."""
    answered = ANSWERED
    for _ in range(MAX_HOPS + 3):
        await house.take(answered=answered)
        answered = kafka.decode(house.stored[-1])
    assert len(house.stored) == MAX_HOPS
    assert house.counted == {"published": MAX_HOPS, "looping": 3}
    assert dict(house.stored[-1].headers)[HOPS] == str(MAX_HOPS).encode()
    assert HOPS not in kafka.decode(house.stored[-1]).event.attributes


@pytest.mark.parametrize("value", [b"x", b"-1", b"99999999", None])
async def test_a_count_that_somebody_made_up_opens_no_circle(house: House, value) -> None:
    record = an_event(1)
    answered = kafka.decode(type(record)(record.key, (*record.headers, (HOPS, value)), record.body))
    await house.take(answered=answered)
    assert len(house.stored) <= 1


async def test_what_is_in_an_event_is_never_logged(house: House, caplog) -> None:
    body = json.dumps({"specversion": "1.0", "id": "canary-9", "source": "", "type": "t"})
    await house.take(STRUCTURED, body.encode())
    assert "canary" not in caplog.text
