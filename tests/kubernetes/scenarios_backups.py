"""A backup by the CronJob of the chart, and the restore that the guide describes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import objects
import yaml
from place import Site, Space
from release import TIMEOUT, Release, Values, merged, name
from scenarios import RATES, SINGLE, released, scenario
from traffic import Row, load

from pages import CHECKOUT, blocks
from waiting import wait_until

_GUIDE = CHECKOUT / "docs" / "guides" / "deploy.md"
_JOB = "backup-now"
_MADE = re.compile(r"the backup is (\S+)")
_GONE = 200.0


def back_up(space: Space, release: Release) -> str:
    """Run the job of the backups once, beside the pod that runs. Return the folder of the backup."""
    space.kubectl("create", "job", _JOB, f"--from=cronjob/{release.full}-backup")
    space.kubectl("wait", "--for=condition=Complete", f"job/{_JOB}", f"--timeout={TIMEOUT}")
    made = _MADE.search(space.kubectl("logs", f"job/{_JOB}"))
    assert made is not None
    return made[1]


@scenario()
def single_restored(site: Site) -> Iterator[Row]:
    """Back up, delete all files of the volume, and restore them with the pod of the guide."""

    def backed(_: Space, values: Values) -> Values:
        return merged(values, {"backup": {"enabled": True}})

    with released(site, SINGLE, backed) as (space, release):
        with load(space, release.url, RATES[SINGLE]):
            pass
        stored = _stored(space, release)
        backup = back_up(space, release)
        space.kubectl("scale", "statefulset", release.full, "--replicas=0")
        wait_until(lambda: not release.pods(), "the pod is gone", _GONE, turn=0.25)
        _run(space, _restoring(release, backup), command=["sh", "-c", "rm -r /var/lib/skybridge/*"])
        _run(space, _restoring(release, backup))
        space.kubectl("scale", "statefulset", release.full, "--replicas=1")
        release.wait_ready(1)
        assert _stored(space, release) == stored
        with load(space, release.url, RATES[SINGLE]) as running:
            pass
    note = f"all {stored:,} events of the backup are back"
    yield running.row("all files of the volume deleted, and the backup restored", SINGLE, note)


def _stored(space: Space, release: Release) -> int:
    """Return how many events the topic of the scenario has."""
    (pod,) = release.pods()
    words = ("skybridge", "topics", "show", space.name, "--json")
    topic = json.loads(space.kubectl("exec", name(pod), "-c", "skybridge", "--", *words))
    return sum(int(each["latest"]) - int(each["earliest"]) for each in topic["partitions"])


def _restoring(release: Release, backup: str) -> dict[str, Any]:
    """Return the pod of the guide, with the names of this release."""
    (block,) = (each for each in blocks(_GUIDE) if "tests/helm validates" in each.reason)
    text = re.sub(
        r"/backups/backup-\w+", backup, block.text.replace("bridge-skybridge", release.full)
    )
    pod: dict[str, Any] = yaml.safe_load(text)
    (container,) = pod["spec"]["containers"]
    container |= {"image": release.space.site.image, "imagePullPolicy": release.space.site.pull}
    return pod


def _run(space: Space, pod: objects.Object, command: Sequence[str] = ()) -> None:
    """Run a pod to its end, with another command if there is one."""
    (container,) = pod["spec"]["containers"]
    if command:
        container["command"] = command
    space.kubectl("apply", "--filename", "-", stdin=json.dumps(pod))
    ended = ("--for=jsonpath={.status.phase}=Succeeded", f"--timeout={TIMEOUT}")
    space.kubectl("wait", *ended, f"pod/{pod['metadata']['name']}")
    space.kubectl("delete", "pod", pod["metadata"]["name"])
