"""Share one admin client among many requests.

A status page and a metrics scrape make several requests each, every few seconds. A connection for each
request would cost the cluster more than the answers.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from app.brokers.kafka.settings import KafkaSettings
from app.brokers.sharing import SingleFlight


class _OpenClient:
    """An open admin client, and the number of requests that use it."""

    def __init__(self, client: AIOKafkaAdminClient) -> None:
        self.client = client
        self.users = 0


class SharedAdminClient:
    """An admin client that all requests share. The first request opens it. After a failure the next request
    opens it again.

    A failed client is closed when the last request that uses it has ended.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._client: _OpenClient | None = None
        self._opening = SingleFlight()  # in an outage one attempt answers all waiting callers
        self._closed = False

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """Yield the shared client. Raises KafkaError, OSError or TimeoutError if it cannot be opened."""
        opened = await self._current()
        opened.users += 1
        try:
            yield opened.client
        except (KafkaError, OSError, TimeoutError) as error:
            if self._client is opened and getattr(error, "retriable", True):
                self._client = None  # a rejected request does not mean a bad connection
            raise
        finally:
            opened.users -= 1
            if self._client is not opened:
                await _close(opened)

    async def close(self) -> None:
        """Close the client. No client is opened afterwards."""
        self._closed = True
        await self._opening.close()
        opened, self._client = self._client, None
        if opened is not None:
            await _close(opened)

    async def _current(self) -> _OpenClient:
        if self._closed:
            raise KafkaConnectionError("this log is not running")
        if self._client is not None:
            return self._client
        return await self._opening.ask("open", self._open)

    async def _open(self) -> _OpenClient:
        self._client = opened = _OpenClient(await _open(self._settings))
        return opened


async def _open(settings: KafkaSettings) -> AIOKafkaAdminClient:
    client = AIOKafkaAdminClient(**settings.client())
    try:
        await client.start()
    except BaseException:
        await client.close()
        raise
    return client


async def _close(opened: _OpenClient) -> None:
    if not opened.users:
        await opened.client.close()
