"""A configuration that the service refuses: before a pod is replaced, and in a pod that waits for a correction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from place import Site
from release import Pod, Values, merged, restarts, uid
from scenarios import SINGLE, Installed, installed, scenario
from traffic import Row

from waiting import wait_until

_REFUSED: Values = {"config": {"log": {"level": "INFO"}}}
_CORRECTED: Values = {"config": {"log": {"level": "warning"}}}
_WITHIN = 200.0  # seconds for the end of the former pod, and the start of the next


@scenario()
def single_refused_configuration(site: Site) -> Iterator[Row]:
    """Upgrade to a configuration that the service refuses, and then to a right one."""
    with installed(site, SINGLE) as it:
        (before,) = it.release.pods()
        with pytest.raises(RuntimeError, match=r"pre-upgrade hooks failed"):
            it.release.upgrade(_REFUSED)
        (pod,) = it.release.pods()
        assert (uid(pod), restarts(pod)) == (uid(before), restarts(before)), "a pod was replaced"
        it.release.upgrade(_CORRECTED)
    yield it.load.row("upgrade to a refused configuration, then to a right one", SINGLE)


def _corrected(site: Site, values: Values, what: str) -> Iterator[Row]:
    """Without the check of the chart: a new pod waits with the refused configuration until the next upgrade."""
    unchecked = merged({"check": {"enabled": False}}, values)
    with installed(site, SINGLE, lambda _, own: merged(own, unchecked)) as it:
        (before,) = it.release.pods()
        it.release.upgrade(_REFUSED, wait=False)
        replaced = values.get("restartOnConfigChange", True)
        if not replaced:
            it.space.kubectl("delete", "pod", f"{it.release.full}-0", "--wait=false")
        waiting = wait_until(lambda: _waiting(it, before), "a pod waits", _WITHIN, turn=0.25)
        it.release.upgrade(_CORRECTED)
        it.release.wait_ready(1)
        (pod,) = it.release.pods()
        assert (uid(pod) != uid(waiting)) == replaced
        assert not restarts(pod)
    row = "a pod waits with a refused configuration, then a right one"
    yield it.load.row(f"{what}: {row}", SINGLE)


def _waiting(it: Installed, before: Pod) -> Pod | None:
    """Return the new pod once its process answers probes, and is not ready."""
    for pod in it.release.pods():
        statuses = pod["status"].get("containerStatuses", [])
        if uid(pod) != uid(before) and any(
            each["started"] and not each["ready"] for each in statuses
        ):
            return pod
    return None


@scenario()
def single_corrected_ordered(site: Site) -> Iterator[Row]:
    yield from _corrected(site, {}, "`OrderedReady`")


@scenario()
def single_corrected_parallel(site: Site) -> Iterator[Row]:
    yield from _corrected(site, {"single": {"podManagementPolicy": "Parallel"}}, "`Parallel`")


@scenario()
def single_corrected_reloaded(site: Site) -> Iterator[Row]:
    yield from _corrected(site, {"restartOnConfigChange": False}, "`restartOnConfigChange: false`")
