"""Subscriptions that come, change, pause and go while the others run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.errors import SetupError, StoreUnavailable
from app.features.subscriptions.store_watcher import StoreWatcher
from app.formats import json
from app.interfaces import Command, Halt, SinkAnswer
from app.model.subscription import Subscription
from supervisor_rig import SupervisorRig
from waiting import until
from worker_doubles import ScriptedSink, a_subscription, an_event

EVENT = b'{"specversion":"1.0","id":"t","source":"/s","type":"t"}'


class House(SupervisorRig):
    def sink_for(self, subscription):
        if "refused" in subscription.sink_text:
            raise SetupError("no such certificate", setting="tls")
        sink = ScriptedSink()
        self.sinks.setdefault(subscription.id, []).append(sink)
        return sink

    async def apply(self, *subscriptions):
        await self.ticking(self.supervisor.apply(subscriptions))

    async def ask(self):
        now_ms = int(self.clock.now() * 1000)
        return await self.store.commands.ask(
            Command(subscription="filed", kind="test", body=EVENT, asked_ms=now_ms)
        )


@pytest.fixture
async def house():
    house = House(a_subscription(id="filed"))
    await house.begin()
    await house.running("filed")
    yield house
    await house.stop()


async def test_a_new_one_begins_and_the_others_notice_nothing(house):
    filed = a_subscription(id="filed")
    await house.apply(filed, a_subscription(id="made"))
    await house.running("filed", "made")
    await house.log.submit("orders", [an_event(0)])
    await until(lambda: all(sinks[0].answered == ["0"] for sinks in house.sinks.values()))
    assert len(house.sinks["filed"]) == 1


async def test_one_that_is_gone_ends_with_its_sink(house):
    await house.apply(a_subscription(id="filed"), a_subscription(id="made"))
    await house.running("filed", "made")
    await house.apply(a_subscription(id="filed"))
    assert house.states == {"filed": "running"}
    assert house.sinks["made"][0].stopped
    assert house.log.members["skybridge.test.made"][-1].closed


async def test_a_changed_one_goes_on_where_it_was_with_its_new_settings(house):
    """The group stays: nothing is lost by a change, and nothing sent again that was finished."""
    await house.log.submit("orders", [an_event(0)])
    await until(lambda: house.sinks["filed"][0].answered == ["0"])
    await house.apply(a_subscription(id="filed", filters=[{"exact": {"id": "2"}}]))
    await house.log.submit("orders", [an_event(1), an_event(2)])
    await until(lambda: house.sinks["filed"][-1].answered == ["2"])
    assert [sink.stopped for sink in house.sinks["filed"]] == [True, False]


async def test_one_that_is_pulled_no_more_counts_its_attempts(house):
    """What is a row of a queue was delivered to nobody; what a target took was."""
    filed = a_subscription(id="filed")
    await house.apply(filed, a_subscription(id="made", sink={"pull": {}}))
    await house.running("filed", "made")
    await house.apply(filed, a_subscription(id="made"))
    await house.log.submit("orders", [an_event(0)])
    await until(lambda: "made" in house.sinks and house.sinks["made"][-1].answered == ["0"])
    await until(lambda: [one.event.id for one in house.supervisor.attempts("made")] == ["0"])


async def test_the_same_settings_change_nothing(house):
    await house.apply(a_subscription(id="filed"))
    assert len(house.sinks["filed"]) == 1


async def test_one_that_cannot_be_made_is_reported_and_stops_nobody(house):
    broken = a_subscription(id="broken", sink="https://refused.example/")
    nowhere = a_subscription(id="nowhere", source={"broker": "gone", "topics": ["t"]})
    await house.apply(a_subscription(id="filed"), broken, nowhere)
    assert house.states == {"filed": "running", "broken": "broken", "nowhere": "broken"}
    causes = {one.id: one.cause for one in house.supervisor.status()}
    assert "no such certificate" in causes["broken"]
    assert "no broker 'gone'" in causes["nowhere"]
    await house.apply(a_subscription(id="filed"), a_subscription(id="broken"))
    await house.running("filed", "broken")


async def test_one_that_hangs_while_it_ends_does_not_hold_up_a_new_one(house):
    """Each changes by itself."""
    house.sinks["filed"][0].hold(0)
    await house.log.submit("orders", [an_event(0)])
    await until(lambda: house.sinks["filed"][0].flying == 1)
    ending = asyncio.create_task(house.supervisor.apply([a_subscription(id="made")]))
    await until(lambda: house.states.get("made") == "running")
    assert not ending.done()
    await house.ticking(ending)
    await house.running("made")


async def test_a_pause_holds_and_a_resume_goes_on_at_the_next_event(house):
    house.supervisor.halt({"filed": Halt("paused", "lunch", 0)})
    await until(lambda: house.states == {"filed": "paused"})
    await house.log.submit("orders", [an_event(0)])
    assert house.supervisor.status()[0].cause == "paused: lunch"
    assert house.sinks["filed"][0].requests == []
    house.supervisor.halt({})
    await until(lambda: house.sinks["filed"][0].answered == ["0"])


async def test_a_resume_between_two_looks_is_no_change_of_the_store_and_resumes_all_the_same(house):
    """W5: the 410's row came and went before anybody looked: the dispatcher alone knows of it."""
    sink = house.sinks["filed"][0]
    sink.answer(0, SinkAnswer(410))
    await house.log.submit("orders", [an_event(0)])
    await until(lambda: house.states == {"filed": "disabled"})
    await until(lambda: "filed" in house.store.halts.rows)
    await house.store.halts.allow("filed")
    house.supervisor.halt({})
    await until(lambda: sink.answered == ["0", "0"])
    assert house.states == {"filed": "running"}


async def test_what_its_document_pauses_stays_paused_when_a_halt_goes(house):
    paused = a_subscription(id="filed", paused=True)
    await house.apply(paused)
    await until(lambda: house.states == {"filed": "paused"})
    house.supervisor.halt({"filed": Halt("paused", "", 0)})
    house.supervisor.halt({})
    assert house.states == {"filed": "paused"}


async def test_a_test_event_goes_past_filters_and_pauses_and_is_answered(house):
    """Whoever tests wants to know what the target says now."""
    await house.apply(a_subscription(id="filed", filters=[{"exact": {"type": "other"}}]))
    house.supervisor.halt({"filed": Halt("paused", "", 0)})
    house.sinks["filed"][-1].default = SinkAnswer(418, detail="short", body=b"and stout" * 1000)
    number = await house.ask()
    await house.supervisor.take_commands()
    await until(lambda: house.store.commands.rows[number].answer is not None)
    answer = msgspec.json.decode((await house.store.commands.get(number)).answer)
    assert (answer["delivered"], answer["status"], answer["detail"]) == (False, 418, "short")
    assert len(answer["response"]) == 2000
    (request,) = house.sinks["filed"][-1].requests
    assert request.decoded.event == json.read_event(EVENT)


async def test_a_command_is_taken_once(house):
    number = await house.ask()
    await house.supervisor.take_commands()
    await house.supervisor.take_commands()
    await until(lambda: house.store.commands.rows[number].answer is not None)
    assert len(house.sinks["filed"][0].requests) == 1


class Catalog:
    """The subscriptions of a store that does not answer while ``away``."""

    incarnations: Mapping[str, int] = {}
    revision = 1
    away = False

    def __init__(self, *subscriptions: Subscription) -> None:
        self.subscriptions = subscriptions
        self.loaded = SimpleNamespace(config=SimpleNamespace(subscriptions=subscriptions))
        self.halts: Mapping[str, Halt] = {}

    async def refresh(self) -> None:
        if self.away:
            raise StoreUnavailable("no answer")


@pytest.fixture
async def catalog(house):
    """The catalogue of the subscription, which a watcher of the store reads."""
    catalog: Any = Catalog(a_subscription(id="filed"))
    brokers: Any = SimpleNamespace()
    watcher = StoreWatcher(catalog, house.supervisor, brokers, house.clock)
    await watcher.start()
    yield catalog
    await watcher.stop()


@pytest.mark.parametrize("ends", ["paused", "away", "unchanged"])
async def test_a_process_that_was_suspended_reads_the_store_before_it_sends(house, catalog, ends):
    """A pause of that time holds. While the store is away, the subscription goes on."""
    await house.clock.advance(3)
    if ends == "paused":
        catalog.halts, catalog.revision = {"filed": Halt("paused", "by ann", 1)}, 2
    catalog.away = ends == "away"
    house.clock.suspend(10)
    await house.log.submit("orders", [an_event(0)])
    await house.clock.rest()
    (sink,) = house.sinks["filed"]
    assert sink.answered == []
    await house.clock.advance(3)
    assert sink.answered == ([] if ends == "paused" else ["0"])
