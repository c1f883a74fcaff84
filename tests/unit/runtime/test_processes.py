"""Several processes on one port: what the parent decides, what they tell each other, what is told of them."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.bindings.record import Record
from app.brokers.embedded import open_log
from app.brokers.portable import PortableLog
from app.config.brokers import EmbeddedBroker
from app.config.load import load
from app.config.model import Events
from app.errors import SetupError
from app.model.receipt import Receipt
from app.runtime.clock import SystemClock
from app.runtime.processes.child import Child
from app.runtime.processes.crew import Crew
from app.runtime.processes.door import Door, log_behind
from app.runtime.processes.many import reserve, run_many
from app.runtime.processes.messages import Asked, Process, Report, Roll, Told, Up
from app.runtime.processes.open_door import open_door
from app.runtime.processes.pipe import UNSENT, Pipe
from app.runtime.processes.slots import LONGEST_DELAY, YOUNG, Slot
from app.telemetry import Counters
from patience import PATIENT
from virtual_clock import BEGIN, VirtualClock

KILLED = -signal.SIGKILL
Pair = Callable[[], tuple[Pipe, Pipe]]


@pytest.fixture
def pair() -> Iterator[Pair]:
    made: list[Pipe] = []

    def make() -> tuple[Pipe, Pipe]:
        ends = Pipe.pair()
        made.extend(ends)
        return ends

    yield make
    for end in made:
        end.close()


def _begin(slot: Slot, pair: Pair, now: float) -> Slot:
    slot.begin(77, pair()[0], now, BEGIN)
    return slot


def test_what_dies_late_is_replaced_at_once(pair: Pair) -> None:
    """Reliability R18: a dead process is replaced within 5 s."""
    slot = _begin(Slot(2), pair, 100.0)
    assert slot.end(KILLED, 100.0 + YOUNG) == 0
    assert slot.due == 100.0 + YOUNG
    assert (slot.pid, slot.cause) == (0, "it was ended by SIGKILL")


def test_what_dies_young_is_replaced_ever_more_slowly_up_to_a_bound(pair: Pair) -> None:
    """A process that cannot start must not fill the log and a processor."""
    slot = Slot(2)
    delays = []
    for _ in range(7):
        _begin(slot, pair, 100.0)
        delays.append(slot.end(2, 101.0))
    assert delays == [0.5, 1, 2, 4, 8, LONGEST_DELAY, LONGEST_DELAY]
    assert (slot.restarts, slot.cause) == (6, "it ended with 2")


def test_a_long_life_forgives_early_deaths(pair: Pair) -> None:
    slot = _begin(Slot(2), pair, 0.0)
    slot.end(1, 1.0)
    _begin(slot, pair, 2.0)
    assert slot.end(KILLED, 2.0 + YOUNG) == 0


def test_a_pipe_hands_out_whole_messages_in_their_order(pair: Pair) -> None:
    near, far = pair()
    asked = Asked(7, "key", None)
    near.send(Up())
    near.send(asked)
    assert far.receive() == [Up(), asked]
    assert far.receive() == []
    near.close()
    assert far.receive() is None


def test_a_pipe_puts_messages_together_that_came_in_pieces(pair: Pair) -> None:
    """A report may be larger than what the system carries at once."""
    near, far = pair()
    report = Report(
        ready=True, causes=(), counters={"c": [((f"{n:0500}",), n) for n in range(900)]}
    )
    near.send(report)
    found: list[Any] = []
    while not found:
        near.flush()
        found += far.receive() or ()
    assert found == [report]


def test_a_pipe_that_nobody_reads_neither_waits_nor_grows(pair: Pair) -> None:
    """Rule 8. The parent must go on when a process hangs."""
    near, _far = pair()
    report = Report(ready=True, causes=("x" * 10_000,), counters={})
    for _ in range(1_000):
        near.send(report)
    assert len(near._unsent) < UNSENT + 20_000


def _crew(ours: Pipe, clock: VirtualClock, *, first: bool = True, callbacks: Any = None) -> Crew:
    counters = Counters()
    counters.add("events_received", "binary", by=3)
    return Crew(Child(1, 1, ours, first), clock, counters, callbacks)


def _process(number: int, pid: int, *, up: bool = True, cause: str = "") -> Process:
    return Process(number, pid, up, 0, BEGIN, cause)


def _report(number: int, pid: int, *causes: str) -> Report:
    counters = {"events_received": [(("binary",), 5)]}
    return Report(not causes, causes, counters, number, pid)


def test_the_service_has_begun_when_all_processes_were_there(pair: Pair) -> None:
    """Readiness is not told too early."""
    crew = _crew(pair()[0], VirtualClock())
    assert not crew.begun
    crew.take(Roll((_process(1, 70), _process(2, 71, up=False))))
    assert not crew.begun
    crew.take(Roll((_process(1, 70), _process(2, 71))))
    assert crew.begun


def test_a_replaced_first_process_does_not_wait_for_the_others(pair: Pair) -> None:
    """It is the only one that can tell which of them is missing."""
    crew = _crew(pair()[0], VirtualClock(), first=False)
    assert crew.begun


def test_each_process_is_told_of_with_its_own_counts(pair: Pair) -> None:
    """Numbers of one of N must not pass for those of all."""
    crew = _crew(pair()[0], VirtualClock())
    crew.take(Roll((_process(1, 70), _process(2, 71))))
    crew.take(_report(2, 71, "route all: broker log: away"))
    one, two = crew.processes()
    assert (one.state, one.counters["events_received"]) == ("up", {("binary",): 3})
    assert (two.state, two.counters) == ("up", {"events_received": {("binary",): 5}})
    assert crew.causes() == ["process 2: route all: broker log: away"]


def test_counts_of_a_dead_process_are_not_those_of_its_successor(pair: Pair) -> None:
    """Each series begins at 0 with its process, as a counter does."""
    crew = _crew(pair()[0], VirtualClock())
    crew.take(_report(2, 71))
    crew.take(Roll((_process(1, 70), _process(2, 72))))
    assert crew.processes()[1].counters == {}


async def test_a_process_that_is_away_or_silent_is_named(pair: Pair) -> None:
    clock = VirtualClock()
    crew = _crew(pair()[0], clock)
    crew.take(Roll((_process(1, 70), _process(2, 0, cause="it was ended by SIGKILL"))))
    assert crew.processes()[1].state == "away"
    assert crew.causes() == ["process 2: it was ended by SIGKILL; it starts again"]
    crew.take(Roll((_process(1, 70), _process(2, 71))))
    crew.take(_report(2, 71))
    await clock.advance(11)
    assert crew.processes()[1].state == "silent"
    assert "for 11 s" in crew.causes()[0]


class Known:
    """As ``sinks.callbacks``."""

    def call(self, key: str, rate: str | None) -> bool:
        return (key, rate) == ("k", "60")


@pytest.mark.parametrize(("key", "known"), [("k", True), ("other", False)])
def test_a_consent_that_came_to_another_process_is_answered(
    pair: Pair, key: str, known: bool
) -> None:
    """The address that a webhook calls is known to process 1 alone (spec 5.3)."""
    ours, parent = pair()
    crew = _crew(ours, VirtualClock(), callbacks=Known())
    crew.take(Asked(9, key, "60", number=3))
    assert parent.receive() == [Told(9, known, 3)]


def test_a_service_that_takes_no_events_has_no_several_processes() -> None:
    """One process delivers: what the others would do is nothing."""
    loaded = load(None, {"SKYBRIDGE_SERVER__WORKERS": "2"})
    with pytest.raises(SetupError, match="--role worker") as refusal:
        run_many(loaded, ["worker"], lambda _: None)
    assert refusal.value.setting == "server.workers"


def test_a_port_that_somebody_listens_on_is_refused() -> None:
    """With SO_REUSEPORT two services would share their senders, and neither would know."""
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=str(port)) as refusal:
            reserve(Events(port=port))
    assert refusal.value.setting == "server.events.port"


def test_a_reserved_port_takes_no_connection() -> None:
    """While no process listens a sender is refused at once, rather than kept waiting."""
    with reserve(Events(port=0)) as reserved, pytest.raises(ConnectionRefusedError):
        socket.create_connection(reserved.getsockname(), timeout=60).close()


@pytest.fixture
async def log(tmp_path: Path) -> Any:
    log = open_log(name="log", path=tmp_path / "log", bounds=PATIENT)
    await log.start()
    yield log
    await log.stop()


def _gateways(door: Door, **changes: str) -> PortableLog:
    broker = EmbeddedBroker(kind="embedded", path=Path("unused"))
    return log_behind("log", broker, door._replace(**changes), PATIENT)


def _door() -> Door:
    return Door(socket.create_server(("127.0.0.1", 0)), "s3cret")


async def test_what_passes_the_door_has_the_receipt_that_its_owner_gives(log: PortableLog) -> None:
    """Same receipts, whichever process took the event."""
    door = _door()
    opened = await open_door(log, door, SystemClock())
    other = _gateways(door)
    await other.start()
    try:
        record = Record(b"k", (("ce_id", b"1"), ("none", b"")), None)
        found = [(await side.submit("t", [record]))[0] for side in (log, other, log)]
        places = [(each.broker, each.topic, each.position) for each in found]  # type: ignore[union-attr]
        assert places == [("log", "t", "0"), ("log", "t", "1"), ("log", "t", "2")]
        large = Record(b"k", (), bytes(15 << 20))
        assert isinstance((await other.submit("t", [large]))[0], Receipt)
    finally:
        await other.stop()
        await opened.stop(5.0)


async def test_the_door_is_shut_for_whoever_does_not_know_the_password(log: PortableLog) -> None:
    """Any user of the machine can reach a port on loopback."""
    door = _door()
    opened = await open_door(log, door, SystemClock())
    stranger = _gateways(door, password="guessed")
    await stranger.start()
    try:
        (fate,) = await stranger.submit("t", [Record(None, (), b"x")])
        assert not isinstance(fate, Receipt)
        assert not (await log.metadata()).topics
    finally:
        await stranger.stop()
        await opened.stop(5.0)
