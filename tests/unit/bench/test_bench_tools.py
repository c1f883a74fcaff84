"""The tools of ``make bench``: rows and parts of its page, lanes of the floor, the clock of the latency. None is timed."""

from __future__ import annotations

import importlib
import time
from collections import defaultdict
from collections.abc import Iterator
from math import inf
from types import ModuleType
from typing import Any

import pytest

from intake_house import IntakeHouse
from pages import CHECKOUT
from producer_house import KEY, producer_house
from publishers import SECRET
from raw_http import RawConnection
from service_process import free_ports

KEYS, EVENTS = 5, 100


@pytest.fixture(scope="module", autouse=True)
def _on_the_path() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(CHECKOUT / "tests" / "bench")
        yield


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.parametrize(("most", "verdict"), [(2.0, "met"), (1.25, "missed by 20%")])
def test_a_row_is_bounded_by_the_ratio_to_its_floor(most: float, verdict: str):
    row = _module("table").Row("a way", "a floor", most, [15.0, 30.0], [10.0, 20.0])
    assert row.cells()[3:6] == ["1.50", f"≤ {most:g}", verdict]


def test_a_row_may_have_a_unit_and_no_target():
    plain = _module("table").Plain("half", "", inf, [2.0], unit="ms")
    assert plain.cells() == ["half", "2.0 [2.0-2.0] ms", "", ""]


def test_what_is_signed_is_bounded_by_what_it_costs_above():
    row = _module("delivery").Signed("signed", "unsigned", 8, [30.0, 50.0], [20.0, 40.0])
    assert row.cells()[4:6] == ["≤ 8 µs above", "missed by 25%"]


def test_a_part_of_the_page_takes_the_place_of_the_one_of_its_name():
    with_part = _module("table").with_part
    page = with_part(with_part("# Figures\n", "one", "old"), "two", "other")
    again = with_part(page, "one", "new")
    assert again == page.replace("old", "new")
    assert again.index("new") < again.index("other")


def test_every_part_of_the_page_has_an_option_and_a_place_of_its_own():
    parts = _module("parts").PARTS
    options = _module("run").options_of
    for part in parts:
        assert vars(options([f"--{part.option}"]))[part.option.replace("-", "_")]
    assert len({part.name for part in parts}) == len(parts)


class _Wire:
    """In place of connections: what is on the wire of each key, answered one by one."""

    def __init__(self, lanes: Any) -> None:
        self._lanes = lanes
        self.key = b""
        self.sent: list[tuple[bytes, bytes]] = []

    def send(self, key: bytes, request: bytes) -> None:
        self.key = key
        self.sent.append((key, request))


async def test_lanes_send_one_of_a_key_at_a_time_and_all_in_order():
    counted = _module("bare_client").Counted(EVENTS)
    lanes = _module("lanes").Lanes(counted)
    wires = [_Wire(lanes) for _ in range(KEYS - 1)]
    for wire in wires:
        lanes.free(wire)
    for number in range(EVENTS):
        lanes.put(b"%d" % (number % KEYS), b"%d" % number)
    came = defaultdict(list)
    while not counted.all.done():
        busy = [wire for wire in wires if wire.sent]
        assert len({wire.key for wire in busy}) == len(busy)
        key, request = busy[0].sent.pop()
        came[key].append(int(request))
        lanes.answered(busy[0])
        wires.append(wires.pop(0))
    assert [number for key in sorted(came) for number in came[key]] == [
        number for key in range(KEYS) for number in range(key, EVENTS, KEYS)
    ]


async def test_what_is_posted_while_nobody_answers_waits_and_counts(
    monkeypatch: pytest.MonkeyPatch,
):
    """Open loop: what stands still for most of the time delays all that was due meanwhile, not one event."""
    ends, stalls = _module("latency_ends"), iter([0.3])
    came = ends.Ends.came

    def stall(self: Any, posted: int, at: int) -> None:
        time.sleep(next(stalls, 0.0))
        came(self, posted, at)

    monkeypatch.setattr(ends.Ends, "came", stall)
    (port,) = free_ports(1)
    told = await ends.measure(port, port, rate=200, seconds=0.4, warm=0.0)
    assert 30 < told["p50"] < told["p99"] <= told["most"]


async def test_a_steady_producer_tells_how_it_was_answered():
    quota = {"events": "1/h", "burst": 10}
    async with producer_house([{"name": "shop", "keys": [KEY], "quota": quota}]) as house:
        asked = _module("steady").measure(house.server.port, KEY, rate=500, seconds=0.2, warm=0.0)
        told = await asked
    assert told["statuses"] == {202: 10, 429: 90}
    assert 0 < told["p50"] <= told["p99"]


async def test_hooks_of_the_bench_are_signed_and_no_two_are_one():
    async with IntakeHouse().open() as house:
        for raw in _module("bench_events").hooks(3, "x", SECRET):
            async with await RawConnection.open(house.server.port) as peer:
                await peer.send(raw)
                assert (await peer.answer()).status == 202
    assert house.counted() == {("github", "accepted"): 3}
