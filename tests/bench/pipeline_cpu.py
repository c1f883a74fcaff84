"""CPU of Spark: of its JVM and of the Python workers below it. A busy machine changes it less than the time."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import msgspec
from cost import cpu_of_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Cost(msgspec.Struct, frozen=True):
    """``seconds`` by the clock, ``cpu`` seconds of all processes of Spark."""

    seconds: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.cpu + other.cpu)


class Meter:
    """``lap``: what was spent since the last one, by workers that Spark has ended since too."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
        self._at, self._spent = perf_counter(), cpu_of_tree(self._jvm)

    def lap(self) -> Cost:
        at, used = perf_counter(), cpu_of_tree(self._jvm)
        found = Cost(at - self._at, used - self._spent)
        self._at, self._spent = at, used
        return found


class Stages:
    """What lies between the moments that the archive tells of, under the name of the moment that ends it."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.found: dict[str, Cost] = {}

    def __call__(self, moment: str) -> None:
        self.found[moment] = self.found.get(moment, Cost()) + self._meter.lap()
