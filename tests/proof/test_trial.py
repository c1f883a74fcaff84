"""The end of a trial: what heals it is a fault too, and nothing stays paused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proof.history import Call, Fault, Left, read_history
from proof.leftovers import left, not_running
from proof.scenarios import scenario
from proof.service_hosts import WORKERS, Service
from proof.trial import Trial


class Healed:
    """A laboratory whose cluster kills and restarts one broker to become whole."""

    def __init__(self, folder: Path) -> None:
        self.network: list[Any] = []
        self.store = SimpleNamespace(heal=lambda: None)
        broker = SimpleNamespace(folder=folder)
        self.cluster = SimpleNamespace(
            heal=lambda: {"rabbit1": time.monotonic()},
            processes={"rabbit1": broker}, commit=0.6, settle=20.0, lease=10.0, brokers=("rabbit1",),
        )  # fmt: skip
        self.store.members = {}


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    laboratory: Any = Healed(tmp_path / "rabbit1")
    made = Trial(laboratory, scenario("rabbitmq-leader"), 1, tmp_path / "run", lambda _: None)
    with closing(made._begin_history()):
        yield made


class Away:
    """The first worker, whose admin listener fails twice before it answers."""

    running = True

    def __init__(self) -> None:
        self._answers = [None, 503, 200]

    def ask(self, method: str, path: str) -> tuple[int, Any]:
        status = self._answers.pop(0)
        if status is None:
            raise OSError("no answer")
        return status, None

    def resume(self) -> None:
        """Continue, as a worker does that never stopped."""

    wait_until_answering = resume


def records(trial: Trial, kind: type[Any]) -> list[Any]:
    found = (line.record for line in read_history(trial.histories[:1]))
    return [each for each in found if isinstance(each, kind)]


def test_a_restart_that_heals_the_cluster_is_a_fault_with_a_window(trial: Trial) -> None:
    """The senders send meanwhile, so the restart may repeat deliveries."""
    begun = time.monotonic()
    trial._heal()
    (fault,) = records(trial, Fault)
    assert (fault.name, fault.host, fault.repeats) == ("killed", "rabbit1", True)
    assert begun <= fault.start <= fault.end <= time.monotonic()
    assert trial._faults.calm(begun, fault.end + 30) == pytest.approx(10)


def test_what_a_step_has_paused_is_resumed_until_the_answer_is_2xx(trial: Trial) -> None:
    """A subscription that stays paused would be convicted of lost events."""
    worker: Any = Away()
    trial._services = {WORKERS[0]: worker}
    trial._pauses.note("pause", "steady", 200)
    trial._heal()
    assert trial._pauses.waiting == set()
    assert [each.status for each in records(trial, Call)] == [None, 503, 200]


class Store:
    """A worker whose store answers at the second request."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, _method: str, path: str) -> tuple[int, Any]:
        self.asked.append(path)
        if len(self.asked) == 1:
            return 503, {"title": "the store does not answer"}
        if "status" in path:
            state = "running" if "steady" in path else "paused"
            return 200, {"health": {"state": state, "cause": "by ann"}}
        event = {"subscription": "steady", "event": {"id": path.partition("?")[0]}}
        rows = [event] if "dead" in path else []
        return 200, {"dead_letters": rows, "parked": rows, "next": None}


def test_what_is_left_is_asked_until_the_store_answers() -> None:
    assert list(left(Store().ask)) == [Left("steady", "/v1/dead-letters", "dead-letter")]
    told = list(not_running(Store().ask, ["steady", "moody"]))
    assert told == ["subscription moody is paused: by ann"]


@pytest.mark.parametrize(
    ("log", "lacked"),
    [
        ("error store.dsn: cannot be used\ncure  see that the server runs\n", True),
        ("error store.dsn: cannot be used\ncure  see\nevents listener\nadmin\nTraceback\n", False),
        ("", False),
    ],
)
def test_a_start_without_a_store_is_no_fault_of_the_service(
    tmp_path: Path, log: str, lacked: bool
) -> None:
    host: Any = SimpleNamespace(name="gateway1")
    service = Service(host, tmp_path, {})
    service.log.parent.mkdir(exist_ok=True)
    service.log.write_text(log)
    assert service.lacked_store is lacked
