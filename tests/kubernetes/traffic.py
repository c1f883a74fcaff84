"""The load of a scenario, as the laboratory controls it: begin, end, and the row of figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode

from place import Space

from waiting import wait_until

SETTLED = 240.0  # seconds in which all accepted events have to arrive
_STEADY = 120  # accepted events before and after what happens


class Row(NamedTuple):
    """What one scenario showed.

    Attributes:
        order: Events that arrived after a later one of their key.
        refused: Attempts without the answer 202; the sender repeated them.
        longest_gap: The longest time without an accepted event, in seconds.
        may_refuse: Whether attempts may fail, because nothing else takes events meanwhile.
        may_reorder: Whether events of a key may change their order.
        note: What a reader of the row has to know.
        refusals: The first refused attempts, with their seconds and causes.
    """

    scenario: str
    topology: str
    accepted: int
    lost: int
    repeated: int
    order: int
    refused: int
    longest_gap: float
    may_refuse: bool
    may_reorder: bool = False
    note: str = ""
    refusals: tuple[str, ...] = ()

    def faults(self) -> list[str]:
        """Return what breaks a promise, in words."""
        bounds = [("lost", self.lost)]
        if not self.may_reorder:
            bounds.append(("out of order", self.order))
        if not self.may_refuse:
            bounds.append(("refused", self.refused))
        return [f"{count} {what}" for what, count in bounds if count]


class Load:
    """A run of the load in a namespace."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self.report: Mapping[str, Any] = {}

    def progress(self) -> Mapping[str, Any]:
        return self._ask("progress")

    def wait_steady(self) -> None:
        """Wait until the installation has accepted some seconds' load more than now, and delivers."""
        before = self.progress()
        wait_until(
            lambda: self._moved(before), f"accepted events; {self.progress()}", SETTLED, turn=0.25
        )

    def _moved(self, before: Mapping[str, Any]) -> bool:
        now = self.progress()
        return all(now[each] - before[each] >= _STEADY for each in ("accepted", "arrived"))

    def start(self, url: str, rate: float, secrets: tuple[str, ...], key: str) -> None:
        plain = [("url", url), ("rate", str(rate)), ("key", key)]
        query = [*plain, *(("secret", each) for each in secrets)]
        self._ask(f"start?{urlencode(query)}")

    def finish(self) -> None:
        """End the sending, wait for what is still to arrive, and fetch the report."""
        self._ask("stop")
        try:
            wait_until(self._settled, "all accepted events arrived", SETTLED, turn=0.25)
        finally:
            self.report = self._ask("report")

    def _settled(self) -> bool:
        now = self.progress()
        return not now["sending"] and not now["outstanding"]

    def _ask(self, what: str) -> Mapping[str, Any]:
        path = f"/api/v1/namespaces/{self._space.name}/pods/load:9001/proxy/{what}"
        answer: Mapping[str, Any] = json.loads(self._space.site.cluster.raw(path))
        return answer

    def row(
        self, scenario: str, topology: str, note: str = "", *, may_refuse: bool | None = None
    ) -> Row:
        """Return the figures of the run.

        Args:
            scenario: What happened.
            topology: Of the release.
            may_reorder: Whether events of a key may change their order.
        note: What a reader of the row has to know.
            may_refuse: Whether attempts may fail. None: with one pod they may.
        """
        names = ("accepted", "lost", "repeated", "order", "refused", "longest_gap")
        figures = [self.report[each] for each in names]
        may = topology == "single" if may_refuse is None else may_refuse
        refusals = tuple(f"{second} s: {cause}" for second, cause in self.report["refusals"])
        return Row(scenario, topology, *figures, may_refuse=may, note=note, refusals=refusals)


@contextmanager
def load(
    space: Space, url: str, rate: float, secrets: tuple[str, ...] = (), key: str = ""
) -> Iterator[Load]:
    """Run a load during the block, steady before it begins and again after it ends."""
    running = Load(space)
    running.start(url, rate, secrets, key)
    running.wait_steady()
    yield running
    running.wait_steady()
    running.finish()
