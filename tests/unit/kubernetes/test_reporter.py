"""What is written about an object: its status and Events, with an API server that only notes."""

from types import SimpleNamespace

import pytest

from app.kubernetes.client import KubernetesRefused
from app.kubernetes.outcome import Outcome
from app.kubernetes.reporter import Reporter

RUNNING = {
    "state": "running", "cause": "", "paused_for": None, "last_error": "", "lag": 0, "dead_letters": {},
}  # fmt: skip
STARTING = {**RUNNING, "state": "starting"}
ACCEPTED = Outcome("Accepted")


class Cluster:
    def __init__(self):
        self.statuses, self.events, self.repeated, self.expired = [], [], [], False

    async def patch(self, path, change):
        if "/events/" in path:
            if self.expired:
                raise KubernetesRefused(404, "not found")
            assert path.endswith(f"/{self.events[-1]['metadata']['name']}")
            self.repeated.append(change)
            return
        assert path.endswith("/subscriptions/a/status")
        self.statuses.append(change["status"])

    async def create(self, path, event):
        self.events.append(event)

    def ready(self):
        return [each["conditions"][0]["reason"] for each in self.statuses]


class House:
    def __init__(self):
        self.cluster, self.at = Cluster(), 100.0
        clock = SimpleNamespace(monotonic=lambda: self.at, now=lambda: self.at)
        self.reporter = Reporter(self.cluster, clock, "pod", "skybridge/mine")
        named = {
            "namespace": "team",
            "name": "a",
            "uid": "u",
            "resourceVersion": "1",
            "generation": 1,
        }
        self.item = {"metadata": named, "spec": {}}

    async def report(self, health, after=0.0):
        self.at += after
        self.reporter.wanted.clear()
        await self.reporter.report(self.item, ACCEPTED, health)
        return self.reporter.wanted.is_set()


@pytest.fixture
def house():
    return House()


async def test_a_start_that_ends_soon_is_not_written(house):
    """A thousand new objects would else need two thousand writes (issue 46)."""
    assert await house.report(None)
    assert await house.report(STARTING, after=1.0)
    assert house.cluster.statuses == []
    assert not await house.report(RUNNING, after=1.0)
    assert house.cluster.ready() == ["Accepted"]
    assert house.cluster.statuses[0]["operator"] == "skybridge/mine"
    assert house.reporter.ready_counts() == {"True": 1}


async def test_a_start_that_lasts_is_written_once_and_looked_for_less_often(house):
    """A subscription whose broker is away would else have all subscriptions read three times a second."""
    await house.report(STARTING)
    assert await house.report(STARTING, after=4.0)
    assert house.cluster.ready() == ["Starting"]
    assert not await house.report(STARTING, after=60.0)
    assert house.cluster.ready() == ["Starting"]


async def test_a_second_report_of_the_same_state_writes_nothing(house):
    await house.report(RUNNING)
    await house.report({**RUNNING, "lag": 5}, after=1.0)
    assert len(house.cluster.statuses) == 1
    await house.report({**RUNNING, "lag": 5}, after=30.0)
    assert house.cluster.statuses[-1]["lag"] == 5


async def test_dead_letters_are_reported_once_and_at_most_once_a_minute(house):
    """A status whose numbers alone changed is written later, so it does not show what was reported (issue 46)."""
    await house.report(RUNNING)
    for count in (1, 1, 3):
        await house.report({**RUNNING, "dead_letters": {"refused": count}}, after=5.0)
    assert [each["reason"] for each in house.cluster.events] == ["DeadLetters"]
    await house.report({**RUNNING, "dead_letters": {"refused": 3}}, after=60.0)
    assert house.cluster.repeated[-1]["message"].startswith("2 more dead letters; 3 in all")
    await house.report({**RUNNING, "dead_letters": {}}, after=60.0)
    await house.report({**RUNNING, "dead_letters": {"refused": 1}}, after=60.0)
    assert [each["count"] for each in house.cluster.repeated] == [2, 3]


async def test_an_unknown_number_of_dead_letters_is_neither_shown_nor_taken_for_none(house):
    """The next number would else be reported as new dead letters."""
    many, unknown = {**RUNNING, "dead_letters": {"refused": 5}}, {**RUNNING, "dead_letters": None}
    await house.report(many)
    await house.report(unknown, after=60.0)
    assert house.cluster.statuses[-1]["deadLetters"] is None
    await house.report(many, after=60.0)
    house.item["status"] = {"state": "running"}  # a new operator reads a status without the number
    house.reporter.forget(("team", "a"))
    await house.report(many, after=60.0)
    assert [each["reason"] for each in house.cluster.events] == ["DeadLetters"]
    await house.report({**RUNNING, "dead_letters": {"refused": 6}}, after=60.0)
    assert house.cluster.events[-1]["message"].startswith("1 more dead letters; 6 in all")


async def test_an_object_of_another_installation_gets_an_event_and_keeps_its_status(house):
    house.item["status"] = {"operator": "skybridge/other"}
    await house.reporter.report_foreign(house.item)
    (event,) = house.cluster.events
    assert (event["reason"], event["type"]) == ("OtherInstallation", "Warning")
    assert "skybridge/other" in event["message"]
    assert "kubectl patch" in event["message"]
    assert house.cluster.statuses == []


async def test_while_the_status_cannot_be_written_no_event_is_repeated(house):
    """An API server that refuses would else get an Event at each turn (issue 46)."""
    patch = house.cluster.patch

    async def refuse(*_):
        raise KubernetesRefused(409, "not now")

    house.cluster.patch = refuse
    stopped = {**RUNNING, "state": "disabled", "dead_letters": {"gone": 1}}
    for _ in range(3):
        with pytest.raises(KubernetesRefused):
            await house.report(stopped, after=2.0)
    house.cluster.patch = patch
    for _ in range(2):
        await house.report(stopped, after=2.0)
    assert [each["reason"] for each in house.cluster.events] == ["Disabled", "DeadLetters"]


async def test_a_status_keeps_no_numbers_of_a_subscription_that_is_gone(house):
    """A merge patch keeps what it does not name, so kubectl would show the old state (issue 46)."""
    await house.report({**RUNNING, "lag": 5})
    await house.report(None, after=1.0)
    await house.report(None, after=4.0)
    last = house.cluster.statuses[-1]
    assert {name: last[name] for name in ("state", "lag", "deadLetters")} == {
        "state": None, "lag": None, "deadLetters": None,
    }  # fmt: skip
    assert "lag" not in house.item["status"]


async def test_a_new_object_of_the_same_name_shows_nothing_of_the_one_before(house):
    """After ``kubectl replace --force``, Ready would else be True before the operator has looked at it (issue 46)."""
    await house.report(RUNNING)
    house.item["metadata"]["uid"] = "another"
    house.item.pop("status")
    await house.reporter.report_health(house.item, RUNNING)
    assert len(house.cluster.statuses) == 1


async def test_an_event_that_comes_again_is_counted_and_written_once_a_minute(house):
    """An endpoint that fails and recovers all the time would else fill the store of the API server (issue 46)."""
    stopped = {**RUNNING, "state": "disabled"}

    async def stop_and_resume():
        await house.report(stopped, after=5)
        house.item["status"]["conditions"][1]["reason"] = "Starting"

    await stop_and_resume()
    for _ in range(13):
        await stop_and_resume()
    assert [each["reason"] for each in house.cluster.events] == ["Disabled"]
    assert [each["count"] for each in house.cluster.repeated] == [13]
    house.cluster.expired = True
    await house.report(stopped, after=61)
    assert [each["count"] for each in house.cluster.events] == [1, 1], "the first was deleted"
