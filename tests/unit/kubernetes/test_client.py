"""The client of the API server: room for other requests beside watches, and the time of day of the server."""

import asyncio
import json
from contextlib import asynccontextmanager
from email.utils import formatdate

import pytest

from app.interfaces.clock import ServerClock
from app.kubernetes.client import KubernetesClient
from virtual_clock import BEGIN, VirtualClock
from waiting import until


@asynccontextmanager
async def opened(answer, tmp_path, monkeypatch, clock):
    """A client of a server of this test."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=200)
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }))  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(file))
    library = "kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(library, str(file))  # which it read when it was imported
    client = await KubernetesClient.open(clock)
    yield client
    await client.close()
    server.close()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


async def test_watches_of_many_namespaces_leave_connections_for_the_lease(tmp_path, monkeypatch):
    """Each namespace has three. With the limit of the library, the leader of 34 could not renew its Lease (issue 46)."""
    watching = []

    async def answer(reader, writer):
        while head := await reader.readuntil(b"\r\n\r\n"):
            if b"watch=true" in head:
                watching.append(writer)
                writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n")
            else:
                writer.write(HEAD + b"content-length: 2\r\n\r\n{}")

    async def watch(client, number):
        async for _ in client.watch(f"/watched/{number}", "1"):
            pass

    async with opened(
        answer, tmp_path, monkeypatch, ServerClock(VirtualClock(), "the API server")
    ) as client:
        tasks = [asyncio.create_task(watch(client, number)) for number in range(105)]
        await until(lambda: len(watching) == len(tasks), "all watches", within=30)
        assert await asyncio.wait_for(client.get("/lease"), 30) == {}
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks)
    for each in watching:
        each.close()


@pytest.mark.parametrize("ahead", [3600, -3600])
async def test_the_time_of_day_is_that_of_the_api_server(tmp_path, monkeypatch, ahead):
    """A drain waits from the time at which the API server deleted the object, by the clock of another machine."""
    own = VirtualClock()
    own.ahead = ahead
    clock = ServerClock(own, "the API server")

    async def answer(reader, writer):
        while await reader.readuntil(b"\r\n\r\n"):
            date = formatdate(BEGIN + own.monotonic(), usegmt=True).encode()
            writer.write(HEAD + b"date: " + date + b"\r\ncontent-length: 2\r\n\r\n{}")

    async with opened(answer, tmp_path, monkeypatch, clock) as client:
        await client.get("/a")
        assert abs(clock.now() - own.now() + ahead) <= 0.5


@pytest.mark.parametrize("date", [b"", b"date: tomorrow\r\n", b"date: \r\n"])
async def test_an_answer_without_a_date_leaves_the_clock_as_it_is(tmp_path, monkeypatch, date):
    own = VirtualClock()
    clock = ServerClock(own, "the API server")

    async def answer(reader, writer):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(HEAD + date + b"content-length: 2\r\n\r\n{}")

    async with opened(answer, tmp_path, monkeypatch, clock) as client:
        assert await client.get("/a") == {}
        assert clock.now() == own.now()
