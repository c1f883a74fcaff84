"""A service is a list of components: in which order they start and stop, what a reload does to them, and what one bad
component does to the others (docs/adr/0048)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.config.diff.difference import Difference
from app.config.load.loader import Loaded
from app.errors import SetupError
from app.features import component as components
from app.features.admin import AdminComponent
from app.features.component import WELL, Component, ComponentHealth, ConfigChange, Role
from app.interfaces.clock import SystemClock
from app.model.cause import Cause
from app.runtime.reload.reloader import Reloader
from app.runtime.service import Service
from app.telemetry import Counters
from configuration import configuration, loaded, written


class Noted(Component[str]):
    """Writes down what is asked of it. ``policy``: the last that was applied."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes
        self.policy = "first"

    def note(self, what: str) -> None:
        self.notes.append(f"{self.name} {what}")

    async def start(self) -> None:
        self.note("start")

    async def stop(self, drain: float) -> None:
        self.note(f"stop {drain:g}")

    async def prepare(self, change: ConfigChange) -> str:
        self.note("prepare")
        return f"{self.name} of {change.config.installation}"

    def discard(self) -> None:
        self.note("discard")

    def apply(self, prepared: str) -> None:
        self.note("apply")
        self.policy = prepared

    async def retire(self) -> None:
        self.note("retire")


class FailsToPrepare(Noted):
    async def prepare(self, change: ConfigChange) -> str:
        raise SetupError("cannot be made", setting="x")


class FailsToStart(Noted):
    async def start(self) -> None:
        raise SetupError("cannot start", setting="x")


class Ill(Noted):
    async def health(self, role: Role) -> ComponentHealth:
        return ComponentHealth(False, [Cause(f"{self.name} is ill")]) if role == "worker" else WELL


class Hanging(Noted):
    async def stop(self, drain: float) -> None:
        self.note("hangs")
        await asyncio.Event().wait()


class Breaking(Noted):
    async def stop(self, drain: float) -> None:
        raise ZeroDivisionError


class Console(AdminComponent):
    """Where a service would have its admin listener."""

    def __init__(self) -> None:
        self.name = "admin"

    async def start(self) -> None: ...

    async def stop(self, drain: float) -> None: ...

    async def prepare(self, change: ConfigChange) -> Any: ...

    def apply(self, prepared: Any) -> None: ...

    def log_missing_console(self) -> None: ...


class House:
    """A service of ``first``, what a test puts in between, and ``last``."""

    def __init__(self, folder: Path) -> None:
        self.notes: list[str] = []
        settings = configuration(folder, installation="shop", timeouts={"drain": "3s"})
        self.loaded: Loaded = loaded(written(settings, folder))
        self.service = Service(self.loaded.config, ["gateway", "worker"], SystemClock(), Counters())
        self.service.add(Console())
        trail: Any = None
        self.service.reloader = Reloader(
            None, self.loaded, self.service.apply_change, SystemClock(), Counters(), trail
        )

    def add(self, kind: type[Noted], name: str) -> Noted:
        made = kind(name, self.notes)
        self.service.add(made)
        return made

    def change(self) -> ConfigChange:
        return ConfigChange(self.loaded, Difference(()))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def test_components_start_in_order_and_stop_in_reverse(house: House) -> None:
    house.add(Noted, "first")
    house.add(Noted, "last")
    await house.service.start()
    await house.service.stop()
    assert house.notes == ["first start", "last start", "last stop 3", "first stop 3"]


async def test_components_of_one_stage_stop_together(house: House) -> None:
    """Each waits for the other: their drain times do not add up."""
    met = asyncio.Barrier(2)

    class Meeting(Noted):
        async def stop(self, drain: float) -> None:
            await met.wait()

    house.service.add(Meeting("a", house.notes), Meeting("b", house.notes))
    await house.service.start()
    async with asyncio.timeout(60):
        await house.service.stop()


async def test_a_start_that_fails_stops_what_had_started(house: House) -> None:
    house.add(Noted, "first")
    house.add(FailsToStart, "bad")
    house.add(Noted, "last")
    with pytest.raises(SetupError, match="cannot start"):
        await house.service.start()
    assert house.notes == ["first start", "first stop 0"]


async def test_all_prepare_before_any_applies(house: House) -> None:
    first, last = house.add(Noted, "first"), house.add(Noted, "last")
    await house.service.apply_change(house.change())
    assert house.notes == [
        "first prepare", "last prepare", "first apply", "last apply", "first retire", "last retire",
    ]  # fmt: skip
    assert (first.policy, last.policy) == ("first of shop", "last of shop")


async def test_a_component_that_cannot_prepare_leaves_all_as_they_were(house: House) -> None:
    """Nothing of the new configuration is in force, and what was prepared is let go, the last first."""
    first = house.add(Noted, "first")
    house.add(FailsToPrepare, "bad")
    last = house.add(Noted, "last")
    with pytest.raises(SetupError, match="cannot be made"):
        await house.service.apply_change(house.change())
    assert house.notes == ["first prepare", "bad discard", "first discard"]
    assert (first.policy, last.policy) == ("first", "first")


async def test_a_component_sees_what_those_before_it_have_prepared(house: House) -> None:
    first = house.add(Noted, "first")

    class Behind(Noted):
        async def prepare(self, change: ConfigChange) -> str:
            return f"behind {change.of(first)}"

    behind = house.add(Behind, "behind")
    await house.service.apply_change(house.change())
    assert behind.policy == "behind first of shop"


async def test_an_ill_component_makes_its_role_unready_and_no_other(house: House) -> None:
    house.add(Noted, "first")
    house.add(Ill, "bad")
    await house.service.start()
    found = await house.service.readiness()
    assert (found["gateway"].ready, found["gateway"].causes) == (True, [])
    assert (found["worker"].ready, found["worker"].causes) == (False, ["bad is ill"])


@pytest.mark.parametrize("bad", [Hanging, Breaking])
async def test_a_component_that_does_not_stop_keeps_no_other_from_stopping(
    house: House,
    bad: type[Noted],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is left behind after its time, and the log names it."""
    monkeypatch.setattr(components, "RELEASE", -2.99)
    house.add(Noted, "first")
    house.add(bad, "bad")
    house.add(Noted, "last")
    await house.service.start()
    async with asyncio.timeout(60):
        await house.service.stop()
    assert house.notes[-1] == "first stop 3"
    assert "last stop 3" in house.notes
    assert [each.message for each in caplog.records if "bad did not stop" in each.message]
