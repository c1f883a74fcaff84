"""What an event costs by the size of something: does it grow? Rounds of all sizes alternate."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import lab
import logs
import many
from bench_events import BATCH, type_of
from cost import memory
from curve import Curve, Point

SIZES: Mapping[str, tuple[int, ...]] = {
    "body": (600, 2_000, 8_000, 60_000),
    "connections": (1, 16, 64, 256, 1_000),
    "routes": (1, 10, 100, 1_000),
    "subscriptions": (10, 100, 1_000),
    "topics": (1, 10, 100, 1_000),
    "backlog": (10_000, 100_000, 1_000_000),
}
"""The documented range of each."""
SHORT: Mapping[str, tuple[int, ...]] = {
    "body": (600, 8_000),
    "connections": (1, 64),
    "routes": (1, 50),
    "subscriptions": (10, 20),
    "topics": (1, 20),
    "backlog": (5_000, 10_000),
}
MOST = 120_000_000  # bytes of data in a round: large bodies come in fewer events
PICTURE = "curves.svg"
PREFACE = f"""## Curves

What one event costs by the bytes of its data, by connections, by routes, by subscriptions of which ten want it, by topics,
and by the events that wait in the log while a subscription drains it. A curve is flat if no size costs over 20 % more than a
smaller one. The body curve is on Kafka, beside the plain floor (`await producer.send` of the same bytes): it is flat if no
body costs over 20 % more than the smallest body plus the growth of the floor. The others are on the embedded log. Routes and topics are chosen by the event's type, each equally
often.

![Cost of an event by size]({PICTURE})
"""


class Way(ABC):
    """How one kind of curve is measured. ``point`` measures one size once, in a folder that may be there already."""

    what: ClassVar[str]
    unit: ClassVar[str] = "µs an event"
    log: ClassVar[str] = "embedded"

    def __init__(self, log: logs.Log, folder: Path, events: int) -> None:
        folder.mkdir()
        self.log_of, self.folder, self.events = log, folder, events
        self.started: list[Any] = []
        self._services: dict[Any, lab.Service] = {}

    @abstractmethod
    def point(self, point: Point, number: int) -> None: ...

    def service(self, of: object, **settings: Any) -> lab.Service:
        """One for each ``of``, started and warm from the second call on."""
        if of not in self._services:
            place = self.folder / str(of)
            broker = self.log_of.broker(self.folder / f"{of}-log")
            service = self._services[of] = lab.Service(place, broker, **settings)
            service.start()
            self.started.append(service)
        return self._services[of]

    def load(
        self, point: Point, service: lab.Service, number: int, *words: str, least: int = 0
    ) -> None:
        """At ``least`` so many events."""
        point.costs.append(self.cost(service, max(least, self.events), number, *words))
        point.memory = memory(service.pid).now

    def cost(self, of: lab.Service | lab.Server, events: int, number: int, *words: str) -> float:
        if number == 0:
            lab.load(of.port, "single", max(1_000, events // 2), *words)  # warm
        return lab.cpu_of_load(of.pid, of.port, "single", events, *words)


class Bodies(Way):
    what, log = "bytes of data", "kafka"

    def point(self, point: Point, number: int) -> None:
        events, word = min(self.events, MOST // point.size), f"--body={point.size}"
        service = self.service("service")
        if not number and len(self.started) == 1:
            self.started.append(self.log_of.floor())
        floor = self.started[1]
        point.costs.append(self.cost(service, events, number, word))
        point.floors.append(self.cost(floor, events, number, word))
        point.memory = memory(service.pid).now


class Connections(Way):
    what = "connections"

    def point(self, point: Point, number: int) -> None:
        """To open one costs too: it carries a hundred events."""
        word, least = f"--connections={point.size}", 100 * point.size
        self.load(point, self.service("service"), number, word, least=least)


class Routes(Way):
    """All to one topic, each for a type of its own."""

    what = "routes"

    def point(self, point: Point, number: int) -> None:
        routes = [
            {
                "name": f"route-{number}",
                "filters": [{"exact": {"type": type_of(number)}}],
                "to": {"broker": "target", "topic": lab.TOPIC},
                "key": {"mapper": "partitionkey"},
            }
            for number in range(point.size)
        ]
        types = max(2, point.size)  # where there is one, it has another name
        self.load(point, self.service(point.size, routes=routes), number, f"--types={types}")


class Topics(Way):
    what = "topics"

    def point(self, point: Point, number: int) -> None:
        to = {"to": {"broker": "target", "topic": "bench.{type}"}}
        service = self.service(point.size, route=to)
        self.load(point, service, number, f"--types={point.size}")


class Subscriptions(Way):
    what, unit = "subscriptions", "µs a delivery"

    def point(self, point: Point, number: int) -> None:
        folder = self.folder / f"{point.size}-{number}"
        folder.mkdir()
        apart = many.taking_in(folder / "apart", self._log(folder, 0), self.events)
        found = many.measure(folder / "many", self._log(folder, 1), point.size, self.events, apart)
        point.costs.append(found.delivery)
        point.memory = found.memory

    def _log(self, folder: Path, number: int) -> dict[str, Any]:
        return self.log_of.broker(folder / f"log-{number}")


class Backlog(Way):
    """As many deliveries from each log, however many events wait in it."""

    what, unit = "events that wait", "µs a delivery"

    def point(self, point: Point, number: int) -> None:
        folder = self.folder / f"{point.size}-{number}"
        folder.mkdir()
        service = self._filled(point.size)
        sink = lab.Sink(folder)
        hook = {
            "id": f"drain-{number}",
            "source": {"broker": "target", "topics": [lab.TOPIC]},
            "start": "earliest",
            "sink": f"http://127.0.0.1:{sink.port}/",
            "concurrency": 64,
        }
        with lab.stopping([sink]):
            least = min(self.events, point.size)
            found = lab.drain(service, hook, sink.count, least, least // 10)
        point.costs.append(found.cost)
        point.memory = found.memory.now

    def _filled(self, size: int) -> lab.Service:
        """Stopped, with the log."""
        if size not in self._services:
            service = self.service(size)
            lab.load(service.port, "batch", size // BATCH)
            service.stop()
            self.started.remove(service)
        return self._services[size]


WAYS: Mapping[str, type[Way]] = {
    "body": Bodies,
    "connections": Connections,
    "routes": Routes,
    "subscriptions": Subscriptions,
    "topics": Topics,
    "backlog": Backlog,
}


def measure(
    folder: Path, sizes: Mapping[str, Sequence[int]], rounds: int, events: int
) -> tuple[list[Curve], list[str]]:
    lab.many_files()
    remarks = [f"{rounds} rounds of up to {events:,} events or deliveries for each size."]
    curves = [
        curve
        for name, of in sizes.items()
        if (curve := _curve(WAYS[name], folder / name, sorted(of), rounds, events, remarks))
    ]
    return curves, remarks


def _curve(
    way: type[Way], folder: Path, sizes: Sequence[int], rounds: int, events: int, remarks: list[str]
) -> Curve | None:
    with logs.standing(way.log, remarks) as log:
        if log is None:
            return None
        points, of = [Point(size) for size in sizes], way(log, folder, events)
        with lab.stopping(of.started):
            for number in range(rounds):
                for point in points:
                    print(f"{way.what}: {point.size:,}, {number + 1} of {rounds}", file=sys.stderr)
                    of.point(point, number)
        return Curve(way.what, way.unit, points)


def sizes_of(words: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``routes=1,10,100`` and so on. Raises ValueError for what is none of the curves, and for what is no number."""
    found: dict[str, tuple[int, ...]] = {}
    for word in words:
        name, _, listed = word.partition("=")
        if name not in WAYS:
            raise ValueError(
                f"--sizes {word}: write one of {', '.join(WAYS)}, such as routes=1,10,100"
            )
        numbers = [each.strip() for each in listed.split(",")]
        if not all(each.isascii() and each.isdigit() and int(each) for each in numbers):
            raise ValueError(
                f"--sizes {word}: write whole numbers above 0, such as {name}=1,10,100"
            )
        found[name] = tuple(map(int, numbers))
    return found
