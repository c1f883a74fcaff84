"""A release of the chart in a namespace, and what happens to it: upgrades, kills, evictions."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from place import Space
from versions import CHECKOUT

from waiting import wait_until

CHART = CHECKOUT / "helm" / "skybridge"
NAME = "shop"
TIMEOUT = "300s"
_WAIT = ("--wait", "--timeout", TIMEOUT)
_GONE = 200.0
Values = Mapping[str, Any]
Pod = Mapping[str, Any]


class Release:
    """One release of the chart.

    Args:
        space: The namespace of the release.
        values: The values of the chart.
        name: The name of the release.

    Attributes:
        full: The beginning of the names of its objects.
    """

    def __init__(self, space: Space, values: Values, name: str = NAME) -> None:
        self.space, self.values, self._name = space, values, name
        self.full = f"{name.replace('.', '-')}-skybridge"

    @property
    def url(self) -> str:
        """Return the address of the listener for events, for pods of the namespace."""
        return f"http://{self.full}:80/events"

    def install(self, *words: str) -> None:
        self._helm("install", *words)

    def upgrade(self, changes: Values | None = None, *words: str, wait: bool = True) -> None:
        """Upgrade the release to its values with these changes, which stay."""
        self.values = merged(self.values, changes or {})
        self._helm("upgrade", *words, wait=wait)

    def rollback(self) -> None:
        self._plain("rollback", self._name, *_WAIT)

    def uninstall(self) -> None:
        self._plain("uninstall", self._name, *_WAIT)
        wait_until(lambda: not self.pods(), "all pods of the release are gone", _GONE, turn=0.25)

    def test(self) -> None:
        """Run ``helm test``. Raises RuntimeError if it fails."""
        self._plain("test", self._name, "--timeout", TIMEOUT)

    def _helm(self, verb: str, *words: str, wait: bool = True) -> None:
        waiting = _WAIT if wait else ()
        given = json.dumps(self.values)
        self._plain(verb, self._name, str(CHART), "--values", "-", *waiting, *words, stdin=given)

    def _plain(self, *words: str, stdin: str = "") -> str:
        return self.space.site.cluster.helm(*words, "--namespace", self.space.name, stdin=stdin)

    def pods(self, role: str = "") -> list[dict[str, Any]]:
        """Return the pods of the service, or those of a role, oldest first."""
        component = f"app.kubernetes.io/component in ({role or 'single,gateway,worker'})"
        selector = f"app.kubernetes.io/instance={self._name},{component}"
        found = self.space.get("pods", "--selector", selector)
        return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], name(pod)))

    def wait_ready(self, count: int, role: str = "") -> None:
        """Wait until the release has exactly so many pods, all of them ready."""
        what = f"{count} ready pods of {role or 'the release'} in {self.space.name}"
        wait_until(lambda: self._ready(count, role), what, _GONE, turn=0.25)

    def _ready(self, count: int, role: str) -> bool:
        pods = self.pods(role)
        return len(pods) == count and all(map(ready, pods))

    def scale(self, role: str, count: int) -> None:
        """Scale a role, and wait until it has so many ready pods."""
        kind = "deployment" if role == "gateway" else "statefulset"
        self.space.kubectl("scale", kind, f"{self.full}-{role}", f"--replicas={count}")
        self.wait_ready(count, role)

    def delete_pod(self, pod: Pod, count: int, role: str) -> None:
        """Delete a pod in order, and wait for the one that takes its place."""
        self.space.kubectl("delete", "pod", name(pod))
        wait_until(
            lambda: all(uid(each) != uid(pod) for each in self.pods(role)), "the pod is gone", _GONE
        )
        self.wait_ready(count, role)

    def kill(self, pod: Pod) -> None:
        """End the first process of a pod's container by SIGKILL, and wait for the next start."""
        starts = restarts(pod)
        self.signal(pod, signal.SIGKILL)
        self.wait_restart(pod, starts)

    def signal(self, pod: Pod, number: signal.Signals) -> None:
        """Send a signal to the first process of a pod's container."""
        os.kill(self._process(pod), number)

    def wait_restart(self, pod: Pod, starts: int) -> dict[str, Any]:
        """Wait until a pod is ready again with more restarts than before, and return it."""

        def restarted() -> Any:
            (found,) = self.space.get("pod", name(pod))
            return found if restarts(found) > starts and ready(found) else None

        return wait_until(restarted, f"{name(pod)} restarted", _GONE, turn=0.25)

    def _process(self, pod: Pod) -> int:
        """Return the number that the machine of the laboratory gave to the process of a pod."""
        group = f"pod{uid(pod)}"
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (
                    group in (folder / "cgroup").read_text()
                    and b"skybridge" in (folder / "cmdline").read_bytes()
                ):
                    return int(folder.name)
            except OSError:
                continue  # the process has ended
        raise RuntimeError(f"{name(pod)} has no process on this machine")

    def exhaust_memory(self, pod: Pod) -> dict[str, Any]:
        """Fill the memory of a pod from beside its service until the kernel ends the service.

        Many small programs fill it, so that the service is the largest, which the kernel chooses.
        """
        starts = restarts(pod)
        each = "import time; kept = bytearray(40 << 20); time.sleep(60)"
        script = f"for n in 1 2 3 4 5 6 7 8; do python -c '{each}' & done; wait"
        filling = self.space.site.cluster.started(
            "-n", self.space.name, "exec", name(pod), "-c", "skybridge", "--", "sh", "-c", script
        )
        try:
            return self.wait_restart(pod, starts)
        finally:
            filling.kill()
            filling.communicate()


def merged(values: Values, changes: Values) -> dict[str, Any]:
    """Return values with changes, like Helm merges files of values."""
    result = dict(values)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = (
            merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return result


def name(pod: Pod) -> str:
    return str(pod["metadata"]["name"])


def uid(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def ready(pod: Pod) -> bool:
    conditions = pod["status"].get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )


def restarts(pod: Pod) -> int:
    statuses: Sequence[Mapping[str, Any]] = pod["status"].get("containerStatuses", [])
    return sum(int(each["restartCount"]) for each in statuses)


def last_end(pod: Pod) -> str:
    """Return why the container of a pod ended the last time, such as OOMKilled."""
    (status,) = pod["status"]["containerStatuses"]
    return str(status.get("lastState", {}).get("terminated", {}).get("reason", ""))
