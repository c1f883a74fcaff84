"""A log whose submits end when a test decides, and with the results that it chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from app.bindings.record import Record
from app.errors import BrokerError
from app.interfaces import Log, PublishResult
from app.model.receipt import Receipt
from app.routing.identity import Identity

Identities = Sequence[Identity | None] | None


@dataclass
class Submitted:
    """One call of ``submit``: its arguments and its future."""

    topic: str
    records: Sequence[Record]
    future: asyncio.Future[list[PublishResult]]
    identities: Identities = None


class ScriptedLog(Log):
    """A log that only implements ``submit``.

    Args:
        name: The name of the log.
        at_once: Whether every record is stored before ``submit`` returns.
    """

    def __init__(self, name: str = "log", *, at_once: bool = False) -> None:
        self.name = name
        self.at_once = at_once
        self.submits: list[Submitted] = []
        self.stored = 0

    def submit(
        self,
        topic: str,
        records: Sequence[Record],
        identities: Identities = None,
    ) -> asyncio.Future[list[PublishResult]]:
        future: asyncio.Future[list[PublishResult]] = asyncio.get_running_loop().create_future()
        self.submits.append(Submitted(topic, records, future, identities))
        if self.at_once:
            self.settle(-1)
        return future

    def settle(self, which: int = 0, *results: BrokerError | None) -> None:
        """End one submit with the results of its records, in order.

        Args:
            which: The index of the submit.
            results: An error, or None for a stored record. Records without a result are stored.
        """
        submitted = self.submits[which]
        fates = [*results, *[None] * (len(submitted.records) - len(results))]
        submitted.future.set_result([self._fate(submitted.topic, fate) for fate in fates])

    def _fate(self, topic: str, fate: BrokerError | None) -> PublishResult:
        if fate is not None:
            return fate
        self.stored += 1
        return Receipt(self.name, topic, 0, str(self.stored - 1))

    @property
    def bodies(self) -> list[bytes | None]:
        return [record.body for submitted in self.submits for record in submitted.records]
