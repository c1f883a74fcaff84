"""The plain floors: what one would write without Skybridge, under the same server.

``nothing``  a bare ASGI callable that reads the body and stores nothing.
``kafka``    a bare ASGI callable that does ``await producer.send`` with the service's own producer
             settings, and no validation and no routing.

Both run under uvicorn with uvloop and httptools.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from aiokafka import AIOKafkaProducer

from app.brokers.kafka.settings import KafkaSettings

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

ACCEPTED = {"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]}


async def body_of(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await body_of(receive)
    await send(ACCEPTED)
    await send({"type": "http.response.body"})


class ToKafka:
    """Renames the headers, sends, waits for the acknowledgement, answers."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._servers = bootstrap_servers
        self._topic = topic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        key, headers = None, []
        for name, value in scope["headers"]:
            if name.startswith(b"ce-"):
                headers.append(("ce_" + name[3:].decode(), value))
                if name == b"ce-partitionkey":
                    key = value
            elif name == b"content-type":
                headers.append(("content-type", value))
        body = await body_of(receive)
        await (await self._producer.send(self._topic, body, key=key, headers=headers))
        await send(ACCEPTED)
        await send({"type": "http.response.body"})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        settings = KafkaSettings(name="floor", bootstrap_servers=self._servers)
        self._producer = AIOKafkaProducer(
            **settings.client(),
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            max_batch_size=settings.max_batch,
        )
        await self._producer.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._producer.stop()
        await send({"type": "lifespan.shutdown.complete"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["nothing", "kafka"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--bootstrap-servers", default="")
    parser.add_argument("--topic", default="")
    options = parser.parse_args()
    to_kafka = options.kind == "kafka"
    uvicorn.run(
        ToKafka(options.bootstrap_servers, options.topic) if to_kafka else nothing,
        host="127.0.0.1",
        port=options.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on" if to_kafka else "off",
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
