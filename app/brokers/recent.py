"""Deduplicate events in memory, for brokers that cannot store event identities in their own transaction.

The memory is bounded, belongs to this process and is lost at a restart. A repeat that arrives while the first
event is being published waits for the result of the first. The repeat is published if the first failed, or if
the result of the first is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from app.bindings.record import Record
from app.interfaces import PublishResult
from app.model.receipt import Receipt
from app.routing.identity import Identity, Recent, judge, note_of

Stored = asyncio.Future[list[PublishResult]]
Identities = Sequence[Identity | None]


class RecentPublishes:
    """The recently published events of the routes that deduplicate, on one broker.

    Args:
        broker: The name of the broker.
        submit: Publishes records to the broker.
        now_ms: A clock in ms. Only differences of its values are used.
    """

    def __init__(
        self,
        broker: str,
        submit: Callable[[str, Sequence[Record]], Stored],
        now_ms: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._submit = submit
        self._now = now_ms
        self._recent: dict[str, Recent] = {}  # by route, because topics are unbounded
        self._under_way: dict[tuple[str, bytes], tuple[bytes, Stored]] = {}

    @property
    def count(self) -> int:
        return sum(map(len, self._recent.values()))

    def submit(self, topic: str, records: Sequence[Record], identities: Identities) -> Stored:
        """Publish records that are not repeats of recent events. Return one future for the results of all
        records, in their order."""
        parts = [
            self._one(topic, record, identity)
            for record, identity in zip(records, identities, strict=True)
        ]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _one(self, topic: str, record: Record, identity: Identity | None) -> Stored:
        if identity is None:
            return self._submit(topic, (record,))
        route, key = at = _place(topic, identity)
        before = self._under_way.get(at)
        if before is not None and before[0] == identity.data:
            return self._after(before[1], topic, record, identity)
        recent = self._recent.get(route)
        note = None if recent is None else recent.get(key)
        verdict, receipt = judge(note, identity, self._now(), self._broker, topic)
        if receipt is not None:
            return _known(receipt)
        differs = verdict == "differs" or before is not None
        return self._publish(topic, record, identity, differs=differs)

    def _publish(self, topic: str, record: Record, identity: Identity, *, differs: bool) -> Stored:
        stored = self._submit(topic, (record,))
        at = _place(topic, identity)
        mine = self._under_way[at] = (identity.data, stored)

        def settle(stored: Stored) -> None:
            if self._under_way.get(at) is mine:
                del self._under_way[at]
            receipt = _receipt_of(stored)
            if receipt is not None:
                self._remember(identity, receipt)
                if differs:
                    stored.result()[0] = msgspec.structs.replace(receipt, repeat="differs")

        stored.add_done_callback(settle)
        return stored

    def _remember(self, identity: Identity, receipt: Receipt) -> None:
        now, window = self._now(), identity.window
        route, key = _place(receipt.topic, identity)
        note = note_of(identity, now, receipt.partition, receipt.position)
        self._recent.setdefault(route, Recent()).remember([(key, note)], window.most, now)

    def _after(self, first: Stored, topic: str, record: Record, identity: Identity) -> Stored:
        """Return a future for a repeat of an event that is being published.

        The future resolves to "duplicate" if the first event is stored. Otherwise the repeat is published.
        """
        waits: Stored = asyncio.get_running_loop().create_future()

        def settle(first: Stored) -> None:
            receipt = _receipt_of(first)
            if waits.done():
                return
            if receipt is not None:
                waits.set_result([msgspec.structs.replace(receipt, repeat="duplicate")])
            else:
                again = self._one(topic, record, identity)
                again.add_done_callback(lambda done: _pass_on(done, waits))

        first.add_done_callback(settle)
        return waits


def _place(topic: str, identity: Identity) -> tuple[str, bytes]:
    """Return the route, and the identity of the event within its topic."""
    return identity.window.route, identity.key + topic.encode("utf-8", "surrogatepass")


def _receipt_of(stored: Stored) -> Receipt | None:
    if stored.cancelled() or stored.exception() is not None:
        return None
    (result,) = stored.result()
    return result if isinstance(result, Receipt) else None


def _known(receipt: Receipt) -> Stored:
    stored: Stored = asyncio.get_running_loop().create_future()
    stored.set_result([receipt])
    return stored


def _pass_on(done: Stored, waits: Stored) -> None:
    if waits.done():
        return
    if done.cancelled():
        waits.cancel()
    elif (error := done.exception()) is not None:
        waits.set_exception(error)
    else:
        waits.set_result(done.result())


def _joined(parts: Sequence[Stored]) -> Stored:
    """Return one future for the results of several futures, in their order."""
    joined: Stored = asyncio.get_running_loop().create_future()
    left = len(parts)

    def settle(_: Stored) -> None:
        nonlocal left
        left -= 1
        if left or joined.done():
            return
        if any(part.cancelled() for part in parts):
            joined.cancel()
            return
        if error := next(filter(None, [part.exception() for part in parts]), None):
            joined.set_exception(error)
            return
        joined.set_result([result for part in parts for result in part.result()])

    for part in parts:
        part.add_done_callback(settle)
    return joined
