"""Consent by callback: to whichever process it comes, the one that asked learns of it (spec 5.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from app.bindings.http import HttpMessage
from app.errors import StoreUnavailable
from app.interfaces import SinkAnswer
from app.sinks.handshake import CALLBACK_VALID, ConsentCallbacks, Handshake
from memory_store import MemoryStore

BASE = "https://bridge.example/"


class Here:
    """A store, the processes on it, and a webhook that consents to none of its questions at once."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.now = 0.0
        self.asking, self.called = self.process(), self.process()
        self.asked: list[str] = []
        self.said: list[str | None] = []

    def process(self) -> ConsentCallbacks:
        return ConsentCallbacks(BASE, self.store.consents, lambda: self.now)

    async def ask(
        self, url: str, message: HttpMessage, within: float
    ) -> tuple[SinkAnswer, Mapping[str, str]]:
        address = dict(message.headers).get("WebHook-Request-Callback", "")
        self.asked.append(key_of(address))
        return SinkAnswer(200), {}

    def handshake(self) -> tuple[Handshake, list[bool]]:
        """And what it said each time that it was ready."""
        made = Handshake(
            "https://h/",
            self,
            origin="o",
            required=True,
            callbacks=self.asking,
            name="billing",
            monotonic=lambda: self.now,
        )
        woken: list[bool] = []
        made.when_ready(lambda: woken.append(made.granted))
        return made, woken


@pytest.fixture
def here() -> Here:
    return Here()


def key_of(url: str) -> str:
    return url.rpartition("/")[2]


async def test_an_address_for_consent_serves_once_and_ends(here: Here) -> None:
    """Nobody can keep the key of yesterday."""
    first, second = [await here.asking.open("billing", here.said.append) for _ in range(2)]
    assert first != second
    assert await here.asking.call(key_of(first), "60")
    assert here.said == ["60"]  # told at once by the process that asked
    assert not await here.asking.call(key_of(first), "60")
    here.now = CALLBACK_VALID
    assert not await here.asking.call(key_of(second), None)
    assert here.said == ["60"]


async def test_the_store_has_no_key(here: Here) -> None:
    """Who reads it can consent to nothing."""
    address = await here.asking.open("billing", here.said.append)
    (digest,) = here.store.consents.rows
    assert key_of(address).encode() not in digest
    assert not await here.asking.call(digest.decode("latin-1"), None)


async def test_a_consent_at_another_process_is_found_by_a_look(here: Here) -> None:
    """Once, and by the process that asked."""
    other: list[str | None] = []
    await here.called.open("audit", other.append)
    address = await here.asking.open("billing", here.said.append)
    assert await here.called.call(key_of(address), "60")
    await here.called.look()
    assert here.said == []
    for _ in range(2):
        await here.asking.look()
    assert (here.said, other) == (["60"], [])


async def test_a_look_and_an_end_at_once_lose_no_consent(here: Here) -> None:
    """Whichever takes the row, it is told, and the end knows."""
    address = await here.asking.open("billing", here.said.append)
    await here.called.call(key_of(address), None)
    _, called = await asyncio.gather(here.asking.look(), here.asking.close(address))
    assert (here.said, called) == ([None], True)
    assert not await here.called.call(key_of(address), None)


async def test_a_store_that_is_away_is_no_answer(here: Here) -> None:
    """Neither is the address unknown, nor did anybody consent; the webhook calls again."""
    address = await here.asking.open("billing", here.said.append)
    here.store.trouble = "away"
    assert await here.called.call(key_of(address), None) is None
    with pytest.raises(StoreUnavailable):
        await here.asking.look()
    here.store.trouble = ""
    assert await here.called.call(key_of(address), None)
    await here.asking.look()
    assert here.said == [None]


async def test_without_the_store_the_question_goes_without_an_address(here: Here) -> None:
    """It may be answered at once."""
    here.store.trouble = "away"
    handshake, _ = here.handshake()
    await handshake.settle()
    assert here.asked == [""]
    await handshake.stop()


async def test_a_webhook_that_calls_back_before_it_answers_has_consented(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it answers then, without consent, takes nothing back."""
    answer = here.ask

    async def calls_back(
        url: str, message: HttpMessage, within: float
    ) -> tuple[SinkAnswer, Mapping[str, str]]:
        answered = await answer(url, message, within)
        assert await here.asking.call(here.asked[-1], "60")
        return answered

    monkeypatch.setattr(here, "ask", calls_back)
    handshake, woken = here.handshake()
    await handshake.settle()
    assert handshake.refusal() is None
    assert woken == [True]


async def test_a_callback_that_is_no_consent_wakes_nobody(here: Here) -> None:
    """And what waits is left alone until the webhook is asked again."""
    handshake, woken = here.handshake()
    await handshake.settle()
    refusal = handshake.refusal()
    assert refusal is not None
    assert refusal.hold == 60.0
    assert await here.asking.call(here.asked[0], "none")
    assert (woken, handshake.granted) == ([], False)


async def test_a_consent_that_came_just_before_the_next_question_counts(here: Here) -> None:
    """At another process, which thanked for it: no look was in between."""
    handshake, woken = here.handshake()
    await handshake.settle()
    assert await here.called.call(here.asked[0], None)
    here.now = 60.0
    await handshake.settle()
    assert (woken, handshake.refusal(), len(here.asked)) == ([True], None, 1)


async def test_the_next_question_ends_the_address_of_the_last(here: Here) -> None:
    handshake, woken = here.handshake()
    await handshake.settle()
    here.now = 60.0
    await handshake.settle()
    first, second = here.asked
    assert not await here.called.call(first, None)
    assert await here.called.call(second, None)
    await here.asking.look()
    assert woken == [True]
    assert here.store.consents.rows == {}


async def test_who_leaves_ends_the_address(here: Here) -> None:
    handshake, woken = here.handshake()
    await handshake.settle()
    await handshake.stop()
    assert not await here.called.call(here.asked[0], None)
    assert woken == []


async def test_a_webhook_that_is_not_reached_is_asked_again_soon(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unheard is not refused: an outage of an hour must not last another one."""

    async def away(
        url: str, message: HttpMessage, within: float
    ) -> tuple[SinkAnswer, Mapping[str, str]]:
        return SinkAnswer(None, "connect", "refused"), {}

    answers = here.ask
    monkeypatch.setattr(here, "ask", away)
    handshake, _ = here.handshake()
    waits = []
    for _ in range(8):
        await handshake.settle()
        refusal = handshake.refusal()
        assert refusal is not None
        waits.append(refusal.hold)
        here.now += refusal.hold
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    monkeypatch.setattr(here, "ask", answers)
    await handshake.settle()
    refusal = handshake.refusal()
    assert refusal is not None
    assert refusal.hold == 60.0
    await handshake.stop()
