"""What the parent and its children tell each other, one line of JSON a message."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

Series = Mapping[str, list[tuple[tuple[str, ...], int]]]
"""Counters by name: the labels of each series, and its count."""


class Up(msgspec.Struct, frozen=True, tag="up"):
    """A child to its parent: everything has started."""


class Report(msgspec.Struct, frozen=True, tag="report"):
    """How a gateway process fares, once a second; the parent adds who it is and passes it to process 1."""

    ready: bool
    causes: tuple[str, ...]
    counters: Series
    number: int = 0
    pid: int = 0


class Process(msgspec.Struct, frozen=True):
    """One of them as the parent knows it. ``pid`` 0: there is none now. ``cause``: how the last one ended.
    ``started``: seconds since the epoch."""

    number: int
    pid: int
    up: bool
    restarts: int
    started: float
    cause: str


class Roll(msgspec.Struct, frozen=True, tag="roll"):
    """The parent to process 1, whenever something changed: all processes, itself among them."""

    processes: tuple[Process, ...]


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """A webhook consented at a gateway process (webhook specification): process 1 knows what it asked."""

    id: int
    key: str
    rate: str | None
    number: int = 0


class Told(msgspec.Struct, frozen=True, tag="told"):
    """Process 1's answer to ``Asked``. ``known``: there is such an address."""

    id: int
    known: bool
    number: int


class HungUp(msgspec.Struct, frozen=True, tag="hung up"):
    """SIGHUP came to the parent, which passes it on to process 1 alone: the file is read once."""


class Offered(msgspec.Struct, frozen=True, tag="offered"):
    """Process 1 to all others, through the parent: the file as it was read. Build it and say so."""

    id: int
    raw: bytes


class Built(msgspec.Struct, frozen=True, tag="built"):
    """The answer. ``fault``: why it cannot be."""

    id: int
    fault: str = ""
    number: int = 0


class Swap(msgspec.Struct, frozen=True, tag="swap"):
    """Process 1 to all others: use what you built of ``Offered``. The parent starts new ones with it."""

    id: int


class Swapped(msgspec.Struct, frozen=True, tag="swapped"):
    """The answer."""

    id: int
    number: int = 0


Message = Up | Report | Roll | Asked | Told | HungUp | Offered | Built | Swap | Swapped
