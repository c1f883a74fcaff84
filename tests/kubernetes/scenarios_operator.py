"""Subscriptions as objects: how soon they are in force, and what stops the operator without stopping a delivery."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import settings
from place import Site, Space
from release import Pod, Release, merged, name
from scenarios import RATES, SINGLE, SPLIT, released, scenario
from team_objects import KINDS, declared, hook, secret, subscription, wait_ready
from traffic import Load, Row, load

from app.kubernetes.names import DRAIN_FINALIZER
from waiting import wait_until

_MANY = 1000
_COLD, _CHANGED, _REPLACED, _AWAY = 60.0, 2.0, 15.0, 60.0  # seconds, as issue 46 promises them
_SETTLED = 40  # deliveries after which the former version of a subscription is no longer in use
_BROKERS = {SINGLE: "log", SPLIT: "main"}


@scenario()
def operator_change(site: Site) -> Iterator[Row]:
    """Change an object six times, and measure when the last delivery of its former form arrives."""
    with released(site, SPLIT, declared) as (space, release):
        secrets = {"first": settings.SECRET, "second": settings.NEXT_SECRET}
        site.cluster.apply(*(secret(space.name, *each) for each in secrets.items()))
        _sign(space, "first")
        wait_ready(space, "hook")
        with load(space, release.url, RATES[SPLIT], tuple(secrets.values())) as running:
            names = ("second", "first") * 3
            seconds = [_signed_after(space, running, each, secrets) for each in names]
    assert "none" not in running.report["signed"], running.report["signed"]
    assert max(seconds) <= _CHANGED, seconds
    note = f"in force after {min(seconds):.1f} to {max(seconds):.1f} s, six times"
    yield running.row("Subscription changed by `kubectl apply`", SPLIT, note, may_refuse=False)


def _sign(space: Space, by: str) -> None:
    signing = {"secretRef": {"name": by, "key": "secret"}}
    spec = hook(space.name, _BROKERS[SPLIT], signing=signing)
    space.site.cluster.apply(subscription(space.name, "hook", spec))


def _signed_after(space: Space, running: Load, by: str, secrets: Mapping[str, str]) -> float:
    """Sign by another secret, and return the seconds until the last delivery that the former one signed."""
    (former,) = (value for each, value in secrets.items() if each != by)
    _sign(space, by)
    began = time.monotonic()
    last, old, new = began, -1, 0

    def settled() -> bool:
        nonlocal last, old, new
        counts = running.progress()["signed"]
        if counts.get(former, 0) != old:
            last, old, new = time.monotonic(), counts.get(former, 0), counts.get(secrets[by], 0)
        return counts.get(secrets[by], 0) - new >= _SETTLED

    wait_until(settled, f"deliveries signed by {by}", turn=0.05)
    return last - began


@scenario(own=True)
def operator_leader_killed(site: Site) -> Iterator[Row]:
    """Kill the leader, and later let another one hang: the next change of an object is soon in force."""
    with released(site, SINGLE, declared) as (space, release):
        site.cluster.apply(subscription(space.name, "hook", hook(space.name, _BROKERS[SINGLE])))
        wait_ready(space, "hook")
        for number in (signal.SIGKILL, signal.SIGSTOP):
            with load(space, release.url, RATES[SINGLE]) as running:
                seconds = _without_leader(space, release, number)
            assert seconds <= _REPLACED, seconds
            assert running.report["repeated"] == 0, running.report
            what = "killed" if number == signal.SIGKILL else "stopped by SIGSTOP"
            yield running.row(
                f"leader of the operator {what}", SINGLE, f"a change is in force after {seconds:.1f} s", may_refuse=False
            )  # fmt: skip


def _without_leader(space: Space, release: Release, number: signal.Signals) -> float:
    """Send a signal to the leader, change an object, and return the seconds until the change is in force."""
    leader = _leader(space, release)
    release.signal(leader, number)
    began = time.monotonic()
    spec = hook(space.name, _BROKERS[SINGLE], concurrency=int(number) + 8)
    space.site.cluster.apply(subscription(space.name, "hook", spec))
    wait_ready(space, "hook")
    return time.monotonic() - began


def _leader(space: Space, release: Release) -> Pod:
    """Return the pod that has the Lease, once one has it and all are ready."""
    release.wait_ready(2, "operator")
    (lease,) = space.get("lease", f"{release.full}-operator")
    holder = str(lease["spec"]["holderIdentity"])
    return next(each for each in release.pods("operator") if name(each) in holder)


@scenario(own=True)
def operator_without_api_server(site: Site) -> Iterator[Row]:
    """Stop the API server for a minute: nothing is refused, deliveries go on, and a change is in force after it.

    After it, Kubernetes finds the reports of its nodes too old, and takes their pods out of all Services until the next
    reports. Until then it refuses new connections to any Service; open ones go on.
    """
    assert site.lab is not None
    with released(site, SINGLE, declared) as (space, release):
        site.cluster.apply(subscription(space.name, "hook", hook(space.name, _BROKERS[SINGLE])))
        wait_ready(space, "hook")
        with load(space, release.url, RATES[SINGLE]) as running:
            before = running.progress()["arrived"]
            with site.lab.paused("kube-apiserver"):
                time.sleep(_AWAY)  # as long as the promise says
            back = datetime.now(UTC).replace(microsecond=0)
            meanwhile = running.progress()
            assert meanwhile["refused"] == 0, meanwhile
            arrived = meanwhile["arrived"] - before
            assert arrived >= 0.9 * RATES[SINGLE] * _AWAY, arrived
            spec = hook(space.name, _BROKERS[SINGLE], concurrency=8)
            site.cluster.apply(subscription(space.name, "hook", spec))
            wait_ready(space, "hook")
    lost = _nodes_lost_since(site, back)
    assert lost or not running.report["refused"], running.report["refusals"]
    note = f"{arrived:,} delivered and none refused meanwhile; after it, Kubernetes had {lost} of its nodes NotReady"
    yield running.row("API server away for a minute", SINGLE, note)


def _nodes_lost_since(site: Site, moment: datetime) -> int:
    """Return how many nodes became ready again after a moment, because Kubernetes had taken them out of Services."""
    ready = (
        each
        for node in site.cluster.get("nodes")
        for each in node["status"]["conditions"]
        if each["type"] == "Ready"
    )
    return sum(datetime.fromisoformat(each["lastTransitionTime"]) >= moment for each in ready)


def _many(space: Space, values: Mapping[str, Any]) -> Mapping[str, Any]:
    memory = {"limits": {"memory": "1Gi"}}
    more = {"single": {"resources": memory}, "config": {"limits": {"subscriptions": 2 * _MANY}}}
    return merged(declared(space, values), more)


@scenario()
def operator_cold_start(site: Site) -> Iterator[Row]:
    """Start the operator on 1,000 objects that it has never seen."""
    with released(site, SINGLE, _many) as (space, release):
        site.cluster.apply(subscription(space.name, "hook", hook(space.name, _BROKERS[SINGLE])))
        wait_ready(space, "hook")
        deployment = f"{release.full}-operator"
        space.kubectl("scale", "deployment", deployment, "--replicas=0")
        wait_until(lambda: not release.pods("operator"), "no operator", turn=0.25)
        unwanted = [{"exact": {"type": "com.example.never"}}]
        spec = hook(space.name, _BROKERS[SINGLE], filters=unwanted)
        site.cluster.apply(
            *(subscription(space.name, f"many-{each}", spec) for each in range(_MANY))
        )
        with load(space, release.url, RATES[SINGLE]) as running:
            began = datetime.now(UTC)
            space.kubectl("scale", "deployment", deployment, "--replicas=2")
            space.kubectl("wait", "--for=condition=Ready", KINDS, "--all", "--timeout=300s")
            seconds = max(_became_ready(each) - began.timestamp() for each in space.get(KINDS))
    assert seconds <= _COLD, seconds
    note = f"all in force {seconds:.0f} s after `kubectl scale`"
    yield running.row("cold start of the operator on 1,000 objects", SINGLE, note)


def _became_ready(found: Mapping[str, Any]) -> float:
    """Return when an object became ready, in seconds since 1970."""
    (ready,) = (each for each in found["status"]["conditions"] if each["type"] == "Ready")
    return datetime.fromisoformat(ready["lastTransitionTime"]).timestamp()


@scenario()
def operator_uninstalled(site: Site) -> Iterator[Row]:
    """Switch the operator off, and uninstall the release: no object has a finalizer afterwards."""
    with released(site, SINGLE, declared) as (space, release):
        for each in ("hook", "second"):
            spec = hook(space.name, _BROKERS[SINGLE], onDelete="drain")
            if each != "hook":
                spec = {**spec, "paused": True}
            site.cluster.apply(subscription(space.name, each, spec))
            wait_ready(space, each)
        wait_until(lambda: len(_held(space)) == 2, "finalizers")
        with load(space, release.url, RATES[SINGLE]) as running:
            for enabled in (False, True):
                release.upgrade({"operator": {"enabled": enabled}})
                wait_until(lambda on=enabled: len(_held(space)) == (2 if on else 0), "finalizers")
        release.uninstall()
        assert len(space.get(KINDS)) == 2
        assert not _held(space)
        space.kubectl("delete", KINDS, "--all", "--timeout=60s")
        release.install()
    yield running.row("uninstalled: no finalizer is left", SINGLE)


def _held(space: Space) -> list[Mapping[str, Any]]:
    """Return the objects with the operator's finalizer."""
    found = space.get(KINDS)
    return [each for each in found if DRAIN_FINALIZER in each["metadata"].get("finalizers", [])]
