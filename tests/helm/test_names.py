"""Names of a release that Helm takes and Kubernetes does not, and a pod by hand where pods are restricted."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import kubernetes_validate
import pytest
import yaml

import chart

pytestmark = pytest.mark.usefixtures("helm_program")

SPLIT = yaml.safe_load(chart.case("kafka").read_text())
SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")  # RFC 1035, as the API server has it
LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")


@pytest.mark.parametrize("release", ["shop.eu", "a.b.c", "shop-2", "e3", "a" * 53])
@pytest.mark.parametrize(
    "values", [{}, {"backup": {"enabled": True}}, SPLIT], ids=["single", "backup", "split"]
)
def test_every_name_is_one_that_kubernetes_takes(release, values):
    """Helm takes dots; a Service does not."""
    text = chart.rendered_with(values, release=release)
    for document in chart.documents(text):
        name = document["metadata"]["name"]
        if document["kind"] == "Service":
            assert SERVICE.fullmatch(name)
        assert len(name) <= {"Job": 63, "CronJob": 52}.get(document["kind"], 253)
        if document["kind"] != "SparkApplication":
            kubernetes_validate.validate(document, "1.37", strict=True)
        assert all(LABEL.fullmatch(each) for each in _labels(document))
    (service, *_) = chart.of_kind(text, "Service")
    assert service["spec"]["selector"]["app.kubernetes.io/instance"] == release


def _labels(document: dict[str, Any]) -> list[str]:
    return [*document["metadata"].get("labels", {}).values()]


def test_a_release_whose_name_is_a_number_has_labels_of_text():
    """123 would be a number in YAML, which the API server refuses. The cure names the service too."""
    with pytest.raises(chart.Refused, match=r"called 123, .*Cure: fullnameOverride"):
        chart.rendered_with({}, release="123")
    text = chart.rendered_with({"fullnameOverride": "shop"}, release="123")
    for document in chart.documents(text):
        kubernetes_validate.validate(document, "1.37", strict=True)


@pytest.mark.parametrize("case", ["single", "kafka", "single-everything"])
def test_the_pod_of_the_notes_runs_where_pods_are_restricted(case):
    """And where a quota counts, as the pod of ``helm test``."""
    notes = chart.notes(yaml.safe_load(chart.case(case).read_text()))
    (line,) = (each for each in notes.splitlines() if " run try " in each)
    given = dict(
        each.split("=", 1) for each in shlex.split(line) if each.startswith("--") and "=" in each
    )
    assert given["--override-type"] == "strategic"
    spec = json.loads(given["--overrides"])["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["name"] == "try"
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": spec}
    kubernetes_validate.validate(pod, "1.37", strict=True)
