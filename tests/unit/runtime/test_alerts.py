"""One process of an installation sends the alerts, whatever happens to processes, the store and the channel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import publisher_apis
from app.delivery.alert_plan import ProcessFindings
from app.features.alerts.component import AlertsComponent
from app.features.alerts.duty import FORGOTTEN, LOOKS
from app.features.alerts.sender import LOOK, AlertSender
from app.model.operator_verdict import OperatorVerdict
from configuration import configuration, loaded, written
from memory_store import MemoryStore
from verdict_samples import FAILS, STORE_AWAY
from virtual_clock import VirtualClock
from waiting import until
from webhook_target import WebhookTarget, status

TAKEN = status(200, body=b"ok")


class Process:
    """One process of the installation, which finds what the test says."""

    def __init__(self, house: House, folder: Path, **alert: Any) -> None:
        to = {"preset": "slack", "url": house.target.url}
        settings = configuration(folder, alerts=[{"name": "ops", "to": to, **alert}])
        self._house = house
        self.config = loaded(written(settings, folder)).config
        self.finds: list[OperatorVerdict] = []
        self.component = AlertsComponent(self.config, house.clock, house.store, self._findings)

    async def _findings(self) -> ProcessFindings:
        return ProcessFindings(tuple(self.finds))

    @property
    def sends(self) -> bool:
        return self.component.views()[0].sends

    @property
    def error(self) -> str:
        return self.component.views()[0].error


class House:
    """An installation: a store, a channel, and processes that look every ten seconds."""

    def __init__(self, target: WebhookTarget, folder: Path) -> None:
        self.target = target
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        self._folder = folder
        self.opened: list[Process] = []

    def process(self, **alert: Any) -> Process:
        process = Process(self, self._folder, **alert)
        self.opened.append(process)
        return process

    async def look(self, *processes: Process, times: int = 1) -> None:
        for _ in range(times):
            for each in processes:
                await each.component.look()
            await self.clock.advance(LOOK)

    @property
    def titles(self) -> list[str]:
        """Return the first line of each message that the channel has taken."""
        return [json.loads(each.body)["text"].splitlines()[0] for each in self.target.received]


PROBLEM = "Skybridge skybridge: 1 thing needs attention"
RECOVERED = "Skybridge skybridge: recovered, nothing needs attention"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    target = WebhookTarget(lambda _: TAKEN)
    await target.start()
    made = House(target, tmp_path)
    yield made
    for each in made.opened:
        await each.component.stop(0.0)
    await target.stop()


async def test_of_several_processes_one_sends_what_any_of_them_finds(house: House) -> None:
    processes = [house.process() for _ in range(3)]
    processes[2].finds = [FAILS]
    await house.look(*processes, times=4)
    assert house.titles == [PROBLEM]
    assert [each.sends for each in processes] == [True, False, False]


async def test_a_killed_sender_is_replaced_and_nothing_is_repeated(house: House) -> None:
    killed, other = house.process(), house.process()
    killed.finds = other.finds = [FAILS]
    await house.look(killed, other, times=3)
    await house.look(other, times=LOOKS - 1)
    assert not other.sends
    await house.look(other)
    assert other.sends
    other.finds = []
    await house.look(other, times=8)
    assert house.titles == [PROBLEM, RECOVERED]


async def test_what_only_a_killed_process_found_is_over(house: House) -> None:
    sender, killed = house.process(), house.process()
    killed.finds = [FAILS]
    await house.look(sender, killed, times=3)
    await house.look(sender, times=LOOKS + 8)
    assert house.titles == [PROBLEM, RECOVERED]


async def test_a_sender_that_stops_is_replaced_at_the_next_look(house: House) -> None:
    stopped, other = house.process(), house.process()
    await house.look(stopped, other, times=2)
    await stopped.component.stop(0.0)
    await house.look(other)
    assert other.sends


async def test_a_sender_that_was_frozen_sends_nothing_after_another_took_over(house: House) -> None:
    frozen, other = house.process(), house.process()
    frozen.finds = other.finds = [FAILS]
    await house.look(frozen, other, times=3)
    await house.look(other, times=LOOKS + 2)
    frozen.finds = []
    await house.look(frozen, other, times=8)
    assert not frozen.sends
    assert house.titles == [PROBLEM]


async def test_the_reports_of_killed_processes_are_deleted(house: House) -> None:
    sender, killed = house.process(), house.process()
    await house.look(sender, killed, times=2)
    await house.look(sender, times=LOOKS * FORGOTTEN + 3)
    board = await house.store.alerts.report("reader", b"{}")
    assert len(board.reports) == 2, "the sender and the reader"


async def test_without_the_store_the_sender_reports_that_it_is_away(house: House) -> None:
    sender, other = house.process(), house.process()
    await house.look(sender, other, times=2)
    house.store.trouble = "no answer in 5 s"
    sender.finds = other.finds = [STORE_AWAY]
    await house.look(sender, other, times=10)
    assert house.titles == [PROBLEM]
    house.store.trouble = ""
    sender.finds = other.finds = []
    await house.look(other, sender, times=10)
    assert house.titles == [PROBLEM, RECOVERED]
    assert sender.sends


async def test_the_report_of_a_newer_release_disturbs_nothing(house: House) -> None:
    """A rolling upgrade: the other release may know other problems."""
    process = house.process()
    process.finds = [FAILS]
    await house.store.alerts.report("newer", b'{"verdicts": [{"name": "unheard-of"}]}')
    await house.look(process, times=3)
    assert house.titles == [PROBLEM]


async def test_a_channel_that_fails_is_tried_less_and_less_and_is_in_the_status(
    house: House,
) -> None:
    process = house.process()
    process.finds = [FAILS]
    house.target.answer = lambda _: status(404, body=b"no_service")
    await house.look(process, times=2)
    assert process.error == "status 404: no_service"
    await house.look(process, times=60)
    assert 4 <= len(house.target.received) <= 8
    house.target.answer = lambda _: TAKEN
    await house.look(process, times=31)
    assert process.error == ""
    assert house.titles[-1] == PROBLEM


async def test_a_slow_channel_gets_a_message_of_one_process(house: House) -> None:
    """The sender keeps its duty while the channel has not answered, for longer than three looks."""
    sender, other = house.process(), house.process()
    await house.look(sender, other, times=2)
    sender.finds = other.finds = [FAILS]
    await house.look(sender, other)
    answers = asyncio.Event()

    async def slow() -> bytes:
        await answers.wait()
        return TAKEN

    house.target.answer = lambda _: slow()
    sending = asyncio.create_task(sender.component.look())
    await until(lambda: house.target.received, "the message")
    await house.look(other, times=LOOKS + 2)
    assert not other.sends
    answers.set()
    await sending
    await house.look(sender, other, times=3)
    assert house.titles == [PROBLEM]


async def test_a_reload_lets_a_message_that_is_being_sent_arrive_once(house: House) -> None:
    process = house.process()
    process.finds = [FAILS]
    await house.look(process)
    answers = asyncio.Event()

    async def slow() -> bytes:
        await answers.wait()
        return TAKEN

    house.target.answer = lambda _: slow()
    sending = asyncio.create_task(process.component.look())
    await until(lambda: house.target.received, "the message")
    process.component.apply(AlertSender(process.config, house.clock, house.clock))
    retired = asyncio.create_task(process.component.retire())
    await house.clock.rest()
    answers.set()
    await sending
    await retired
    await house.look(process, times=3)
    assert house.titles == [PROBLEM]


async def test_a_channel_that_asks_to_wait_is_left_alone(house: House) -> None:
    process = house.process()
    process.finds = [FAILS]
    house.target.answer = lambda _: status(429, "Retry-After: 120")
    await house.look(process, times=2)
    assert len(house.target.received) == 1
    await house.look(process, times=round(100 / LOOK))
    assert len(house.target.received) == 1
    await house.look(process, times=round(30 / LOOK))
    assert len(house.target.received) == 2


async def test_what_was_sent_is_known_after_a_restart(house: House) -> None:
    first = house.process()
    first.finds = [FAILS]
    await house.look(first, times=3)
    await first.component.stop(0.0)
    second = house.process()
    second.finds = [FAILS]
    await house.look(second, times=10)
    assert house.titles == [PROBLEM]
    view = second.component.views()[0]
    assert view.last_sent is not None
    assert [each.subject for each in view.reported] == ["subscription billing"]


def asked_nothing(_: str) -> str:
    return ""


CHANNELS: list[tuple[str, dict[str, Any], Any]] = [
    ("slack", {}, publisher_apis.slack),
    ("teams", {}, publisher_apis.teams),
    ("discord", {}, publisher_apis.discord),
    ("pagerduty", {"key": "routing-key"}, publisher_apis.pagerduty),
    ("jira_service_management", {"key": "key-of-the-test"}, publisher_apis.jira),
]


@pytest.mark.parametrize(("preset", "more", "receiver"), CHANNELS, ids=[row[0] for row in CHANNELS])
async def test_each_channel_takes_a_problem_and_its_recovery(
    house: House, preset: str, more: dict[str, Any], receiver: Any
) -> None:
    house.target.answer = receiver(asked_nothing)
    process = house.process(to={"preset": preset, "url": house.target.url, **more})
    process.finds = [FAILS]
    await house.look(process, times=3)
    process.finds = []
    await house.look(process, times=8)
    assert process.error == ""
    problem, recovery = house.target.received
    assert b"billing" in problem.body
    if preset == "pagerduty":
        sent = [json.loads(each.body) for each in (problem, recovery)]
        assert [each["event_action"] for each in sent] == ["trigger", "resolve"]
        assert sent[0]["dedup_key"] == sent[1]["dedup_key"] == "skybridge skybridge ops"
    elif preset == "jira_service_management":
        assert json.loads(problem.body)["alias"] == "skybridge skybridge ops"
        alerts = "/hook/jsm/ops/integration/v2/alerts/"
        close = f"{alerts}skybridge%20skybridge%20ops/close?identifierType=alias"
        assert recovery.path == close
    else:
        assert b"recovered" in recovery.body


async def test_a_webhook_gets_a_signed_cloudevent(house: House) -> None:
    secret = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"
    to = {
        "preset": "cloudevents",
        "url": house.target.url,
        "headers": {"x-team": "ops"},
        "signing": {"secret": secret},
    }
    process = house.process(to=to)
    process.finds = [FAILS]
    await house.look(process, times=3)
    (got,) = house.target.received
    event = json.loads(got.body)
    assert got.header("content-type").startswith("application/cloudevents+json")
    assert got.header("webhook-signature").startswith("v1,")
    assert got.header("x-team") == "ops"
    assert event["type"] == "dev.skybridge.alert"
    assert event["data"]["problems"][0]["verdict"] == "endpoint-fails"
