"""The history of one run: what a laboratory saw of the service from outside, as lines of JSON.

A history has one line for each thing that has ended: a request to a gateway, a delivery to a target, a call of
the admin listener, a fault, a time in which a worker owned a partition. The first line of one of its files has
the terms of the run. Lines may have any order, and several processes may write a file each, because every line
has its own times. An event is an array of its members in the order of ``Event``, without those at its end that are
None.

Times are seconds of ``time.monotonic()``. All processes and network namespaces of one machine share this
clock, and a shifted clock on a host of the service does not change it for the laboratory.

This module shares no code with ``app``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

DIGEST_BYTES = 8  # one pair of a million events is equal by chance in one run of 40 million


def digest(data: bytes, attributes: Mapping[str, str] | None = None) -> str:
    """Return a short hash of the data and the attributes of an event."""
    named = "".join(f"\0{name}\0{value}" for name, value in sorted((attributes or {}).items()))
    return hashlib.blake2b(data + named.encode(), digest_size=DIGEST_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a request or of a delivery.

    Attributes:
        id: The id of the event, which is unique in the run. A repeated request has the same ids.
        key: The key that orders the event, or "" if it has none.
        hash: The ``digest`` of what was sent or received.
        receipt: In a request: the place that the answer states (broker, topic, partition, position). In a delivery
            of a pull queue: the lock token of this hand-out.
        stored: In a request: what an answer other than 202 states about this event, or None.
    """

    id: str
    key: str
    hash: str
    receipt: str | None = None
    stored: bool | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a gateway.

    Attributes:
        gateway: The name of the host that received the request.
        start: The time before the first byte was sent.
        end: The time after the answer was read, or at which the connection broke or the sender gave up.
        status: The status of the answer, or None without an answer. 200 and 202 acknowledge all events. A 4xx
            status promises that no event is stored. Every other outcome is unknown, unless the event states it.
        events: The events in the order of the batch.
        topic: The topic of the route. Subscriptions of this topic shall receive the events.
    """

    gateway: str
    start: float
    end: float
    status: int | None
    events: tuple[Event, ...]
    topic: str = "events"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt at a target, as the target saw it.

    Attributes:
        subscription: The subscription, which the target knows from its own path or port.
        worker: The name of the host that sent the attempt, which the target knows from the address.
        start: The time at which the first byte of the request was read.
        end: The time before the first byte of the answer was written, or at which the connection broke.
        status: The status that the target answered, or None without an answer.
        events: The events in the order of the request.
    """

    subscription: str
    worker: str
    start: float
    end: float
    status: int | None
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the admin listener, such as ``pause`` or ``resume`` of a subscription."""

    verb: str
    subscription: str
    start: float
    end: float
    status: int | None


@dataclass(frozen=True, slots=True)
class Ownership:
    """The time in which a worker held itself for the owner of a partition of a subscription.

    Attributes:
        end: The time at which the worker ended it, or None if it still was the owner at the end of the run.
    """

    worker: str
    subscription: str
    partition: str
    start: float
    end: float | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A disturbance that the run caused, such as a kill, a cut, a reload or a restart.

    Attributes:
        name: The kind of fault.
        host: The host at which it happened.
        start: The time before the disturbance began.
        end: The time at which the host was whole again; equal to ``start`` for a moment.
        isolates: Whether the host cannot become the owner of a partition between ``start`` and ``end``, because it
            reaches no broker. It may still reach the store and the targets.
        repeats: Whether it may repeat deliveries, because it ends or suspends a program or drops packets. What a
            target answers may not.
    """

    name: str
    host: str
    start: float
    end: float
    isolates: bool = False
    repeats: bool = True


@dataclass(frozen=True, slots=True)
class Left:
    """An event that the service still keeps for a subscription at the end of the run.

    Attributes:
        place: ``dead-letter`` or ``parked``, as the admin listener shows it.
    """

    subscription: str
    id: str
    place: str = "dead-letter"


@dataclass(frozen=True, slots=True)
class Terms:
    """What the service promises in this run, apart from the promises of every run.

    Attributes:
        subscriptions: The topic of each subscription. A subscription shall receive every event of its topic.
        commit: Seconds of finished deliveries that a fault may repeat (``docs/guarantees.md``).
        settle: Seconds after a fault in which partitions may still change their owners.
        again: Seconds after ``settle`` in which a repeated delivery has begun, if no other fault and no failed attempt
            of its key delays it. A killed process of a Kafka group has a session of 30 s.
        lease: Seconds in which two owners of a partition may be active at once.
        pause: Seconds after the answer of ``:pause`` in which an attempt may still begin.
        timeout: Seconds after which a worker gives up an attempt. It repeats the attempt, whatever the target answers
            later.
        per_gateway: Whether the order of a key holds only among events that one gateway accepted.
        spool: Whether a route with a spool may store events twice while a fault lasts.
    """

    subscriptions: dict[str, str]
    commit: float = 0.6
    settle: float = 15.0
    again: float = 30.0
    lease: float = 5.0
    pause: float = 2.0
    timeout: float = 10.0
    per_gateway: bool = False
    spool: bool = False


Record = Request | Delivery | Call | Ownership | Fault | Left | Terms

KINDS: dict[str, type[Any]] = {
    "request": Request,
    "delivery": Delivery,
    "call": Call,
    "owner": Ownership,
    "fault": Fault,
    "left": Left,
    "terms": Terms,
}
_NAMES = {shape: name for name, shape in KINDS.items()}
_FIELDS = {shape: tuple(f.name for f in fields(shape)) for shape in KINDS.values()}
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class BadHistory(ValueError):
    """A line is not of the format. The message has the file and the number of the line."""


def as_line(record: Record) -> str:
    """Return the line of a record, without the end of the line. Members that are None are left out."""
    row: dict[str, Any] = {"kind": _NAMES[type(record)]}
    for name in _FIELDS[type(record)]:
        if (value := getattr(record, name)) is not None:
            row[name] = value
    if "events" in row:
        row["events"] = [_array(event) for event in row["events"]]
    return _ENCODE(row)


def _array(event: Event) -> list[str | bool | None]:
    if event.stored is not None:
        return [event.id, event.key, event.hash, event.receipt, event.stored]
    if event.receipt is not None:
        return [event.id, event.key, event.hash, event.receipt]
    return [event.id, event.key, event.hash]


def from_line(text: str) -> Record:
    """Return the record of a line.

    Raises:
        ValueError: The line is not JSON, has no known kind, or lacks a member.
    """
    row = json.loads(text)
    try:
        shape = KINDS[row.pop("kind")]
        if "events" in row:
            row["events"] = tuple(_event(array) for array in row["events"])
        if shape in {Request, Delivery, Call}:
            row.setdefault("status", None)
        record: Record = shape(**row)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a record: {error}") from error
    return record


def _event(array: Any) -> Event:
    if not isinstance(array, list) or not all(isinstance(each, str) for each in array[:3]):
        raise TypeError("an event is an array that begins with three texts")
    return Event(*array)


class HistoryWriter:
    """A file of a history that grows. Call it from one thread, or from one event loop."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def write(self, record: Record) -> None:
        self._file.write(as_line(record) + "\n")

    def flush(self) -> None:
        """Hand the lines to the operating system. They survive a kill of this process."""
        self._file.flush()

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a history, with its place in the files.

    Attributes:
        number: The number of the line over all files of the history, from 1.
        text: The line itself.
    """

    number: int
    text: str
    record: Record = field(repr=False)


def read_texts(paths: Iterable[Path]) -> Iterator[tuple[int, str]]:
    """Read lines one at a time, with their numbers. The last line of a file is left out if it is incomplete."""
    number = 0
    for path in paths:
        with path.open(encoding="utf-8") as file:
            for text in file:
                if not text.endswith("\n"):
                    break  # the writer was killed
                number += 1
                yield number, text.rstrip("\n")


def read_history(paths: Iterable[Path]) -> Iterator[Line]:
    """Read the records of a history one at a time, in bounded memory.

    Raises:
        BadHistory: A line is not of the format.
    """
    for number, text in read_texts(paths):
        try:
            record = from_line(text)
        except ValueError as error:
            raise BadHistory(f"line {number}: {error}: {text[:200]}") from error
        yield Line(number, text, record)


def in_memory(records: Iterable[Record]) -> Iterator[Line]:
    """Return the lines of records that are in no file, in their order."""
    for number, record in enumerate(records, start=1):
        yield Line(number, as_line(record), record)
