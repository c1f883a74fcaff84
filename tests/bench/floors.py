"""The plain floors: what one would write without Skybridge, under the same server.

``nothing``   a bare ASGI callable that reads the body and stores nothing.
``kafka``     does ``await producer.send`` with the service's own producer settings.
``rabbitmq``  awaits aio-pika's ``publish``: a persistent message to one of eight quorum queues, confirmed.
``pulsar``    pulsar-client's ``send_async``, and awaits its callback.

The last three are bare ASGI callables that rename headers, neither validate nor route, and answer once the broker
has. All run under uvicorn with uvloop and httptools.
"""

from __future__ import annotations

import argparse
import asyncio
import zlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

import aio_pika
import pulsar
import uvicorn
from aiokafka import AIOKafkaProducer

from app.brokers.kafka.settings import KafkaSettings

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[str, bytes]]

ACCEPTED = {"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]}
QUEUES = 8


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


class ToBroker(ABC):
    """Renames the headers, sends, waits for the acknowledgement, answers."""

    prefix = "ce_"

    def __init__(self, address: str, topic: str) -> None:
        self._address, self._topic = address, topic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        key, headers = None, []
        for name, value in scope["headers"]:
            if name.startswith(b"ce-"):
                headers.append((self.prefix + name[3:].decode(), value))
                if name == b"ce-partitionkey":
                    key = value
            elif name == b"content-type":
                headers.append(("content-type", value))
        await self.publish(key, headers, await body_of(receive))
        await send(ACCEPTED)
        await send({"type": "http.response.body"})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def publish(self, key: bytes | None, headers: Headers, body: bytes) -> None: ...

    @abstractmethod
    async def stop(self) -> None: ...


class ToKafka(ToBroker):
    async def start(self) -> None:
        settings = KafkaSettings(name="floor", bootstrap_servers=self._address)
        self._producer = AIOKafkaProducer(
            **settings.client(),
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            max_batch_size=settings.max_batch,
        )
        await self._producer.start()

    async def publish(self, key: bytes | None, headers: Headers, body: bytes) -> None:
        await (await self._producer.send(self._topic, body, key=key, headers=headers))

    async def stop(self) -> None:
        await self._producer.stop()


class ToRabbit(ToBroker):
    prefix = "cloudEvents_"

    async def start(self) -> None:
        self._connection = await aio_pika.connect(f"amqp://guest:guest@{self._address}/")
        channel = await self._connection.channel(publisher_confirms=True)
        quorum = {"x-queue-type": "quorum"}
        self._queues = [f"{self._topic}.{number}" for number in range(QUEUES)]
        for name in self._queues:
            await channel.declare_queue(name, durable=True, arguments=quorum)
        self._exchange = channel.default_exchange

    async def publish(self, key: bytes | None, headers: Headers, body: bytes) -> None:
        told = {name: value.decode() for name, value in headers}
        message = aio_pika.Message(
            body,
            headers=told,
            content_type=told.pop("content-type", None),
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        await self._exchange.publish(message, self._queues[zlib.crc32(key or b"") % QUEUES])

    async def stop(self) -> None:
        await self._connection.close()


class ToPulsar(ToBroker):
    """The callback comes in a thread of the client."""

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._client = pulsar.Client(self._address, logger=None)
        self._producer = self._client.create_producer(self._topic)

    async def publish(self, key: bytes | None, headers: Headers, body: bytes) -> None:
        sent: asyncio.Future[None] = self._loop.create_future()

        def told(result: Any, _: Any) -> None:
            self._loop.call_soon_threadsafe(self._tell, sent, result)

        properties = {name: value.decode() for name, value in headers}
        partition_key = None if key is None else key.decode()
        self._producer.send_async(body, told, properties=properties, partition_key=partition_key)
        await sent

    def _tell(self, sent: asyncio.Future[None], result: Any) -> None:
        if result == pulsar.Result.Ok:
            sent.set_result(None)
        else:
            sent.set_exception(RuntimeError(f"not sent: {result}"))

    async def stop(self) -> None:
        self._client.close()


KINDS: dict[str, type[ToBroker]] = {"kafka": ToKafka, "rabbitmq": ToRabbit, "pulsar": ToPulsar}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["nothing", *KINDS])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--address", default="", help="of the broker")
    parser.add_argument("--topic", default="")
    parser.add_argument("--cert", help="PEM file: serve https, with")
    parser.add_argument("--key", help="the key of it")
    options = parser.parse_args()
    make = KINDS.get(options.kind)
    uvicorn.run(
        make(options.address, options.topic) if make else nothing,
        host="127.0.0.1",
        port=options.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on" if make else "off",
        access_log=False,
        log_level="warning",
        ssl_certfile=options.cert,
        ssl_keyfile=options.key,
    )


if __name__ == "__main__":
    main()
