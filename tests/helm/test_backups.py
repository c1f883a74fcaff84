"""The CronJob that backs up a single pod: it reaches the volume, and what it runs is a backup."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import chart
from app.store import open_store
from configuration import configuration, written
from forked import completed
from pages import CHECKOUT, blocks

pytestmark = pytest.mark.usefixtures("helm_program")

GUIDE = CHECKOUT / "docs" / "guides" / "deploy.md"
ENABLED: dict[str, Any] = {"backup": {"enabled": True}}


def job(text: str) -> dict[str, Any]:
    (cron,) = chart.of_kind(text, "CronJob")
    return cron["spec"]["jobTemplate"]["spec"]


def test_a_backup_runs_on_the_node_of_the_pod_whose_volume_it_mounts():
    """ReadWriteOnce is one node, not one pod."""
    text = chart.rendered_with(ENABLED)
    (stateful,) = chart.of_kind(text, "StatefulSet")
    pod = job(text)["template"]["spec"]
    (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    volumes = {each["name"]: each for each in pod["volumes"]}
    (claim,) = stateful["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "data-bridge-skybridge-0"}
    (made,) = chart.of_kind(text, "PersistentVolumeClaim")
    assert volumes["backups"]["persistentVolumeClaim"] == {"claimName": made["metadata"]["name"]}
    assert made["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    (container,) = pod["containers"]
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    assert not mounts["/var/lib/skybridge"].get("readOnly"), (
        "readers of a log in WAL mode write too"
    )
    assert container["image"] == stateful["spec"]["template"]["spec"]["containers"][0]["image"]


def test_only_one_backup_runs_at_a_time():
    cron = chart.of_kind(chart.rendered_with(ENABLED), "CronJob")[0]
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"


def test_a_pod_of_the_release_mounts_the_claim_of_the_backups():
    """`helm install --wait` waits for the claim, which some classes bind to the first pod that mounts it."""
    text = chart.rendered_with(ENABLED)
    (made,) = chart.of_kind(text, "PersistentVolumeClaim")
    (first,) = (
        each for each in chart.of_kind(text, "Job") if "annotations" not in each["metadata"]
    )
    pod = first["spec"]["template"]["spec"]
    (volume,) = pod["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": made["metadata"]["name"]}
    assert pod["affinity"] == job(text)["template"]["spec"]["affinity"]
    (container,) = pod["containers"]
    assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/backups"}]
    own = {"backup": {"enabled": True, "persistence": {"existingClaim": "mine"}}}
    theirs = chart.of_kind(chart.rendered_with(own), "Job")
    assert all("annotations" in each["metadata"] for each in theirs), (
        "a claim of the user is theirs"
    )


def test_another_pod_is_another_job():
    """The pod of a Job cannot change: with one name, a new image would end each upgrade."""

    def named(values: dict[str, Any]) -> str:
        found = chart.of_kind(chart.rendered_with({**ENABLED, **values}), "Job")
        (name,) = (
            each["metadata"]["name"] for each in found if "-volume-" in each["metadata"]["name"]
        )
        return name

    assert named({}) == named({"backup": {"enabled": True, "keep": 3}})
    assert named({}) != named({"image": {"tag": "2"}})


def test_the_pod_that_restores_is_valid_and_mounts_what_the_backup_mounts():
    """Of the guide."""
    (block,) = (each for each in blocks(GUIDE) if "tests/helm validates" in each.reason)
    pod = yaml.safe_load(block.text)
    kubernetes_validate.validate(pod, "1.37", strict=True)
    text = chart.rendered_with(ENABLED)
    made = job(text)["template"]["spec"]
    for spec in (pod["spec"], made):
        assert spec["securityContext"]["fsGroup"] == 10001
    claims = [
        {
            each["name"]: each["persistentVolumeClaim"]["claimName"]
            for each in spec["volumes"]
            if "persistentVolumeClaim" in each
        }
        for spec in (pod["spec"], made)
    ]
    assert claims[0] == claims[1]
    mounts = [
        {(each["name"], each["mountPath"]) for each in spec["containers"][0]["volumeMounts"]}
        for spec in (pod["spec"], made)
    ]
    assert mounts[0] == mounts[1]


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_kubernetes_takes_the_backup_of_the_defaults(version):
    for document in chart.documents(chart.rendered_with(ENABLED)):
        kubernetes_validate.validate(document, version, strict=True)


async def test_what_the_pod_runs_makes_a_backup_and_deletes_old_ones(tmp_path: Path):
    """Its arguments, with folders of the test for those of the pod."""
    settings = configuration(tmp_path)
    store = open_store(tmp_path / "store.db", timeout=60)
    await store.start()
    await store.stop()
    file = written(settings, tmp_path)
    (container,) = job(chart.rendered_with({"backup": {"enabled": True, "keep": 1}}))["template"]["spec"][
        "containers"
    ]  # fmt: skip
    places = {"/backups": str(tmp_path / "backups"), "/etc/skybridge/skybridge.yaml": str(file)}
    words = [places.get(each, each) for each in container["args"]]
    made = []
    for _ in range(2):
        while True:  # a second later it has another name
            done = completed(*words, cwd=tmp_path)
            if "exists already" not in done.stderr:
                break
        assert done.returncode == 0, done.stderr
        made.append({each.name for each in (tmp_path / "backups").iterdir()})
    assert [len(each) for each in made] == [1, 1]
    assert made[0] != made[1]
    (name,) = made[1]
    sums = ["sha256sum", "--check", "SHA256SUMS"]
    assert subprocess.run(sums, cwd=tmp_path / "backups" / name, check=False).returncode == 0
