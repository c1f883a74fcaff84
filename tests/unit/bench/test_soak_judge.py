"""What `make soak` calls flat, and what it calls growing (issue 9: RSS slope, tasks, sockets, descriptors)."""

from __future__ import annotations

import importlib.util
import sys
from random import Random

import pytest

from pages import CHECKOUT

TIMES = [5.0 * number for number in range(180)]  # a quarter of an hour behind the warm-up


def _bench(name: str):
    """A module of tests/bench, which is on nobody's path."""
    spec = importlib.util.spec_from_file_location(name, CHECKOUT / "tests" / "bench" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


judge = _bench("soak_judge")
BOUND = judge.memory_bound(
    repeated=40_000
)  # MB an hour: 350 events a second, three percent of them twice


def noisy(growth: float, of: float = 130.0, *, seed: int = 1) -> list[float]:
    """Megabytes: growing so much an hour, with what an allocator adds and gives back."""
    chance = Random(seed)
    return [of + growth * at / 3600 + abs(chance.gauss(0, 0.05)) for at in TIMES]


def test_a_series_that_stays_is_flat():
    assert judge.trend("memory", TIMES, noisy(0.0), BOUND).flat


@pytest.mark.parametrize("growth", [1.0, 5.0, 500.0])
def test_a_series_that_leaks_grows(growth: float):
    """16 bytes for every attempt that is made again would be 0.64 MB an hour."""
    found = judge.trend("memory", TIMES, noisy(growth), BOUND)
    assert not found.flat
    assert found.hourly == pytest.approx(growth, abs=0.2)


def test_peaks_are_no_growth():
    """A page of a report, a rebalance: a few samples high above the rest, at the end."""
    values = noisy(0.0)
    values[-10:] = [value + 80 for value in values[-10:]]
    assert judge.trend("memory", TIMES, values, BOUND).flat


@pytest.mark.parametrize(("every", "flat"), [(None, True), (100, False)])
def test_one_descriptor_now_and_then_is_a_leak(every: int | None, flat: bool):
    """With the connections that come and go with the load."""
    chance = Random(2)
    values = [74 + chance.choice((0, 0, 1)) + (n // every if every else 0) for n in range(180)]
    bound = judge.count_bound(TIMES[-1])
    assert judge.trend("descriptors", TIMES, values, bound).flat is flat


def test_the_warm_up_is_the_first_half():
    assert judge.warm(TIMES, TIMES[-1]) == pytest.approx(len(TIMES) / 2, abs=1)
