"""One leader at a time, by versions of the Lease and the clock of each process alone."""

import pytest

from app.kubernetes.client import CONFLICT, NOT_FOUND, KubernetesRefused, KubernetesUnavailable
from app.kubernetes.lease import Leadership


class Clock:
    def __init__(self):
        self.at = 1000.0

    def monotonic(self):
        return self.at


class Leases:
    """The one Lease of an API server."""

    def __init__(self):
        self.lease, self.version, self.away = None, 0, False

    async def get(self, _):
        if self.away:
            raise KubernetesUnavailable("away")
        if self.lease is None:
            raise KubernetesRefused(NOT_FOUND, "none")
        return self.lease

    async def create(self, _, item):
        if self.lease is not None:
            raise KubernetesRefused(CONFLICT, "exists")
        self._store(item)

    async def replace(self, _, item):
        if item["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise KubernetesRefused(CONFLICT, "changed")
        self._store(item)

    def _store(self, item):
        self.version += 1
        metadata = {**item["metadata"], "resourceVersion": str(self.version)}
        self.lease = {**item, "metadata": metadata}


@pytest.fixture
def leases():
    return Leases()


def member(leases, name, clock):
    return Leadership(leases, clock, namespace="n", name="l", identity=name, seconds=10)


async def test_a_leader_that_is_gone_is_replaced_after_its_time_and_not_before(leases):
    here, there = Clock(), Clock()
    one, two = member(leases, "one", here), member(leases, "two", there)
    assert await one.turn()
    assert one.leads.is_set()
    for _ in range(5):  # it renews, so the other waits
        there.at += 4
        assert await one.turn()
        assert not await two.turn()
    there.at += 9.9
    assert not await two.turn()
    there.at += 0.2
    assert await two.turn()
    assert not await one.turn()
    assert not one.leads.is_set()


async def test_a_leader_that_cannot_renew_stops_before_another_can_begin(leases):
    clock = Clock()
    one = member(leases, "one", clock)
    assert await one.turn()
    leases.away = True
    clock.at += 6
    await one.turn()
    assert one.holds()
    clock.at += 1
    await one.turn()
    assert not one.holds()
    assert one.follows.is_set()


async def test_what_prevents_every_leader_is_told_once_until_it_is_over(leases, caplog):
    """Without a right on the Lease nobody leads, and each process would else wait for its turn (issue 46)."""
    one = member(leases, "one", Clock())
    leases.away = True
    for _ in range(3):
        await one.turn()
    assert one.trouble == "the Lease l cannot be renewed: away"
    assert [each.message for each in caplog.records] == [one.trouble]
    leases.away = False
    await one.turn()
    assert one.trouble == ""


async def test_who_leaves_frees_the_place(leases):
    one, two = member(leases, "one", Clock()), member(leases, "two", Clock())
    await one.turn()
    await one.release()
    assert await two.turn()


async def test_of_two_at_once_one_wins(leases):
    one, two = member(leases, "one", Clock()), member(leases, "two", Clock())
    await one.turn()
    await one.release()
    seen = leases.lease
    assert await two.turn()

    async def stale(_):
        return seen

    leases.get = stale
    assert not await one.turn()
