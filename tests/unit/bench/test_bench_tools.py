"""The tools of ``make bench``: rows and parts of its page, lanes of the floor, the clock of the latency. None is timed."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from free_ports import free_ports
from intake_bench import IntakeBench
from pages import CHECKOUT
from producer_listener import KEY, OTHER_KEY, producer_house
from publishers import SECRET
from raw_http import RawConnection

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


def test_a_new_part_of_the_page_has_its_place_among_the_others():
    with_part = _module("table").with_part
    order, page = ["one", "two", "three"], "# Figures\n"
    for name in ("three", "one", "foreign", "two"):
        page = with_part(page, name, f"of {name}", order)
    places = [page.index(f"of {name}") for name in ("one", "two", "three", "foreign")]
    assert places == sorted(places)


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


async def test_a_steady_producer_tells_how_it_was_answered_and_counts_the_greedy_one_beside_it():
    quota = {"events": "1/h", "burst": 10}
    producers = [
        {"name": "shop", "keys": [KEY]},
        {"name": "greedy", "keys": [OTHER_KEY], "quota": quota},
    ]
    async with producer_house(producers) as house:
        beside = {"greedy_key": OTHER_KEY, "greedy_rate": 1_000.0}
        words = (house.server.port, KEY, 500.0, 0.2, 0.1)
        told = await asyncio.to_thread(_module("open_loop").measure, *words, **beside)
    assert told["statuses"] == {202: 100}
    assert 0 < told["p50"] <= told["p99"] <= told["most"]
    assert told["greedy"][202] == 10
    assert told["greedy"][429] >= 90
    assert set(told["greedy"]) == {202, 429}


async def test_a_delay_has_the_service_in_it_and_not_the_sender(monkeypatch: pytest.MonkeyPatch):
    """A sender that finds no CPU posts late and reads late: that is told apart."""
    loop = _module("open_loop")
    stalls, turn = iter([0.0, 0.3]), loop.Measured.turn

    def stall(self: Any) -> None:
        time.sleep(next(stalls, 0.0))
        turn(self)

    monkeypatch.setattr(loop.Measured, "turn", stall)
    async with producer_house([{"name": "shop", "keys": [KEY]}]) as house:
        words = (house.server.port, KEY, 100.0, 0.5, 0.0)
        told = await asyncio.to_thread(loop.measure, *words)
    assert told["late"] > 200
    assert told["p99_due"] > 200
    assert told["p50"] < 100


@pytest.mark.parametrize(
    ("answer", "rest"),
    [
        (b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 429 No\r\nContent-Length: 4\r\n\r\nbusy", b"HTTP/1.1 202"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            b"HTTP/1.1 2",
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
def test_the_load_knows_where_an_answer_ends(answer: bytes, rest: bytes):
    length = _module("load").length_of_answer
    assert length(answer + rest) == len(answer)
    assert not any(length(answer[:size]) <= size for size in range(len(answer)))


def test_large_requests_are_whole_and_of_all_keys():
    events = _module("bench_events")
    made = iter(events.requests("single", "x", 8_000))
    assert next(made) == events.single(0, "x", 8_000)
    other = next(made)
    assert other == events.single(1, "x", 8_000)
    assert len(other.partition(b"\r\n\r\n")[2]) == 8_000


def _curve(*costs: float, floors: Sequence[float] = ()) -> Any:
    module = _module("curve")
    points = [module.Point(10**at, [cost]) for at, cost in enumerate(costs)]
    for point, floor in zip(points, floors, strict=False):
        point.floors.append(floor)
    return module.Curve("routes", "µs an event", points)


@pytest.mark.parametrize(
    ("curve", "growth", "verdict"),
    [
        ((40.0, 20.0, 24.0), 1.2, "flat"),
        ((40.0, 20.0, 26.0, 25.0), 1.3, "grows by 30%"),
        ((30.0, 20.0, 10.0), 2 / 3, "flat"),
        ((7.0,), 1.0, "flat"),
    ],
)
def test_a_curve_grows_if_a_size_costs_more_than_a_smaller_one(
    curve: Sequence[float], growth: float, verdict: str
):
    found = _curve(*curve)
    assert found.growth == pytest.approx(growth)
    assert found.verdict == found.cells()[-1] == verdict


def test_a_curve_with_floors_may_grow_as_they_do():
    """A byte costs everybody; who is cheaper than the floor does not grow by what both pay."""
    assert _curve(10.0, 90.0, floors=(20.0, 100.0)).verdict == "flat beyond the floor"
    assert _curve(10.0, 180.0, floors=(20.0, 100.0)).verdict == "grows by 100% beyond the floor"


def test_curves_are_drawn_with_every_size_and_verdict():
    curves = [_curve(40.0, 20.0, 26.0), _curve(10.0, 11.0, floors=(20.0, 21.0)), _curve(5.0)]
    drawn = ET.fromstring(_module("curves_picture").picture(curves))
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    for curve in curves:
        assert f"{curve.unit}; {curve.verdict}" in texts
        assert all(f"{point.size:,}" in texts for point in curve.points)
    assert "floor 21.0" in texts


@pytest.mark.parametrize(
    "word", ["lanes=1", "routes", "routes=", "routes=1,x", "routes=0", "routes=-1"]
)
def test_sizes_that_are_none_are_refused(word: str):
    with pytest.raises(ValueError, match="routes"):
        _module("curves").sizes_of([word])


def test_sizes_of_a_curve_are_set():
    sizes = _module("curves").sizes_of(["routes=1,50", "backlog=1000"])
    assert sizes == {"routes": (1, 50), "backlog": (1_000,)}
    assert sizes.keys() < _module("curves").SIZES.keys() == _module("curves").WAYS.keys()


def test_a_process_that_has_ended_costs_nothing_more():
    cost = _module("cost")
    with subprocess.Popen(["sleep", "60"]) as process:
        assert process.pid in cost.tree(os.getpid())
        assert cost.memory_of_tree(process.pid).now > 0
        process.kill()
    assert cost.tree(process.pid) == []
    assert cost.memory_of_tree(process.pid) == cost.Memory(0.0, 0.0)


def test_what_an_ended_process_has_spent_counts_for_the_one_that_started_it():
    cost = _module("cost")
    before = cost.cpu_of_tree(os.getpid())
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert cost.cpu_of_tree(os.getpid()) - before >= 0.2  # a clock tick is 10 ms


def test_what_is_behind_two_dashes_starts_the_peer():
    command = ["sh", "-c", "serve --port 1", "{address}"]
    words = ["--beside", "x", "--url", "http://127.0.0.1:1/", "--log", "kafka", "--", *command]
    run = _module("run")
    options = run.options_of(words)
    assert options.command == command
    assert [part.name for part in run.chosen(options)] == ["beside x"]


@pytest.mark.parametrize(
    "words", [["--beside", "x"], ["--url", "http://127.0.0.1:1/", "--", "true"]]
)
def test_a_peer_without_name_address_or_command_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        _module("run").options_of(words)
    assert "--beside NAME, --url URL" in capsys.readouterr().err


async def test_hooks_of_the_bench_are_signed_and_no_two_are_one():
    async with IntakeBench().open() as house:
        for raw in _module("bench_events").hooks(3, "x", SECRET):
            async with await RawConnection.open(house.server.port) as peer:
                await peer.send(raw)
                assert (await peer.answer()).status == 202
    assert house.counted() == {("github", "accepted"): 3}
