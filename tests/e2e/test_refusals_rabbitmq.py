"""What RabbitMQ refuses, as a sender over HTTP is told it (spec 2.2, rules 8 to 10 of delivery).

413 is for what will never pass. Everything else is 503 with Retry-After, the cause by its code and the
broker's words: the sender did nothing wrong, its event is not stored, and it may come again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aio_pika
import httpx
import pytest

from child_service import running_command
from configuration import configuration, written
from rabbitmq_server import RabbitServer
from sending import event_headers
from waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.rabbitmq, pytest.mark.fault]

WITHIN = 240.0
LATER = "30"  # seconds: what a person must cure first
PASSWORD = "right"

REFUSALS = {
    "nowhere": ("unroutable", "leads to no queue"),
    "forbidden": ("not-authorised", "refused"),
    "missing": ("unknown-topic", "has no exchange"),
}


@pytest.fixture
async def topic(own_rabbitmq: RabbitServer) -> str:
    """A quorum queue behind an exchange, and beside it an exchange without any queue."""
    name = f"t-{uuid4().hex[:12]}"
    async with await aio_pika.connect(f"amqp://guest:guest@{own_rabbitmq.address}/") as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(name, "direct", durable=True)
        queue = await channel.declare_queue(
            f"{name}.0", durable=True, arguments={"x-queue-type": "quorum"}
        )
        await queue.bind(exchange, "0")
        await channel.declare_exchange(f"{name}-empty", "topic", durable=True)
    return name


@contextlib.asynccontextmanager
async def service(
    folder: Path, server: RabbitServer, topic: str, reader: str = "guest", password: str = "guest"
) -> AsyncIterator[httpx.AsyncClient]:
    """With a route for each refusal. ``reader``: a user who may not write."""
    broker = {"kind": "rabbitmq", "addresses": server.address, "max_record": "64KiB"}
    login = {"username": reader, "password": password}
    routes = {
        "kept": {"broker": "main", "topic": topic},
        "nowhere": {"broker": "main", "exchange": f"{topic}-empty", "routing_key": "{type}"},
        "forbidden": {"broker": "reader", "topic": topic},
        "missing": {"broker": "main", "topic": f"{topic}-{{type}}"},
    }
    settings = configuration(
        folder,
        brokers={"log": None, "main": broker, "reader": {**broker, "security": login}},
        routes=[{"name": name, "to": to} for name, to in routes.items()],
        timeouts={"publish": None, "drain": None},
    )
    file = str(written(settings, folder))
    async with (
        running_command(folder, "serve", "--config", file, "--role", "gateway") as child,
        httpx.AsyncClient(
            base_url=child.announced["events"] + "/", trust_env=False, timeout=WITHIN
        ) as client,
    ):
        yield client
        assert await child.stop() == 0


async def post(client: httpx.AsyncClient, route: str, body: bytes = b"x") -> httpx.Response:
    headers = event_headers("1") | {"content-type": "text/plain"}
    return await client.post(route, content=body, headers=headers)


def cause(answer: httpx.Response) -> dict[str, Any]:
    """Why the only event of a request was not stored."""
    assert answer.headers["content-type"] == "application/problem+json"
    [event] = answer.json()["events"]
    return event["cause"]


async def test_what_a_person_must_cure_is_503_with_its_cause_and_a_long_wait(
    tmp_path: Path, own_rabbitmq: RabbitServer, topic: str
) -> None:
    """Rule 10: what nothing would retain is never 2xx, although RabbitMQ confirms it; the same request is
    stored when somebody has bound a queue, without a restart."""
    reader = f"reader-{topic}"
    own_rabbitmq.ctl("add_user", reader, PASSWORD)
    own_rabbitmq.ctl("set_permissions", reader, "^skybridge", "^$", ".*")
    async with service(tmp_path, own_rabbitmq, topic, reader, PASSWORD) as client:
        for _ in range(2):
            for route, (code, words) in REFUSALS.items():
                answer = await post(client, route)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, LATER)
                assert answer.json()["type"] == f"urn:skybridge:problem:{code}"
                why = cause(answer)
                assert (why["code"], why["retryable"]) == (code, False)
                assert words in why["detail"]
                assert PASSWORD not in answer.text
            assert (await post(client, "kept")).status_code == 202, "the others go on"
        async with await aio_pika.connect(f"amqp://guest:guest@{own_rabbitmq.address}/") as other:
            queue = await (await other.channel()).get_queue(f"{topic}.0")
            await queue.bind(f"{topic}-empty", "#")
        assert (await post(client, "nowhere")).status_code == 202


async def test_what_is_too_large_is_413_and_a_blocked_broker_a_full_bound(
    tmp_path: Path, own_rabbitmq: RabbitServer, topic: str
) -> None:
    """The first will never pass, by our bound or by the server's, and its neighbours do. An alarm stops
    publishers in silence: the sender is told at once why, and when to come back (rule 8)."""
    own_rabbitmq.ctl("eval", "application:set_env(rabbit, max_message_size, 40000).")
    try:
        async with service(tmp_path, own_rabbitmq, topic) as client:
            for size in (66_000, 41_000):
                pending = (post(client, "kept", b"x" * size), post(client, "kept"))
                large, small = await asyncio.gather(*pending)
                assert (large.status_code, small.status_code) == (413, 202)
                assert large.json()["type"] == "urn:skybridge:problem:record-too-large"
                assert "retry-after" not in large.headers
            own_rabbitmq.ctl("set_vm_memory_high_watermark", "0.00001")
            answer = await first_answer(client, 503)
            assert answer.headers["retry-after"] == "1"
            assert cause(answer)["code"] == "bound-reached"
            assert "memory" in cause(answer)["detail"]
            own_rabbitmq.ctl("set_vm_memory_high_watermark", "0.4")
            await first_answer(client, 202)
    finally:
        own_rabbitmq.ctl("set_vm_memory_high_watermark", "0.4")
        own_rabbitmq.ctl("eval", "application:set_env(rabbit, max_message_size, 134217728).")


async def first_answer(client: httpx.AsyncClient, status: int) -> httpx.Response:
    """The first answer of that status; what was on the wire when the alarm came may be unknown."""

    async def found() -> httpx.Response | None:
        answer = await post(client, "kept")
        unknown = answer.status_code == 503 and cause(answer)["code"] == "publish-unknown"
        return answer if answer.status_code == status and not unknown else None

    answer: httpx.Response = await until(found, f"an answer {status}", WITHIN, turn=0.05)
    return answer
