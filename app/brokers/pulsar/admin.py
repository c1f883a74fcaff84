"""Requests to the REST administration of a Pulsar cluster.

The client library reports neither owners nor backlogs. It cannot create topics, or create a subscription
without joining it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeVar
from urllib.parse import quote

import msgspec

from app.brokers.pulsar.admin_requests import AdminRequests
from app.brokers.pulsar.answers import (
    BrokerLookup,
    ErrorReason,
    MessageIdAnswer,
    PartitionCount,
    PartitionedStats,
    PartitionInternals,
    PartitionStats,
    RetentionPolicy,
)
from app.brokers.pulsar.errors import AdminError
from app.brokers.pulsar.positions import Position, full_name, wire_name
from app.brokers.pulsar.settings import PulsarSettings
from app.event.json_text import NOT_JSON
from app.libraries.httpx_client import httpx

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE = 8  # most concurrent requests of one kind
ASK_AGAIN = 0.1  # seconds before a request is repeated
PROBE_WITHIN = 2.0
MADE_WITHIN = 30.0  # seconds; a server that has just started is slow to create its first topic
WORDS = 200  # most characters of the server's own message in an error
_STATS = {"perPartition": "true", "getPreciseBacklog": "true", "excludePublishers": "true"}


class PulsarAdmin:
    """Requests to the administration of one cluster. Topics are named as in the configuration. Methods
    raise AdminError, or httpx.HTTPError if there is no answer. ``errors.translate`` returns what they
    mean."""

    def __init__(self, settings: PulsarSettings) -> None:
        self._settings = settings
        self._requests = AdminRequests(settings)

    async def stop(self) -> None:
        await self._requests.close()

    async def probe(self) -> None:
        """Ask about the namespace, and raise unless the answer comes within two seconds."""
        async with asyncio.timeout(PROBE_WITHIN):
            await self._ask("GET", f"/admin/v2/namespaces/{self._settings.namespace}")

    async def partitions(self, topic: str) -> int | None:
        """Return the number of partitions, 0 for a topic without partitions, or None if the topic does not
        exist.

        Never creates the topic.
        """
        try:
            count = await self._get(f"{self._path(topic)}/partitions", PartitionCount)
        except AdminError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise
        return count.partitions

    async def wires(self, topic: str) -> dict[int, str]:
        """Return the full names of the topic's partitions, by number. Raise AdminError if the topic does not
        exist."""
        wires = await self.wires_if_there(topic)
        if not wires:
            raise AdminError(httpx.codes.NOT_FOUND, f"topic {topic} not found")
        return wires

    async def wires_if_there(self, topic: str) -> dict[int, str]:
        """Return the full names of the topic's partitions, by number. Return nothing if the topic does not
        exist."""
        count = await self.partitions(topic)
        if count is None:
            return {}
        namespace = self._settings.namespace
        if not count:
            return {0: wire_name(topic, namespace, None)}
        return {number: wire_name(topic, namespace, number) for number in range(count)}

    async def topics(self) -> list[str]:
        """Return all topics of the namespace, with or without partitions, sorted by name."""
        place = f"/admin/v2/persistent/{self._settings.namespace}"
        partitioned = await self._get(f"{place}/partitioned", list[str])
        every = await self._get(place, list[str])
        whole = [name for name in every if name.rpartition("-partition-")[0] not in partitioned]
        names = (name.rpartition("/")[2] for name in {*partitioned, *whole})
        return sorted(name for name in names if not name.startswith("__"))

    async def ensure(self, topics: Collection[str]) -> None:
        """Create the topics that do not exist, if the settings allow it."""
        for topic in topics if self._settings.create_topics else ():
            if await self.partitions(topic) is None:
                await self.create_topic(topic, self._settings.partitions)

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with partitions, or do nothing if it exists. Return when its partitions can be
        used."""
        await ask_until(lambda: self._create_topic(topic, partitions), MADE_WITHIN)
        await ask_until(lambda: self._check_created(topic), MADE_WITHIN)

    async def _create_topic(self, topic: str, partitions: int) -> None:
        try:
            await self._ask("PUT", f"{self._path(topic)}/partitions", partitions)
        except AdminError as error:
            if error.status != httpx.codes.CONFLICT:
                raise

    async def _check_created(self, topic: str) -> None:
        """Raise AdminError unless the broker knows all partitions of a new topic.

        The broker knows the topic before its partitions, because it may first need a bookie for them.
        """
        wires = await self.wires_if_there(topic)
        held = await ask_each(self.internal_if_there, wires.values())
        if not held or None in held:
            message = f"topic {topic} was not created"
            raise AdminError(httpx.codes.GATEWAY_TIMEOUT, message)

    async def stats(self, topic: str) -> Mapping[str, PartitionStats]:
        """Return owners and backlogs of every partition, by the full name of the partition."""
        try:
            found = await self._get(
                f"{self._path(topic)}/partitioned-stats", PartitionedStats, _STATS
            )
        except AdminError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            if await self.partitions(topic):
                return {}  # the partitions are not created yet
            alone = await self._get(f"{self._path(topic)}/stats", PartitionStats, _STATS)
            return {wire_name(topic, self._settings.namespace, None): alone}
        return found.partitions

    async def internal(self, wire: str) -> PartitionInternals:
        return await self._get(f"{_path_of(wire)}/internalStats", PartitionInternals)

    async def internal_if_there(self, wire: str) -> PartitionInternals | None:
        """Return the ledgers and cursors of a partition, or None if the partition is not created yet."""
        try:
            return await self.internal(wire)
        except AdminError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            return None

    async def place_at(self, wire: str, time_ms: int) -> Position:
        """Return the position of the first message stored at ``time_ms`` or later. If there is none, return
        the position after the last message."""
        found = await self._get(f"{_path_of(wire)}/messageid/{time_ms}", MessageIdAnswer)
        return Position(found.ledger_id, found.entry_id, found.batch_index)

    async def create_subscription(
        self, wire: str, group: str, place: Position, properties: Mapping[str, str] | None = None
    ) -> bool:
        """Create a subscription that begins with the message at ``place``. Return False if it exists
        already.

        The broker creates the subscription at the latest message, and then moves it to ``place``.
        ``properties`` are stored together with the creation.
        """
        body = _at(place) | ({"properties": properties} if properties else {})
        try:
            await self._ask("PUT", _subscription(wire, group), body)
        except AdminError as error:
            if error.status != httpx.codes.CONFLICT:
                raise
            return False
        return True

    async def move(self, wire: str, group: str, place: Position) -> None:
        """Move a subscription so that it continues with the message at ``place``."""
        body = _at(place) | {"isExcluded": False}
        await self._ask("POST", f"{_subscription(wire, group)}/resetcursor", body)

    async def set_properties(self, wire: str, group: str, properties: Mapping[str, str]) -> None:
        """Replace all properties of a subscription."""
        await self._ask("PUT", f"{_subscription(wire, group)}/properties", properties)

    async def leader(self, wire: str) -> str | None:
        """Return the address of the broker that serves the partition, or None if no broker serves it."""
        try:
            return (await self._get(_lookup_of(wire), BrokerLookup)).address or None
        except AdminError:
            return None

    async def confirm_owner(self, wire: str) -> None:
        """Raise AdminError unless all brokers in ``admin_url`` name the same owner of a partition.

        A broker that was cut off from the metadata still takes itself for the owner, and does not know the newest messages.
        """
        path = _lookup_of(wire)
        answers = await self._requests.send_to_each("GET", path)
        owners = {_decoded(_content_of(each), path, BrokerLookup).address for each in answers}
        if len(owners) != 1 or "" in owners:
            named = ", ".join(sorted(each or "no broker" for each in owners))
            message = f"the brokers name different owners of {wire}: {named}"
            raise AdminError(httpx.codes.SERVICE_UNAVAILABLE, message)

    async def retains(self, topic: str) -> bool:
        """Return True if the topic would keep published messages, because it has a subscription or a
        retention."""
        for stats in (await self.stats(topic)).values():
            if stats.subscriptions:
                return True
        path = f"{self._path(topic)}/retention"
        found = await self._get(path, RetentionPolicy | None, {"applied": "true"})  # type: ignore[arg-type]
        return bool(found and found.retention_time_in_minutes and found.retention_size_in_mb)

    def _path(self, topic: str) -> str:
        return _path_of(full_name(topic, self._settings.namespace))

    async def _get(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> T:
        return _decoded(await self._ask("GET", path, query=query), path, kind)

    async def _ask(
        self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> bytes:
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if content is None else {"content-type": "application/json"}
        return _content_of(
            await self._requests.send(method, path, content=content, headers=headers, params=query)
        )


def _subscription(wire: str, group: str) -> str:
    return f"{_path_of(wire)}/subscription/{quote(group, safe='')}"


def _at(place: Position) -> dict[str, object]:
    body: dict[str, object] = {"ledgerId": place.ledger, "entryId": place.entry}
    batch = {"batchIndex": place.batch} if place.batch >= 0 else {}
    return body | {"partitionIndex": -1} | batch


def _path_of(name: str) -> str:
    return f"/admin/v2/persistent/{quote(name.removeprefix('persistent://'))}"


def _lookup_of(wire: str) -> str:
    return f"/lookup/v2/topic/persistent/{wire.removeprefix('persistent://')}"


def _content_of(answer: httpx.Response) -> bytes:
    if answer.is_success:
        return answer.content
    raise AdminError(answer.status_code, _message_of(answer))


def _decoded(content: bytes, path: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content or b"null", type=kind)
    except NOT_JSON as error:
        raise AdminError(httpx.codes.BAD_GATEWAY, f"{path}: {error}") from error


def _message_of(answer: httpx.Response) -> str:
    try:
        words = msgspec.json.decode(answer.content, type=ErrorReason).reason
    except NOT_JSON:
        words = answer.text
    return " ".join((words or answer.reason_phrase).split())[:WORDS]


async def ask_each(question: Callable[[S], Awaitable[T]], subjects: Iterable[S]) -> list[T]:
    """Return the answers for all subjects, in their order. Raise the first error and cancel the other
    requests."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(subject: S) -> T:
        async with gate:
            return await question(subject)

    tasks = [asyncio.ensure_future(ask(subject)) for subject in subjects]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def ask_until(question: Callable[[], Awaitable[T]], within: float) -> T:
    """Return the answer to a request. The request is repeated while the broker answers with a temporary
    error, so a request that changes something must be safe to repeat. Raise the last AdminError after
    ``within`` seconds."""
    deadline = asyncio.get_running_loop().time() + within
    while True:
        try:
            return await question()
        except AdminError as error:
            if not error.is_temporary or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(ASK_AGAIN)
