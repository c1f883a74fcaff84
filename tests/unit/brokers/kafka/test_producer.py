"""The publisher keeps a connection, whatever happens to it."""

from __future__ import annotations

import asyncio

import pytest

from app.brokers.kafka import producer as module
from app.brokers.kafka.producer import KafkaPublisher
from app.brokers.kafka.settings import KafkaSettings

SETTINGS = KafkaSettings(name="kafka", bootstrap_servers="127.0.0.1:1")


async def test_an_error_that_nobody_expects_ends_no_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else every publish would wait for its time-out from then on, until a restart."""
    opened = 0
    again = asyncio.Event()

    class Failing:
        def __init__(self, *_: object) -> None:
            """Fails later."""

        async def open(self) -> None:
            nonlocal opened
            opened += 1
            if opened > 1:
                again.set()
            raise KeyError("a bug of the client")

        async def close(self) -> None:
            """Was never open."""

    monkeypatch.setattr(module, "ProducerConnection", Failing)
    producer = KafkaPublisher(SETTINGS)
    async with asyncio.timeout(60):
        await producer.start()
        assert "a bug" in (await producer.health()).cause
        await again.wait()
        await producer.stop()


async def test_a_stop_while_a_connection_is_replaced_closes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its requests would never be answered, and its sockets stay open until the broker ends them."""
    retiring = asyncio.Event()
    closed = 0

    class Open:
        def __init__(self, *_: object) -> None:
            """Is open at once."""

        async def open(self) -> None:
            """Needs nothing."""

        async def watch(self, *_: object) -> bool:
            return True

        async def close(self) -> None:
            nonlocal closed
            closed += 1

    async def wait(*_: object) -> bool:
        retiring.set()
        return await asyncio.Future()

    monkeypatch.setattr(module, "ProducerConnection", Open)
    producer = KafkaPublisher(SETTINGS)
    async with asyncio.timeout(60):
        await producer.start()
        monkeypatch.setattr(module, "pause_for", wait)
        producer.shipper.quiet.clear()
        producer._leave()
        await retiring.wait()
        await producer.stop()
    assert closed == 1
