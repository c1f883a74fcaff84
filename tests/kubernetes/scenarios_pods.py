"""What happens to pods: kills, deletions, evictions, scaling."""

from __future__ import annotations

from collections.abc import Iterator

from place import Site
from release import last_end, name, uid
from scenarios import SINGLE, SPLIT, Installed, installed, scenario
from traffic import Row

from waiting import wait_until

_ROLES = ("gateway", "worker")
_NOTES = {"gateway": "refused: requests to the killed gateway", "worker": ""}


@scenario(short=True, own=True)
def single_killed(site: Site) -> Iterator[Row]:
    with installed(site, SINGLE) as it:
        it.release.kill(it.release.pods()[0])
    yield it.load.row("SIGKILL", SINGLE)


@scenario(own=True)
def split_killed(site: Site) -> Iterator[Row]:
    for role in _ROLES:
        with installed(site, SPLIT) as it:
            it.release.kill(it.release.pods(role)[0])
        yield it.load.row(f"SIGKILL of a {role}", SPLIT, _NOTES[role], may_refuse=role == "gateway")


@scenario()
def single_out_of_memory(site: Site) -> Iterator[Row]:
    with installed(site, SINGLE) as it:
        _out_of_memory(it, "")
    yield it.load.row("out of memory", SINGLE)


@scenario()
def split_out_of_memory(site: Site) -> Iterator[Row]:
    for role in _ROLES:
        with installed(site, SPLIT) as it:
            _out_of_memory(it, role)
        yield it.load.row(
            f"a {role} out of memory", SPLIT, _NOTES[role], may_refuse=role == "gateway"
        )


def _out_of_memory(it: Installed, role: str) -> None:
    ended = last_end(it.release.exhaust_memory(it.release.pods(role)[0]))
    assert ended == "OOMKilled", ended


@scenario()
def single_deleted(site: Site) -> Iterator[Row]:
    with installed(site, SINGLE) as it:
        it.release.delete_pod(it.release.pods()[0], 1, "")
    yield it.load.row("pod deleted", SINGLE)


@scenario()
def split_deleted(site: Site) -> Iterator[Row]:
    with installed(site, SPLIT) as it:
        for role in _ROLES:
            it.release.delete_pod(it.release.pods(role)[0], 2, role)
    yield it.load.row("a gateway and a worker deleted", SPLIT)


@scenario()
def split_scaled(site: Site) -> Iterator[Row]:
    few = {"gateway": {"replicas": 1}, "worker": {"replicas": 1}}
    for role, most in (("gateway", 3), ("worker", 2)):
        with installed(site, SPLIT, lambda _, values: _with(values, few)) as it:
            for count in (most, 1):
                it.release.scale(role, count)
                it.load.wait_steady()
        yield it.load.row(f"{role}s 1 → {most} → 1", SPLIT)


def _with(values: dict, changes: dict) -> dict:
    return {**values, **{role: {**values[role], **each} for role, each in changes.items()}}


@scenario(own=True)
def single_drained(site: Site) -> Iterator[Row]:
    """Drain the node of the only pod. Its volume is there, so it waits until the node is back."""
    with installed(site, SINGLE) as it:
        (pod,) = it.release.pods()
        with _drained(site, it, pod["spec"]["nodeName"]):
            wait_until(lambda: _moved(it, uid(pod)), "the pod waits for a node", 120, turn=0.25)
        it.release.wait_ready(1)
    yield it.load.row("node drained", SINGLE, "its volume is on this node")


@scenario(own=True)
def split_drained(site: Site) -> Iterator[Row]:
    """Drain each node in turn. The budget lets one pod of a role go at a time."""
    with installed(site, SPLIT) as it:
        for node in [each["metadata"]["name"] for each in site.cluster.get("nodes")]:
            with _drained(site, it, node):
                for role in _ROLES:
                    it.release.wait_ready(2, role)
                assert node not in {pod["spec"]["nodeName"] for pod in it.release.pods()}
    yield it.load.row("both nodes drained, one after the other", SPLIT)


def _moved(it: Installed, before: str) -> bool:
    return any(uid(pod) != before for pod in it.release.pods())


class _drained:  # noqa: N801 - a context, like a function of contextlib
    """The node is drained of the pods of the release, and takes none until the block ends."""

    def __init__(self, site: Site, it: Installed, node: str) -> None:
        self._cluster, self._node = site.cluster, node
        self._selector = "app.kubernetes.io/instance=shop"

    def __enter__(self) -> None:
        words = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s")
        self._cluster.kubectl("drain", self._node, f"--pod-selector={self._selector}", *words)

    def __exit__(self, *_: object) -> None:
        self._cluster.kubectl("uncordon", self._node)


@scenario()
def split_evicted_together(site: Site) -> Iterator[Row]:
    """Ask for the eviction of both gateways at once. The budget refuses the second until the first
    is replaced.
    """
    with installed(site, SPLIT) as it:
        before = it.release.pods("gateway")
        for pod in before:
            wait_until(
                lambda pod=pod: _evicted(it, name(pod)), f"{name(pod)} evicted", 300, turn=0.5
            )
        gone = {uid(pod) for pod in before}
        wait_until(
            lambda: not gone & {uid(each) for each in it.release.pods("gateway")}, "replaced", 200
        )
        it.release.wait_ready(2, "gateway")
    yield it.load.row("both gateways evicted at once", SPLIT)


def _evicted(it: Installed, pod: str) -> bool:
    """Ask for the eviction of a pod. Return False if the budget refuses it."""
    body = f'{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{pod}", "namespace": "{it.space.name}"}}}}'
    path = f"/api/v1/namespaces/{it.space.name}/pods/{pod}/eviction"
    try:
        it.space.kubectl("create", "--raw", path, "--filename", "-", stdin=body)
    except RuntimeError as refused:
        if "disruption budget" in str(refused):
            return False
        raise
    return True
