"""Several askers share one answer, and none of them can spoil it for the others."""

from __future__ import annotations

import asyncio

import pytest

from app.brokers.sharing import SingleFlight
from app.errors import BrokerUnavailable
from virtual_clock import VirtualClock


class Question:
    """Counts how often it is put; answers when it is told to."""

    def __init__(self) -> None:
        self.put = 0
        self.told = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.put += 1
        number = self.put
        await self.told.wait()
        if self.error is not None:
            raise self.error
        return number


async def test_who_asks_while_the_answer_is_coming_gets_that_one() -> None:
    """A scrape, a status page and a person at once are one question to the broker."""
    shared, question = SingleFlight(), Question()
    askers = [asyncio.create_task(shared.ask("all", question)) for _ in range(20)]
    await asyncio.sleep(0)
    question.told.set()
    assert await asyncio.gather(*askers) == [1] * 20
    assert await shared.ask("all", question) == 2  # an answer is not kept: it would be old


async def test_other_questions_have_their_own_answers() -> None:
    """Groups and topics differ."""
    shared, question = SingleFlight(), Question()
    question.told.set()
    assert await asyncio.gather(shared.ask("a", question), shared.ask("b", question)) == [1, 2]


async def test_an_asker_who_goes_away_takes_nothing_from_the_others() -> None:
    """A closed browser must not fail the scrape that asked the same."""
    shared, question = SingleFlight(), Question()
    first, second = (asyncio.create_task(shared.ask("all", question)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    question.told.set()
    assert await second == 1
    assert first.cancelled()


async def test_a_failure_is_told_to_all_and_not_kept() -> None:
    """The next one asks anew."""
    shared, question = SingleFlight(), Question()
    question.error = BrokerUnavailable("away")
    question.told.set()
    askers = [asyncio.create_task(shared.ask("all", question)) for _ in range(3)]
    for asker in askers:
        with pytest.raises(BrokerUnavailable, match="away"):
            await asker
    question.error = None
    assert await shared.ask("all", question) == 2


async def test_an_answer_serves_those_who_come_within_the_time_it_is_kept() -> None:
    """From when it was asked for; a failure is not kept."""
    clock = VirtualClock()
    shared, question = SingleFlight(reuse_for=3.0, monotonic=clock.monotonic), Question()
    question.told.set()
    assert await shared.ask("all", question) == 1
    await clock.advance(2.9)
    assert await shared.ask("all", question) == 1
    await clock.advance(0.1)
    question.error = BrokerUnavailable("away")
    with pytest.raises(BrokerUnavailable):
        await shared.ask("all", question)
    question.error = None
    assert await shared.ask("all", question) == 3


async def test_nothing_is_left_behind_when_it_is_closed() -> None:
    """A log that stops must not leave a question running."""
    shared, question = SingleFlight(), Question()
    asker = asyncio.create_task(shared.ask("all", question))
    await asyncio.sleep(0)
    await shared.close()
    with pytest.raises(BrokerUnavailable, match="is closing"):
        await asker
