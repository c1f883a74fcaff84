"""One admin client for many questions: a status page and a scrape ask several each, every few seconds,
and a connection for each of them would cost the cluster more than the answers do."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from app.brokers.kafka.settings import KafkaSettings
from app.brokers.sharing import Shared


class _Kept:
    """A client that is open, and how many questions it is answering."""

    def __init__(self, client: AIOKafkaAdminClient) -> None:
        self.client = client
        self.users = 0


class Standing:
    """Opened by the first question, and again by the first one after it failed. At most one is kept;
    one that failed is closed when the last question to it has ended."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._kept: _Kept | None = None
        self._opening = Shared()  # in an outage all who wait are told by one attempt
        self._closed = False

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """Raises KafkaError, OSError or TimeoutError when it cannot be opened."""
        kept = await self._current()
        kept.users += 1
        try:
            yield kept.client
        except (KafkaError, OSError, TimeoutError) as error:
            if self._kept is kept and getattr(error, "retriable", True):
                self._kept = None  # a refusal says nothing against the connection
            raise
        finally:
            kept.users -= 1
            if self._kept is not kept:
                await _close(kept)

    async def close(self) -> None:
        """Nothing is opened any more."""
        self._closed = True
        await self._opening.close()
        kept, self._kept = self._kept, None
        if kept is not None:
            await _close(kept)

    async def _current(self) -> _Kept:
        if self._closed:
            raise KafkaConnectionError("this log is not running")
        if self._kept is not None:
            return self._kept
        return await self._opening.ask("open", self._open)

    async def _open(self) -> _Kept:
        self._kept = kept = _Kept(await _open(self._settings))
        return kept


async def _open(settings: KafkaSettings) -> AIOKafkaAdminClient:
    client = AIOKafkaAdminClient(**settings.client())
    try:
        await client.start()
    except BaseException:
        await client.close()
        raise
    return client


async def _close(kept: _Kept) -> None:
    if not kept.users:
        await kept.client.close()
