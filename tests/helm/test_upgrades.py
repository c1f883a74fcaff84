"""What an upgrade checks before it changes a release: the configuration, and fields that cannot change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import chart
from pages import CHECKOUT

pytestmark = pytest.mark.usefixtures("helm_program")

SPLIT = yaml.safe_load(chart.case("kafka").read_text())
SPOOLING = yaml.safe_load(chart.case("kafka-spool").read_text())
SCRIPT = chart.CHART / "files" / "fixed.py"


def hooks(text: str, kind: str) -> dict[str, dict[str, Any]]:
    """Return the hooks of a kind by name."""
    return {
        each["metadata"]["name"]: each
        for each in chart.of_kind(text, kind)
        if "helm.sh/hook" in each["metadata"].get("annotations", {})
    }


def check_pod(text: str) -> dict[str, Any]:
    job = hooks(text, "Job")["bridge-skybridge-check"]
    return job["spec"]["template"]["spec"]


@pytest.mark.parametrize("case", chart.CASES, ids=lambda case: case.stem)
def test_the_new_configuration_is_checked_in_the_new_image_before_all_else(case):
    """A pod that refuses its configuration would replace one that runs."""
    text = chart.rendered(case)
    values = yaml.safe_load(case.read_text())
    jobs = hooks(text, "Job")
    checks = [job for name, job in jobs.items() if name.endswith("-check")]
    if values.get("check", {}).get("enabled") is False:
        assert checks == []
        return
    (job,) = checks
    annotations = job["metadata"]["annotations"]
    assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade"
    weights = {
        name: int(each["metadata"]["annotations"].get("helm.sh/hook-weight", 0))
        for name, each in jobs.items()
    }
    assert all(weights[job["metadata"]["name"]] <= weight for weight in weights.values())
    pod = job["spec"]["template"]["spec"]
    containers = {each["name"]: each for each in pod["containers"]}
    assert containers["check"]["args"] == ["check", "/etc/skybridge/skybridge.yaml"]
    service = _service(text)
    assert containers["check"]["image"] == service["image"]
    (config,) = (each for each in pod["volumes"] if each["name"] == "config")
    new = hooks(text, "ConfigMap")[config["configMap"]["name"]]
    assert int(new["metadata"]["annotations"]["helm.sh/hook-weight"]) < min(weights.values())
    (installed,) = (
        each["data"]["skybridge.yaml"]
        for each in chart.of_kind(text, "ConfigMap")
        if "skybridge.yaml" in each["data"] and "annotations" not in each["metadata"]
    )
    assert new["data"]["skybridge.yaml"] == installed


def _service(text: str) -> dict[str, Any]:
    return next(
        container
        for document in chart.documents(text)
        if document["kind"] in {"Deployment", "StatefulSet"}
        for container in document["spec"]["template"]["spec"]["containers"]
        if container["name"] == "skybridge"
    )


@pytest.mark.parametrize("case", ["single-everything", "kafka", "kafka-spool"])
def test_the_check_sees_what_the_service_sees(case):
    """The same variables and files. A Secret that is missing is a finding, and does not keep the pod waiting."""
    text = chart.rendered(chart.case(case))
    pod = next(
        job["spec"]["template"]["spec"]
        for name, job in hooks(text, "Job").items()
        if "check" in name
    )
    check = next(each for each in pod["containers"] if each["name"] == "check")
    seen = {each["name"] for each in check["env"]}
    due = {each["name"] for each in _service(text)["env"]} - {"SKYBRIDGE_WAIT_FOR_CONFIG"}
    assert seen == due
    mounts = {each["mountPath"] for each in check["volumeMounts"]}
    assert mounts >= {each["mountPath"] for each in _service(text)["volumeMounts"]}
    for each in check["env"]:
        if "secretKeyRef" in each.get("valueFrom", {}):
            assert each["valueFrom"]["secretKeyRef"]["optional"] is True
    assert all(each["secret"]["optional"] for each in pod["volumes"] if "secret" in each)


def test_a_finding_ends_the_check_at_once():
    """A node that fails is tried again; a fault of the configuration is not."""
    job = hooks(chart.rendered_with({}), "Job")["bridge-skybridge-check"]
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"] == {"operator": "In", "values": [1, 2]}
    assert job["spec"]["backoffLimit"] > 0
    assert job["spec"]["activeDeadlineSeconds"] < 300  # Helm's own patience


@pytest.mark.parametrize("case", chart.CASES, ids=lambda case: case.stem)
def test_every_pod_waits_for_a_corrected_file(case):
    """By a variable, which an older image ignores."""
    for document in chart.documents(chart.rendered(case)):
        if document["kind"] in {"Deployment", "StatefulSet"}:
            (container,) = document["spec"]["template"]["spec"]["containers"]
            if container["name"] == "skybridge":
                waits = {"name": "SKYBRIDGE_WAIT_FOR_CONFIG", "value": "true"}
                assert waits in container["env"]


def recorded(values: dict[str, Any], *words: str) -> dict[str, Any]:
    """Return what the release records of the fields that cannot change."""
    (found,) = (
        each
        for each in chart.of_kind(chart.rendered_with(values, *words), "ConfigMap")
        if each["metadata"]["name"] == "bridge-skybridge-fixed"
    )
    assert "annotations" not in found["metadata"], "not a hook: an upgrade finds it"
    return json.loads(found["data"]["fixed.json"])


def compared(
    tmp_path: Path, before: dict[str, Any] | None, after: dict[str, Any]
) -> tuple[int, str]:
    """Run the program of the hook, as the pod does."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    if before is not None:
        old.write_text(json.dumps(before))
    new.write_text(json.dumps(after))
    words = [sys.executable, "-IS", str(SCRIPT), str(old), str(new)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_the_check_compares_the_record_of_the_running_release_with_the_new_one():
    pod = check_pod(chart.rendered_with({}))
    fixed = next(each for each in pod["containers"] if each["name"] == "fixed")
    assert fixed["command"] == [
        "python", "/etc/skybridge/fixed.py", "/running/fixed.json", "/etc/skybridge/fixed.json",
    ]  # fmt: skip
    (running,) = (each for each in pod["volumes"] if each["name"] == "running")
    assert running["configMap"] == {"name": "bridge-skybridge-fixed", "optional": True}
    other = chart.rendered_with({"fullnameOverride": "shop", "nameOverride": "x"})
    names = {each["metadata"]["name"] for each in chart.of_kind(other, "ConfigMap")}
    assert "bridge-skybridge-fixed" in names, "its name depends on the release alone"


UNCHANGEABLE = [
    ({"persistence": {"size": "20Gi"}}, "persistence.size", "kubectl -n shops patch pvc data-bridge-skybridge-0"),
    ({"persistence": {"size": "5Gi"}}, "persistence.size", "restore"),
    ({"persistence": {"accessMode": "ReadWriteOncePod"}}, "persistence.accessMode", "persistence.existingClaim"),
    ({"persistence": {"storageClassName": "fast"}}, "persistence.storageClassName", "persistence.existingClaim"),
    ({"persistence": {"annotations": {"a": "b"}}}, "persistence.annotations", "kubectl -n shops annotate pvc"),
    ({"persistence": {"existingClaim": "other"}}, "persistence.existingClaim", "--cascade=orphan"),
    ({"single": {"podManagementPolicy": "Parallel"}}, "single.podManagementPolicy", "--cascade=orphan"),
    ({"fullnameOverride": "shop"}, "empty volume data-shop-0", "persistence.existingClaim: data-bridge-skybridge-0"),
    ({"nameOverride": "shop"}, "empty volume data-bridge-shop-0", "persistence.existingClaim: data-bridge-skybridge-0"),
    ({"fullnameOverride": "bridge-skybridge", "nameOverride": "x"}, "nameOverride", "nameOverride: skybridge"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "setting", "cure"), UNCHANGEABLE, ids=str)
def test_a_field_that_cannot_change_is_refused_with_its_cure(tmp_path, changes, setting, cure):
    """The API server would say Forbidden, and list the fields that may change."""
    code, said = compared(tmp_path, recorded({}), recorded(changes))
    assert code == 1
    assert setting in said
    assert "Cure: " in said
    assert cure in said


def test_the_cure_removes_the_record_too(tmp_path):
    """Otherwise the next check would refuse the same change again (seen in Kubernetes)."""
    changes = {"single": {"podManagementPolicy": "Parallel"}}
    _, said = compared(tmp_path, recorded({}), recorded(changes))
    objects = "statefulset/bridge-skybridge configmap/bridge-skybridge-fixed"
    assert f"kubectl -n shops delete {objects} --cascade=orphan" in said
    assert objects in (CHECKOUT / "docs" / "guides" / "deploy.md").read_text()
    (tmp_path / "old.json").unlink()
    assert compared(tmp_path, None, recorded(changes)) == (0, "")


def test_all_of_them_are_named_at_once(tmp_path):
    changes = {
        "persistence": {"size": "20Gi", "accessMode": "ReadWriteOncePod"},
        "single": {"podManagementPolicy": "Parallel"},
    }
    code, said = compared(tmp_path, recorded({}), recorded(changes))
    assert (code, said.count("Cure: ")) == (1, 3)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"image": {"tag": "2"}, "single": {"resources": {"requests": {"cpu": "2"}}}},
        {"fullnameOverride": "shop", "persistence": {"existingClaim": "data-bridge-skybridge-0"}},
        {"persistence": {"existingClaim": "data-bridge-skybridge-0"}},
        {"persistence": {"whenDeleted": "Delete"}},
    ],
    ids=str,
)
def test_other_changes_pass(tmp_path, changes):
    assert compared(tmp_path, recorded({}), recorded(changes)) == (0, "")


def test_a_claim_that_would_be_deleted_with_its_stateful_set_is_refused(tmp_path):
    before = recorded({"persistence": {"whenDeleted": "Delete"}})
    claim = {"existingClaim": "data-bridge-skybridge-0"}
    code, said = compared(tmp_path, before, recorded({"nameOverride": "x", "persistence": claim}))
    assert code == 1
    assert "persistence.whenDeleted: Retain" in said


def test_a_release_without_a_record_passes(tmp_path):
    """A new one, or one of an older chart."""
    assert compared(tmp_path, None, recorded({})) == (0, "")


def test_gateways_with_spools_keep_their_names_and_volumes(tmp_path):
    """Events wait on their volumes."""
    before = recorded(SPOOLING)
    renamed = recorded({**SPOOLING, "fullnameOverride": "shop"})
    code, said = compared(tmp_path, before, renamed)
    assert code == 1
    assert "bridge-skybridge-gateway" in said
    assert "fullnameOverride: bridge-skybridge" in said
    larger = recorded({**SPOOLING, "persistence": {"size": "50Gi", "storageClassName": "fast"}})
    code, said = compared(tmp_path, before, larger)
    assert code == 1
    assert "kubectl -n shops patch pvc data-bridge-skybridge-gateway-0" in said
    plain = recorded(SPLIT)
    assert compared(tmp_path, plain, recorded({**SPLIT, "fullnameOverride": "shop"})) == (0, "")


def test_another_name_of_a_single_pod_is_refused_in_an_upgrade_without_a_cluster():
    """Also with --no-hooks. With the claim named, the pod has it, and a claim of its own name changes nothing."""
    for changes in ({"fullnameOverride": "shop"}, {"nameOverride": "shop"}):
        assert chart.rendered_with(changes)
        with pytest.raises(chart.Refused, match=r"persistence\.existingClaim is not set"):
            chart.rendered_with(changes, "--is-upgrade")
    named = {
        "fullnameOverride": "shop",
        "persistence": {"existingClaim": "data-bridge-skybridge-0"},
    }
    (stateful,) = chart.of_kind(chart.rendered_with(named, "--is-upgrade"), "StatefulSet")
    assert "volumeClaimTemplates" not in stateful["spec"]
    assert {
        "name": "data",
        "persistentVolumeClaim": {"claimName": "data-bridge-skybridge-0"},
    } in stateful["spec"]["template"]["spec"]["volumes"]
    own = {"fullnameOverride": "shop", "persistence": {"existingClaim": "data-shop-0"}}
    without = {"fullnameOverride": "shop"}
    made, plain = (
        chart.of_kind(chart.rendered_with(values, *words), "StatefulSet")
        for values, words in ((own, ["--is-upgrade"]), (without, []))
    )
    assert made == plain


def test_a_policy_of_pods_is_a_value_of_one_pod():
    """It cannot change on a running release, so the default is that of Kubernetes."""
    for values, policy in (({}, "OrderedReady"), ({"podManagementPolicy": "Parallel"}, "Parallel")):
        (stateful,) = chart.of_kind(chart.rendered_with({"single": values}), "StatefulSet")
        assert stateful["spec"]["podManagementPolicy"] == policy


@pytest.mark.parametrize(
    ("role", "name", "scaler"),
    [
        ("gateway", "autoscaling", {"enabled": True}),
        ("worker", "keda", {"enabled": True, "prometheus": "http://p:9090"}),
    ],
)
def test_turning_a_scaler_on_does_not_shrink_a_release(role, name, scaler):
    """Without the field, an upgrade of a release that had it makes one pod of six."""

    def replicas(initial: int) -> Any:
        values = {**SPLIT, role: {"replicas": 6, name: {**scaler, "initialReplicas": initial}}}
        text = chart.rendered_with(values)
        (found,) = (
            each
            for kind in ("Deployment", "StatefulSet")
            for each in chart.of_kind(text, kind)
            if each["metadata"]["name"].endswith(role)
        )
        return found["spec"].get("replicas")

    assert replicas(6) == 6
    assert replicas(0) is None
    with pytest.raises(chart.Refused, match=rf"{role}\.{name}\.initialReplicas is not set.*Cure"):
        chart.rendered_with({**SPLIT, role: {"replicas": 6, name: scaler}})
