"""The end of a trial: what heals it is a fault too, and nothing stays paused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proof.history import Fault, read_history
from proof.scenarios import scenario
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
