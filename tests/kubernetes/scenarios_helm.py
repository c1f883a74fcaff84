"""What an operator does with Helm: install, test, upgrade, roll back, uninstall."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from place import Site, Space
from release import Values, ready
from scenarios import SINGLE, SPLIT, installed, scenario
from traffic import Row

_CHANGE: Values = {"config": {"timeouts": {"drain": "20s"}}}


def _upgraded(site: Site, topology: str) -> Iterator[Row]:
    """Install, ``helm test``, upgrade to a changed configuration, and roll back."""
    with installed(site, topology) as it:
        it.release.test()
        it.release.upgrade(_CHANGE)
        it.release.rollback()
    yield it.load.row("`helm test`, upgrade, rollback", topology)


@scenario()
def single_upgrade(site: Site) -> Iterator[Row]:
    yield from _upgraded(site, SINGLE)


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
        for kind, name in _workloads(topology, it.release.full):
            it.space.kubectl("rollout", "restart", kind, name)
            it.space.kubectl("rollout", "status", kind, name, "--timeout=300s")
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
def single_refused_configuration(site: Site) -> Iterator[Row]:
    """Upgrade to a configuration that the service refuses, and then to a right one."""
    with installed(site, SINGLE) as it:
        with pytest.raises(RuntimeError, match=r"failed|timed out"):
            it.release.upgrade({"config": {"log": {"level": "INFO"}}}, "--timeout", "60s")
        it.release.upgrade({"config": {"log": {"level": "info"}}})
    yield it.load.row("upgrade to a refused configuration, then to a right one", SINGLE)
