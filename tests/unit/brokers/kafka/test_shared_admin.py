"""One client for many questions: opened once, replaced when it failed, never more than one kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from app.brokers.kafka import shared_admin
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.shared_admin import SharedAdminClient

SETTINGS = KafkaSettings(name="main", bootstrap_servers="127.0.0.1:1")


class Client:
    """Instead of an admin client. ``away``: nobody answers."""

    made: list[Client]
    away = False

    def __init__(self, **_: Any) -> None:
        self.open = False
        self.closes = 0
        Client.made.append(self)

    async def start(self) -> None:
        await asyncio.sleep(0)
        if Client.away:
            raise KafkaConnectionError("nobody answers")
        self.open = True

    async def close(self) -> None:
        self.open = False
        self.closes += 1


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    Client.made = []
    monkeypatch.setattr(Client, "away", False)
    monkeypatch.setattr(shared_admin, "AIOKafkaAdminClient", Client)
    return Client.made


async def ask(kept: SharedAdminClient, error: Exception | None = None) -> Any:
    async with kept.client() as client:
        assert client.open
        await asyncio.sleep(0)
        if error is not None:
            raise error
    return client


async def test_all_questions_go_through_one_client(clients: list[Client]) -> None:
    """A scrape every few seconds must not be a connection every few seconds."""
    kept = SharedAdminClient(SETTINGS)
    await asyncio.gather(*(ask(kept) for _ in range(10)))
    await ask(kept)
    assert len(clients) == 1
    await kept.close()
    assert (clients[0].open, clients[0].closes) == (False, 1)


async def test_one_that_failed_is_replaced_and_closed_when_its_last_question_ended(
    clients: list[Client],
) -> None:
    """A connection that broke is of no use; whoever still hears something on it may finish."""
    kept = SharedAdminClient(SETTINGS)
    async with kept.client() as slow:
        with pytest.raises(KafkaConnectionError):
            await ask(kept, KafkaConnectionError("reset"))
        assert slow.open
        assert await ask(kept) is not slow
    assert not slow.open
    assert [each.open for each in clients] == [False, True]
    await kept.close()


async def test_a_refusal_says_nothing_against_the_connection(clients: list[Client]) -> None:
    """A topic that may not be seen would otherwise cost a connection a scrape."""
    kept = SharedAdminClient(SETTINGS)
    with pytest.raises(TopicAuthorizationFailedError):
        await ask(kept, TopicAuthorizationFailedError("orders"))
    await ask(kept)
    assert len(clients) == 1
    await kept.close()


async def test_a_cluster_that_is_away_is_asked_again_by_the_next_question(
    clients: list[Client],
) -> None:
    """It heals by itself, and leaves nothing open meanwhile."""
    kept = SharedAdminClient(SETTINGS)
    Client.away = True
    for _ in range(3):
        with pytest.raises(KafkaConnectionError):
            await ask(kept)
    Client.away = False
    assert (await ask(kept)).open
    assert [each.closes for each in clients] == [1, 1, 1, 0]
    await kept.close()


async def test_all_who_wait_in_an_outage_are_told_by_one_attempt(clients: list[Client]) -> None:
    """Each attempt may take its whole time-out: one after the other they would never end."""
    kept = SharedAdminClient(SETTINGS)
    Client.away = True
    told = await asyncio.gather(*(ask(kept) for _ in range(10)), return_exceptions=True)
    assert all(isinstance(each, KafkaConnectionError) for each in told)
    assert len(clients) == 1
    await kept.close()


async def test_nothing_is_opened_after_the_close(clients: list[Client]) -> None:
    """A late scrape must not keep a process from ending."""
    kept = SharedAdminClient(SETTINGS)
    await kept.close()
    with pytest.raises(KafkaConnectionError):
        await ask(kept)
    assert clients == []
