"""What the cluster says about itself, over its administration (REST): the client library tells
neither owners nor backlogs, and cannot make topics, or subscriptions without joining them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeVar
from urllib.parse import quote

import msgspec

from app.brokers.pulsar.answers import (
    Count,
    Internal,
    Lookup,
    MessageId,
    PartitionedStats,
    PartitionStats,
    Retention,
    Words,
)
from app.brokers.pulsar.errors import AdminError
from app.brokers.pulsar.positions import Position, full_name, wire_name
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.pulsar.tokens import authentication
from app.libraries.httpx_client import httpx

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE = 8  # questions of one kind
ASK_AGAIN = 0.1
PROBE_WITHIN = 2.0
MADE_WITHIN = 30.0  # of the first topic, a server that has just started thinks for seconds
WORDS = 200  # characters of the server's own words in an error
_STATS = {"perPartition": "true", "getPreciseBacklog": "true", "excludePublishers": "true"}


class Admin:
    """Raises AdminError, or httpx.HTTPError when nobody answers; ``errors.translate`` says what they
    mean. Topics are named as the configuration names them."""

    def __init__(self, settings: PulsarSettings) -> None:
        self._settings = settings
        self._http: httpx.AsyncClient | None = None

    async def stop(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def probe(self) -> None:
        """A real answer, soon, about the namespace that we work in."""
        async with asyncio.timeout(PROBE_WITHIN):
            await self._ask("GET", f"/admin/v2/namespaces/{self._settings.namespace}")

    async def partitions(self, topic: str) -> int | None:
        """How many the topic has; 0: it is not partitioned; None: it is not there. Makes none."""
        try:
            count = await self._get(f"{self._path(topic)}/partitions", Count)
        except AdminError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise
        return count.partitions

    async def wires(self, topic: str) -> dict[int, str]:
        """What the partitions of a topic are called on the wire, by their numbers. Raises AdminError
        for a topic that is not there."""
        wires = await self.wires_if_there(topic)
        if not wires:
            raise AdminError(httpx.codes.NOT_FOUND, f"topic {topic} not found")
        return wires

    async def wires_if_there(self, topic: str) -> dict[int, str]:
        """The same, empty for a topic that is not there."""
        count = await self.partitions(topic)
        if count is None:
            return {}
        namespace = self._settings.namespace
        if not count:
            return {0: wire_name(topic, namespace, None)}
        return {number: wire_name(topic, namespace, number) for number in range(count)}

    async def topics(self) -> list[str]:
        """Topics of our namespace, partitioned or not, in the order of their names."""
        place = f"/admin/v2/persistent/{self._settings.namespace}"
        partitioned = await self._get(f"{place}/partitioned", list[str])
        every = await self._get(place, list[str])
        whole = [name for name in every if name.rpartition("-partition-")[0] not in partitioned]
        names = (name.rpartition("/")[2] for name in {*partitioned, *whole})
        return sorted(name for name in names if not name.startswith("__"))

    async def ensure(self, topics: Collection[str]) -> None:
        """Make those that are not there, where the settings allow it."""
        for topic in topics if self._settings.create_topics else ():
            if await self.partitions(topic) is None:
                await self.create_topic(topic, self._settings.partitions)

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Partitioned. No error when it is there already."""
        await ask_until(lambda: self._create_topic(topic, partitions), MADE_WITHIN)
        await ask_until(lambda: self._see_made(topic), MADE_WITHIN)

    async def _create_topic(self, topic: str, partitions: int) -> None:
        try:
            await self._ask("PUT", f"{self._path(topic)}/partitions", partitions)
        except AdminError as error:
            if error.status != httpx.codes.CONFLICT:
                raise

    async def _see_made(self, topic: str) -> None:
        """A new topic is known a moment before its partitions are, and the broker may have to look for a
        bookie that will hold them."""
        wires = await self.wires_if_there(topic)
        held = await ask_each(self.internal_if_there, wires.values())
        if not held or None in held:
            words = f"topic {topic} was not created"
            raise AdminError(httpx.codes.GATEWAY_TIMEOUT, words)

    async def stats(self, topic: str) -> Mapping[str, PartitionStats]:
        """Owners and backlogs of every partition, by its name on the wire."""
        try:
            found = await self._get(
                f"{self._path(topic)}/partitioned-stats", PartitionedStats, _STATS
            )
        except AdminError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            if await self.partitions(topic):
                return {}  # they are only planned yet
            alone = await self._get(f"{self._path(topic)}/stats", PartitionStats, _STATS)
            return {wire_name(topic, self._settings.namespace, None): alone}
        return found.partitions

    async def internal(self, wire: str) -> Internal:
        return await self._get(f"{_path_of(wire)}/internalStats", Internal)

    async def internal_if_there(self, wire: str) -> Internal | None:
        """None for a partition that is planned and not made yet."""
        try:
            return await self.internal(wire)
        except AdminError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            return None

    async def place_at(self, wire: str, time_ms: int) -> Position:
        """Of the first message stored at or after a time; beyond the last one when there is none."""
        found = await self._get(f"{_path_of(wire)}/messageid/{time_ms}", MessageId)
        return Position(found.ledger_id, found.entry_id, found.batch_index)

    async def create_subscription(
        self, wire: str, group: str, place: Position, properties: Mapping[str, str] | None = None
    ) -> bool:
        """At a place, that message included; ``properties`` are stored in the same step. The broker
        makes it at the latest message first and moves it then. False: it is there already."""
        body = _at(place) | ({"properties": properties} if properties else {})
        try:
            await self._ask("PUT", _subscription(wire, group), body)
        except AdminError as error:
            if error.status != httpx.codes.CONFLICT:
                raise
            return False
        return True

    async def move(self, wire: str, group: str, place: Position) -> None:
        """A subscription to a place, that message included."""
        body = _at(place) | {"isExcluded": False}
        await self._ask("POST", f"{_subscription(wire, group)}/resetcursor", body)

    async def note(self, wire: str, group: str, properties: Mapping[str, str]) -> None:
        """These, and no others, are the properties of a subscription from now on."""
        await self._ask("PUT", f"{_subscription(wire, group)}/properties", properties)

    async def leader(self, wire: str) -> str | None:
        """The broker that serves a partition; None while it has none."""
        path = f"/lookup/v2/topic/persistent/{wire.removeprefix('persistent://')}"
        try:
            found = await self._get(path, Lookup)
        except AdminError:
            return None
        return found.broker_url or found.broker_url_tls or found.native_url or None

    async def retains(self, topic: str) -> bool:
        """Whether anything would keep what is published: a subscription, or a retention (rule 10)."""
        for stats in (await self.stats(topic)).values():
            if stats.subscriptions:
                return True
        path = f"{self._path(topic)}/retention"
        found = await self._get(path, Retention | None, {"applied": "true"})  # type: ignore[arg-type]
        return bool(found and found.retention_time_in_minutes and found.retention_size_in_mb)

    def _path(self, topic: str) -> str:
        return _path_of(full_name(topic, self._settings.namespace))

    async def _get(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> T:
        answer = await self._ask("GET", path, query=query)
        try:
            return msgspec.json.decode(answer or b"null", type=kind)
        except msgspec.MsgspecError as error:
            raise AdminError(httpx.codes.BAD_GATEWAY, f"{path}: {error}") from error

    async def _ask(
        self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> bytes:
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if content is None else {"content-type": "application/json"}
        answer = await self._client().request(
            method, path, content=content, headers=headers, params=query
        )
        if answer.is_success:
            return answer.content
        raise AdminError(answer.status_code, _words(answer))

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            settings = self._settings
            secure = settings.admin_url.startswith("https://")
            self._http = httpx.AsyncClient(
                base_url=settings.admin_url,
                auth=authentication(settings),
                verify=settings.ssl_context() if secure or settings.oauth2 else False,
                timeout=httpx.Timeout(settings.operation_timeout, connect=settings.connect_timeout),
                follow_redirects=True,  # a broker sends on to the one that owns the topic
                trust_env=False,
            )
        return self._http


def _subscription(wire: str, group: str) -> str:
    return f"{_path_of(wire)}/subscription/{quote(group, safe='')}"


def _at(place: Position) -> dict[str, object]:
    body: dict[str, object] = {"ledgerId": place.ledger, "entryId": place.entry}
    batch = {"batchIndex": place.batch} if place.batch >= 0 else {}
    return body | {"partitionIndex": -1} | batch


def _path_of(name: str) -> str:
    return f"/admin/v2/persistent/{quote(name.removeprefix('persistent://'))}"


def _words(answer: httpx.Response) -> str:
    try:
        words = msgspec.json.decode(answer.content, type=Words).reason
    except msgspec.MsgspecError:
        words = answer.text
    return " ".join((words or answer.reason_phrase).split())[:WORDS]


async def ask_each(question: Callable[[S], Awaitable[T]], subjects: Iterable[S]) -> list[T]:
    """The answers, in the order of the subjects. The first error ends it, and is raised."""
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
    """The answer, however often the broker lacks something for it meanwhile; a question that changes something
    must bear to be asked again. Raises the last AdminError when ``within`` seconds are over."""
    deadline = asyncio.get_running_loop().time() + within
    while True:
        try:
            return await question()
        except AdminError as error:
            if not error.passing or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(ASK_AGAIN)
