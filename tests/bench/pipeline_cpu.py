"""CPU of Spark: of its JVM and of the Python workers below it. A busy machine changes it less than the time."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(msgspec.Struct, frozen=True):
    """``seconds`` by the clock, ``cpu`` seconds of all processes of Spark."""

    seconds: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.cpu + other.cpu)


class Meter:
    """``lap``: what was spent since the last one."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
        self._at, self._spent = perf_counter(), _spent(self._jvm)

    def lap(self) -> Cost:
        at, spent = perf_counter(), _spent(self._jvm)
        cpu = sum(each - self._spent.get(process, 0.0) for process, each in spent.items())
        found = Cost(at - self._at, cpu)
        self._at, self._spent = at, spent
        return found


class Stages:
    """What lies between the moments that the archive tells of, under the name of the moment that ends it."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.found: dict[str, Cost] = {}

    def __call__(self, moment: str) -> None:
        self.found[moment] = self.found.get(moment, Cost()) + self._meter.lap()


def _spent(process: int) -> dict[int, float]:
    """Seconds of a process and of all below it, by their numbers. Spark ends workers that stood idle: what a way
    costs is told by those that are there behind it.
    """
    try:
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task").glob("*/children")
        below = [int(child) for each in children for child in each.read_text().split()]
    except OSError:  # it has ended
        return {}
    found = {process: sum(map(int, stat[11:13])) / _TICKS}
    for child in below:
        found |= _spent(child)
    return found
