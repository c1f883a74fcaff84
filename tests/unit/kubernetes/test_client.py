"""The client of the API server: watches of many namespaces leave room for other requests."""

import asyncio
import json

from app.kubernetes.client import KubernetesClient
from waiting import until

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
    client = await KubernetesClient.open()
    tasks = [asyncio.create_task(watch(client, number)) for number in range(105)]
    await until(lambda: len(watching) == len(tasks), "all watches", within=30)
    assert await asyncio.wait_for(client.get("/lease"), 30) == {}
    for each in tasks:
        each.cancel()
    await asyncio.wait(tasks)
    await client.close()
    server.close()
    for each in watching:
        each.close()
