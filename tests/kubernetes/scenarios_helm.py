"""What an operator does with Helm: install, test, upgrade, roll back, uninstall."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from objects import Object, service
from place import Site, Space
from release import NAME, Values, name, ready
from scenarios import RATES, SINGLE, SPLIT, installed, released, scenario
from traffic import Row, load

_CHANGE: Values = {"config": {"timeouts": {"drain": "20s"}}}


def _upgraded(site: Site, topology: str, release: str = NAME) -> Iterator[Row]:
    """Install, ``helm test``, upgrade to a changed configuration, and roll back."""
    with installed(site, topology, name=release) as it:
        it.release.test()
        it.release.upgrade(_CHANGE)
        it.release.rollback()
    what = "`helm test`, upgrade, rollback"
    yield it.load.row(what if release == NAME else f"release `{release}`: {what}", topology)


@scenario()
def single_upgrade(site: Site) -> Iterator[Row]:
    yield from _upgraded(site, SINGLE)


@scenario()
def single_dotted(site: Site) -> Iterator[Row]:
    """Upgrade a release whose name has a dot, which the name of a Service cannot have."""
    yield from _upgraded(site, SINGLE, "shop.one")


@scenario()
def split_upgrade(site: Site) -> Iterator[Row]:
    yield from _upgraded(site, SPLIT)


def _back(site: Site, topology: str) -> Iterator[Row]:
    """Uninstall under load, and install again: accepted events are on the volume or in Kafka."""
    with installed(site, topology) as it:
        it.release.uninstall()
        it.release.install()
    yield it.load.row(
        "uninstalled, and installed again", topology, "no pods for a while", may_refuse=True
    )


@scenario()
def single_back(site: Site) -> Iterator[Row]:
    yield from _back(site, SINGLE)


@scenario()
def split_back(site: Site) -> Iterator[Row]:
    yield from _back(site, SPLIT)


def _restarted(site: Site, topology: str) -> Iterator[Row]:
    """Replace all pods one after the other, while the policies are enforced."""
    with installed(site, topology) as it:
        assert not _reaches_admin(it.space, it.release.pods()), (
            "a stranger reached the admin listener"
        )
        for kind, workload in _workloads(topology, it.release.full):
            it.space.kubectl("rollout", "restart", kind, workload)
            it.space.kubectl("rollout", "status", kind, workload, "--timeout=300s")
        assert not _reaches_admin(it.space, it.release.pods())
    yield it.load.row("rolling restart under enforced network policy", topology)


def _workloads(topology: str, full: str) -> list[tuple[str, str]]:
    if topology == SINGLE:
        return [("statefulset", full)]
    return [("deployment", f"{full}-gateway"), ("statefulset", f"{full}-worker")]


def _reaches_admin(space: Space, pods: list[dict]) -> bool:
    """Return True if the pod of the load, which no policy admits, reaches an admin listener.

    The same pod does reach the listener for events of the same pods: the load shows it.
    """
    ask = "import socket, sys; socket.create_connection((sys.argv[1], 8081), 3)"
    addresses = [pod["status"]["podIP"] for pod in pods if ready(pod)]
    assert addresses
    for address in addresses:
        try:
            space.kubectl("exec", "load", "--", "python", "-c", ask, address)
        except RuntimeError:
            continue
        return True
    return False


@scenario()
def single_policy(site: Site) -> Iterator[Row]:
    yield from _restarted(site, SINGLE)


@scenario()
def split_policy(site: Site) -> Iterator[Row]:
    yield from _restarted(site, SPLIT)


def _from_earlier(site: Site, topology: str) -> Iterator[Row]:
    """Upgrade from the image of an earlier commit to that of the checkout."""

    def earlier(_: Space, values: Values) -> Values:
        repository, _, tag = site.earlier().rpartition(":")
        return {**values, "image": {**values["image"], "repository": repository, "tag": tag}}

    repository, _, tag = site.image.rpartition(":")
    with installed(site, topology, earlier) as it:
        it.release.upgrade({"image": {"repository": repository, "tag": tag}})
    yield it.load.row("earlier release → this one", topology)


@scenario(own=True)
def single_from_earlier(site: Site) -> Iterator[Row]:
    yield from _from_earlier(site, SINGLE)


@scenario(own=True)
def split_from_earlier(site: Site) -> Iterator[Row]:
    yield from _from_earlier(site, SPLIT)


@scenario()
def single_renamed(site: Site) -> Iterator[Row]:
    """Rename a release: refused without the claim that has the data, and done with it."""
    with released(site, SINGLE) as (space, release):
        space.site.cluster.apply(_any_name(space))
        claim = f"data-{release.full}-0"
        with load(space, "http://events:80/events", RATES[SINGLE]) as running:
            with pytest.raises(RuntimeError, match=r"existingClaim is not set"):
                release.upgrade({"fullnameOverride": "renamed"})
            release.upgrade({"persistence": {"existingClaim": claim}})
            release.full = "renamed"
            release.wait_ready(1)
            (pod,) = release.pods()
            assert name(pod) == "renamed-0"
            (data,) = (each for each in pod["spec"]["volumes"] if each["name"] == "data")
            assert data["persistentVolumeClaim"]["claimName"] == claim
    yield running.row("renamed, with `persistence.existingClaim`", SINGLE)


def _any_name(space: Space) -> Object:
    """Return a Service that finds the pod under any name of the release."""
    labels = {"app.kubernetes.io/instance": NAME, "app.kubernetes.io/component": SINGLE}
    return service(space.name, "events", [{"port": 80, "targetPort": "events"}], labels)
