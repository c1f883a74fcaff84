"""The offsets that a Pulsar holds now, read from its admin API by the driver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Literal, TypeVar

from app.brokers.pulsar.admin import PulsarAdmin, ask_each
from app.brokers.pulsar.answers import PartitionInternals
from app.brokers.pulsar.errors import AdminError
from app.brokers.pulsar.positions import Position
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.security import ClientTls, OAuth2
from app.errors import BrokerUnavailable, TopicsMissing
from app.libraries.httpx_client import httpx
from app.spark.pulsar.options import Offsets, Options
from app.spark.pulsar.reading import offset_of

Where = Literal["earliest", "latest"] | datetime
T = TypeVar("T")


class PulsarPositions:
    """A client for the offsets of a Pulsar, with the methods of ``app.spark.positions``. Topics have
    their full names.
    """

    def __init__(self, options: Options) -> None:
        self._options = options

    def wires(self, topics: Sequence[str]) -> dict[str, dict[int, str]]:
        """Return the names that Pulsar gives the partitions of each topic, by partition number.

        Raises:
            TopicsMissing: The message names each.
        """

        async def ask(admin: PulsarAdmin) -> dict[str, dict[int, str]]:
            found = await ask_each(admin.wires_if_there, topics)
            return dict(zip(topics, found, strict=True))

        found = self._run(ask)
        if absent := [topic for topic, wires in found.items() if not wires]:
            raise TopicsMissing(
                f"{self._options.name} has no topic {', '.join(absent)}",
                setting="pipeline.archive.topics",
                cure="name topics that exist, or publish to them first",
            )
        return found

    def at(self, topics: Sequence[str], where: Where) -> Offsets:
        """Return an offset of each partition: the first stored, the next to be stored, or the first
        stored at or after a time.

        Partitions that Pulsar has not created yet are left out.
        """
        places = [
            (t, n, wire) for t, wires in self.wires(topics).items() for n, wire in wires.items()
        ]

        async def ask(admin: PulsarAdmin) -> list[int | None]:
            async def one(wire: str) -> int | None:
                return await _offset(admin, wire, where)

            return list(await ask_each(one, [wire for _, _, wire in places]))

        offsets: dict[str, dict[int, int]] = {topic: {} for topic in topics}
        for (topic, number, _), offset in zip(places, self._run(ask), strict=True):
            if offset is not None:
                offsets[topic][number] = offset
        return offsets

    def _run(self, ask: Callable[[PulsarAdmin], Awaitable[T]]) -> T:
        """Run a request on a new event loop, because the caller has none."""

        async def run() -> T:
            admin = PulsarAdmin(_settings(self._options))
            try:
                return await ask(admin)
            finally:
                await admin.stop()

        try:
            return asyncio.run(run())
        except (AdminError, httpx.HTTPError, OSError) as error:
            raise BrokerUnavailable(
                f"{self._options.name} at {self._options.admin_url} does not answer: {error!r}"
            ) from None


async def _offset(admin: PulsarAdmin, wire: str, where: Where) -> int | None:
    held = await admin.internal_if_there(wire)
    if held is None:
        return None
    match where:
        case "latest":
            place = held.latest
        case "earliest":
            place = _earliest(held)
        case _:
            found = await admin.place_at(wire, round(where.timestamp() * 1000))
            place = held.latest if found > held.last else max(found, _earliest(held))
    return offset_of(*place)


def _earliest(held: PartitionInternals) -> Position:
    """Return the first position of a partition; if all messages are gone, the position of the next
    message.
    """
    return min(held.earliest, held.latest)


def _settings(options: Options) -> PulsarSettings:
    oauth2 = None
    if options.oauth2_issuer_url is not None:
        oauth2 = OAuth2(
            issuer_url=options.oauth2_issuer_url,
            credentials=options.oauth2_credentials or "",
            audience=options.oauth2_audience,
            scope=options.oauth2_scope,
        )
    return PulsarSettings(
        name=options.name,
        service_url=options.service_url,
        admin_url=options.admin_url,
        namespace=options.namespace,
        tls=ClientTls(
            ca=options.tls_ca,
            cert=options.tls_certificate,
            key=options.tls_key,
            verify_host=options.tls_verify_host,
        ),
        token=options.token,
        oauth2=oauth2,
        operation_timeout=20.0,
    )
