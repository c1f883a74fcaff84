"""Operators are told of subscriptions that stand or fall behind: once an episode, and of no trifles."""

from __future__ import annotations

from app.model.subscription_status import SubscriptionStatus
from app.worker.subscription_events import LAG, LOOK, SubscriptionEvents
from virtual_clock import VirtualClock


class Rig:
    def __init__(self):
        self.found = []
        self.told = []
        self.clock = VirtualClock()
        self.watcher = SubscriptionEvents(
            lambda: self.found,
            self.clock,
            lambda kind, name, detail: self.told.append((kind, name, detail)),
        )

    def look(self, **status):
        self.found = [SubscriptionStatus(id="billing", sink="", **status)]
        self.watcher.look()

    @property
    def kinds(self):
        return [kind for kind, _, _ in self.told]


def test_an_endpoint_at_fault_is_told_once_for_as_long_as_it_lasts():
    """Also while it is probed in between; the next time is news again."""
    rig = Rig()
    rig.look(state="running")
    rig.look(state="paused", cause="status-503", paused_for=12.0)
    rig.look(state="paused", cause="status-503", paused_for=None)
    rig.look(state="paused", cause="status-503", paused_for=30.0)
    assert rig.told == [("paused", "billing", {"cause": "status-503", "seconds": 12.0})]
    rig.look(state="running")
    rig.look(state="paused", cause="timeout", paused_for=1.0)
    assert rig.kinds == ["paused", "paused"]


def test_a_pause_by_a_person_is_told_by_whoever_was_asked():
    """Twice would be once too often."""
    rig = Rig()
    rig.look(state="paused", cause="paused: by the API")
    assert rig.told == []


def test_events_that_grow_old_are_told_once_until_they_are_caught_up_with():
    """Late is late, whatever the reason; a value that swings about the bound is one episode."""
    rig = Rig()
    for oldest in (None, LAG - 1, LAG + 5, LAG - 1, LAG + 1):
        rig.look(state="running", oldest=oldest, held=7)
    told = {"cause": "", "oldest_seconds": LAG + 5, "held": 7}
    assert rig.told == [("lagging", "billing", told)]
    rig.look(state="running", oldest=1.0)
    rig.look(state="running", oldest=LAG)
    assert rig.kinds == ["lagging", "lagging"]


def test_a_subscription_that_was_deleted_is_forgotten():
    """One of the same name is another."""
    rig = Rig()
    rig.look(state="paused", cause="timeout", paused_for=1.0)
    rig.found = []
    rig.watcher.look()
    rig.look(state="paused", cause="timeout", paused_for=1.0)
    assert rig.kinds == ["paused", "paused"]


async def test_it_looks_by_itself():
    rig = Rig()
    rig.found = [SubscriptionStatus(id="b", sink="", state="running", oldest=LAG)]
    await rig.watcher.start()
    await rig.clock.advance(LOOK * 3)
    await rig.watcher.stop()
    assert rig.kinds == ["lagging"]
