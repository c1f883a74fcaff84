"""Whoever publishes to a topic that is not known yet gets an answer, whatever becomes of the question."""

from __future__ import annotations

import asyncio

import pytest

from app.bindings.record import Record
from app.brokers import topic_resolver as module
from app.brokers.portable import Submission
from app.brokers.topic_resolver import TopicResolver
from app.errors import BoundReached, BrokerError, BrokerRefused, BrokerUnavailable
from app.model.receipt import Receipt

MISSING = BrokerRefused("there is no such topic", kind="unknown-topic")
AWAY = BrokerUnavailable("out of reach")


class Ledger:
    """Counts what has left the bounds."""

    def __init__(self) -> None:
        self.released = 0

    def release(self, submission: Submission) -> None:
        self.released += 1
        if not submission.done():
            submission.set_result(submission.results)


class Broker:
    """Answers a question when it is told to; what it finds is a number."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.error: BaseException | None = None

    async def find(self, name: str) -> int:
        self.asked.append(name)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return len(self.asked)

    def answer(self, error: BaseException | None = None) -> None:
        self.error = error
        self.may_answer.set()


def join(found: int, submission: Submission) -> None:
    submission.resolve_all([Receipt("b", submission.topic, found, "")])


def translate(error: Exception, _: str) -> BrokerError | None:
    return error if isinstance(error, BrokerError) else None


@pytest.fixture
async def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
async def broker() -> Broker:
    return Broker()


@pytest.fixture
async def asking(broker: Broker) -> TopicResolver[int]:
    return TopicResolver("b", broker.find, join, translate)


def submitted(asking: TopicResolver[int], ledger: Ledger, topic: str = "orders") -> Submission:
    made = Submission(loop=asyncio.get_running_loop())
    made.owner, made.topic, made.size = ledger, topic, 0
    made.records, made.results, made.open = [Record(None, (), b"")], [None], 1
    asking.ask(made)
    return made


async def fate(submission: Submission) -> object:
    async with asyncio.timeout(60):
        (result,) = await submission
    return result


async def test_all_who_wait_share_one_question(
    asking: TopicResolver[int], broker: Broker, ledger: Ledger
) -> None:
    """A thousand senders at the first event of a topic are no thousand questions to the broker."""
    sent = [submitted(asking, ledger) for _ in range(20)]
    other = submitted(asking, ledger, "others")
    await asyncio.sleep(0)
    broker.answer()
    assert [await fate(each) for each in sent] == [Receipt("b", "orders", 2, "")] * 20
    await fate(other)
    assert broker.asked == ["orders", "others"]


async def test_whoever_comes_after_an_answer_asks_anew(
    asking: TopicResolver[int], broker: Broker, ledger: Ledger
) -> None:
    """What was found is the driver's to keep. Here nobody may be added to a question that has ended."""
    broker.answer()
    first = submitted(asking, ledger)
    late: list[Submission] = []
    first.add_done_callback(lambda _: late.append(submitted(asking, ledger)))
    await fate(first)
    assert isinstance(await fate(late[0]), Receipt)
    assert broker.asked == ["orders"] * 2


async def test_an_error_that_nobody_expects_leaves_nobody_waiting(
    asking: TopicResolver[int], broker: Broker, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a bug, told as such in the log; its records leave the bounds all the same (rule 8)."""
    sent = [submitted(asking, ledger) for _ in range(3)]
    broker.answer(KeyError("a bug"))
    assert {type(await fate(each)) for each in sent} == {BrokerUnavailable}
    assert ledger.released == 3
    assert "KeyError" in caplog.text


@pytest.mark.parametrize("begun", [True, False])
async def test_nobody_waits_when_it_stops(
    asking: TopicResolver[int], broker: Broker, ledger: Ledger, begun: bool
) -> None:
    """Also where the question had not even begun."""
    sent = submitted(asking, ledger)
    if begun:
        await asyncio.sleep(0)
    await asking.stop()
    assert len(broker.asked) == begun
    assert isinstance(await fate(sent), BrokerUnavailable)


async def test_a_client_that_gives_a_question_up_leaves_nobody_waiting(
    asking: TopicResolver[int], broker: Broker, ledger: Ledger
) -> None:
    """aiormq cancels what waits for an answer when it closes a connection."""
    sent = submitted(asking, ledger)
    broker.answer(asyncio.CancelledError())
    assert isinstance(await fate(sent), BrokerUnavailable)
    broker.answer()
    assert isinstance(await fate(submitted(asking, ledger)), Receipt)


async def test_one_that_cannot_be_joined_harms_no_other(broker: Broker, ledger: Ledger) -> None:
    def refuse_the_first(found: int, submission: Submission) -> None:
        if submission is sent[0]:
            raise ValueError("a bug")
        join(found, submission)

    asking = TopicResolver("b", broker.find, refuse_the_first, translate)
    sent = [submitted(asking, ledger) for _ in range(2)]
    broker.answer()
    assert [type(await fate(each)) for each in sent] == [BrokerUnavailable, Receipt]


async def test_what_was_answered_meanwhile_is_not_joined(
    asking: TopicResolver[int], broker: Broker, ledger: Ledger
) -> None:
    """Rule 9: it must not be sent any more; and it leaves the bounds."""
    gone, sent = submitted(asking, ledger), submitted(asking, ledger)
    gone.cancel()
    broker.answer()
    assert isinstance(await fate(sent), Receipt)
    assert (ledger.released, type(gone.results[0])) == (2, BrokerUnavailable)


async def test_a_refusal_is_remembered_for_a_moment(
    asking: TopicResolver[int], broker: Broker, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender that repeats what cannot be does not make the broker repeat it."""
    broker.answer(MISSING)
    assert await fate(submitted(asking, ledger)) is MISSING
    again = submitted(asking, ledger)
    assert again.done()
    assert await fate(again) is MISSING
    assert broker.asked == ["orders"]
    monkeypatch.setattr(module, "REFUSED_FOR", 0.0)
    asking.refuse("orders", MISSING)
    broker.answer()
    assert isinstance(await fate(submitted(asking, ledger)), Receipt)


@pytest.mark.parametrize(("remembered", "asked"), [(True, 1), (False, 2)])
async def test_an_outage_is_remembered_where_the_driver_wants_it(
    broker: Broker, ledger: Ledger, remembered: bool, asked: int
) -> None:
    asking = TopicResolver("b", broker.find, join, translate, remember_outages=remembered)
    broker.answer(AWAY)
    for _ in range(2):
        assert await fate(submitted(asking, ledger)) is AWAY
    assert len(broker.asked) == asked


async def test_questions_and_refusals_are_bounded(broker: Broker, ledger: Ledger) -> None:
    """Rule 8: names come from templates, templates from events."""
    asking = TopicResolver("b", broker.find, join, translate, most=3)
    sent = [submitted(asking, ledger, f"t{number}") for number in range(4)]
    assert isinstance(await fate(sent[3]), BoundReached)
    assert not sent[0].done()
    broker.answer(MISSING)
    assert {await fate(each) for each in sent[:3]} == {MISSING}
    for number in range(20):
        assert await fate(submitted(asking, ledger, f"u{number}")) is MISSING
    assert len(asking._refused) <= 3
    assert not asking._tasks
    assert not asking._waiting


async def test_a_question_that_was_given_up_may_still_answer(
    asking: TopicResolver[int], broker: Broker, ledger: Ledger
) -> None:
    """Those who wait while nobody can be asked are told so; those who come later get the answer."""
    sent = submitted(asking, ledger)
    await asyncio.sleep(0)
    asking.give_up(AWAY)
    assert await fate(sent) is AWAY
    later = submitted(asking, ledger)
    broker.answer()
    assert isinstance(await fate(later), Receipt)
    assert broker.asked == ["orders"]
