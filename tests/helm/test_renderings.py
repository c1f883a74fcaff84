"""What the chart renders is what it rendered before, and what Kubernetes takes."""

from __future__ import annotations

import functools
import re
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import utils

import chart
import helm_install
from pages import CHECKOUT

pytestmark = pytest.mark.usefixtures("helm_program")

VERSIONS = ("1.30", "1.34", "1.37")
"""The oldest release that is still patched by some vendor, one in between, the newest that is known here."""

DEFINED = ("HTTPRoute", "PodMonitor", "PrometheusRule", "ScaledObject", "ServiceMonitor")
WITHOUT_SCHEMA = {
    "SparkApplication"
}  # its module cannot be had: held by its golden rendering alone

utils.schema_contents = functools.cache(
    utils.schema_contents
)  # megabytes, read for each object else

every_case = pytest.mark.parametrize("case", chart.CASES, ids=lambda case: case.stem)


def test_there_are_a_dozen_ways_to_run_it():
    """Each with its reason in the first line (issue 9: 12 value sets)."""
    assert len(chart.CASES) >= 12
    assert [case.name for case in chart.CASES if not case.read_text().startswith("# ")] == []


@pytest.mark.parametrize("name", ["single", "single-everything", "kafka-autoscaling", "pipeline"])
def test_the_linter_has_nothing_to_say(name):
    """helm lint, warnings counted as errors; every template is rendered by one of these."""
    values = str(chart.case(name))
    assert chart.helm("lint", "--strict", "--quiet", str(chart.CHART), "--values", values) == ""


@every_case
def test_a_rendering_is_the_golden_one(case):
    """A change of the chart shows what it does to a cluster. Cure when it is meant: make chart."""
    assert chart.render(case) == chart.rendered(case)


def test_no_golden_rendering_is_left_over():
    """Of a case that is gone: make chart."""
    assert {path.name for path in chart.GOLDEN.iterdir()} == {case.name for case in chart.CASES}


@every_case
@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_every_object(case, version):
    """By the schemas of the API server, strictly: a field that it does not know would be dropped in silence."""
    for document in chart.documents(chart.rendered(case)):
        if document["kind"] not in {*DEFINED, *WITHOUT_SCHEMA}:
            kubernetes_validate.validate(document, version, strict=True)


def test_the_schema_of_kubernetes_refuses_a_wrong_field():
    """The control: a test that cannot fail shows nothing."""
    service = chart.of_kind(chart.rendered(chart.CASES[0]), "Service")[0]
    service["spec"]["port"] = 80
    with pytest.raises(kubernetes_validate.ValidationError, match="'port' was unexpected"):
        kubernetes_validate.validate(service, VERSIONS[0], strict=True)


@pytest.mark.parametrize("kind", DEFINED)
def test_a_custom_resource_is_what_its_definition_says(kind):
    """By the definition that its project publishes, closed: an unknown field is an error here."""
    found = [each for case in chart.CASES for each in chart.of_kind(chart.rendered(case), kind)]
    assert found
    for document in found:
        _by_definition(document)


def test_a_definition_refuses_a_wrong_field():
    """The control."""
    text = chart.rendered(chart.case("kafka-autoscaling"))
    (document,) = chart.of_kind(text, "ScaledObject")
    document["spec"]["minReplicas"] = 1
    with pytest.raises(jsonschema.ValidationError, match="'minReplicas' was unexpected"):
        _by_definition(document)


def _by_definition(document: dict[str, Any]) -> None:
    version = document["apiVersion"].rpartition("/")[2]
    _validator(document["kind"], version).validate(document)


@functools.cache
def _validator(kind: str, version: str) -> jsonschema.Draft202012Validator:
    text = helm_install.definition(kind).read_text()
    served = {
        each["name"]: each["schema"]["openAPIV3Schema"]
        for each in yaml.load(text, Loader=yaml.CSafeLoader)["spec"]["versions"]
    }
    schema = _closed(served[version])
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft202012Validator(schema)


def _closed(schema: Any) -> Any:
    """No properties beside those that are named; JSON Schema leaves objects open."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(each) for name, each in schema.items()}
    named = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    if named and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed["additionalProperties"] = False
    return closed


@every_case
def test_every_pod_is_confined(case):
    """Not root, nothing to write to but its volumes, memory bounded; no token of Kubernetes but for the operator."""
    for spec in filter(None, map(_pod, chart.documents(chart.rendered(case)))):
        account = spec.get("serviceAccountName", "")
        assert spec["automountServiceAccountToken"] is account.endswith(_SPEAK_TO_KUBERNETES)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


_SPEAK_TO_KUBERNETES = ("-operator", "-definition")
"""The ends of the service accounts whose pods have a token; tests/helm/test_operator.py holds their rights."""


def _pod(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return the description of the pods that Kubernetes makes of an object, if it makes some."""
    spec = document.get("spec", {})
    if document["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    pod = document if document["kind"] == "Pod" else spec.get("template")
    return pod["spec"] if pod and document["kind"] != "SparkApplication" else None


_QUOTA = re.compile(r"`([a-z.]+)\.resources\.limits\.cpu`")


@pytest.mark.parametrize("name", ["single", "single-file", "kafka", "kafka-spool", "pipeline"])
def test_the_values_that_the_guide_lists_give_every_container_a_limit_of_cpu(name):
    """A ResourceQuota on limits.cpu refuses a pod with a container that has none."""
    values = yaml.safe_load(chart.case(name).read_text())
    for path in _QUOTA.findall((CHECKOUT / "docs" / "guides" / "deploy.md").read_text()):
        group = functools.reduce(lambda at, key: at.setdefault(key, {}), path.split("."), values)
        group.setdefault("resources", {}).setdefault("limits", {})["cpu"] = "7"
    pods = filter(None, map(_pod, chart.documents(chart.rendered_with(values))))
    limits = [each["resources"]["limits"]["cpu"] for pod in pods for each in pod["containers"]]
    assert len(limits) >= 4
    assert {*limits} == {"7"}


@every_case
def test_nothing_exposes_the_admin_listener(case):
    """Ingress, route and the Service that has an address lead to events alone (issue 9)."""
    text = chart.rendered(case)
    for ingress in chart.of_kind(text, "Ingress"):
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                assert path["backend"]["service"]["port"] == {"name": "events"}
    for service in chart.of_kind(text, "Service"):
        if service["spec"].get("clusterIP") != "None":
            assert [port["name"] for port in service["spec"]["ports"]] in (["events"], ["kafka"])


@every_case
def test_a_network_policy_guards_the_admin_listener(case):
    """In a pod it is off loopback: it is guarded unless the values say otherwise."""
    refused = "networkPolicy: {enabled: false}" in case.read_text()
    policies = chart.of_kind(chart.rendered(case), "NetworkPolicy")
    operator = "\noperator:" in case.read_text()
    assert len(policies) == (0 if refused else 1 + operator)
    for policy in policies:
        (admin,) = (
            rule for rule in policy["spec"]["ingress"] if rule["ports"] == [{"port": "admin"}]
        )
        assert admin["from"]


@every_case
def test_a_service_finds_its_pods_and_only_those(case):
    """A selector that fits nothing, or a job's pod beside the service's, takes no events."""
    documents = chart.documents(chart.rendered(case))
    pods = [
        each["spec"]["template"]["metadata"]["labels"]
        for each in documents
        if each["kind"] in {"Deployment", "StatefulSet", "Job"}
    ] + [each["metadata"]["labels"] for each in documents if each["kind"] == "Pod"]
    for service in (each for each in documents if each["kind"] == "Service"):
        wanted = service["spec"]["selector"].items()
        chosen = [labels for labels in pods if wanted <= labels.items()]
        assert chosen
        assert all("app.kubernetes.io/component" in labels for labels in chosen)


def test_a_gateway_with_spools_has_a_volume_and_time_to_drain_it():
    """Issue 22: a pod that ends waits for its spools within its grace period; its volume stays for the next."""
    text = chart.rendered(chart.case("kafka-spool"))
    gateway, worker = chart.of_kind(text, "StatefulSet")
    assert "Deployment" not in {each["kind"] for each in chart.documents(text)}
    pod = gateway["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    *shell, script = container["lifecycle"]["preStop"]["exec"]["command"]
    assert (shell, script) == (["sh", "-c"], "sleep 5; exec skybridge status --drained 120")
    plain = chart.of_kind(chart.rendered(chart.case("kafka")), "Deployment")[0]
    usual = plain["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert pod["terminationGracePeriodSeconds"] == usual + 120
    assert gateway["spec"]["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Retain"
    (claim,) = gateway["spec"]["volumeClaimTemplates"]
    mount = {"name": claim["metadata"]["name"], "mountPath": "/var/lib/skybridge"}
    assert mount in container["volumeMounts"]
    (scaler,) = chart.of_kind(text, "HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["kind"] == "StatefulSet"
    assert "volumeClaimTemplates" not in worker["spec"]
    assert "lifecycle" not in worker["spec"]["template"]["spec"]["containers"][0]


def test_a_gateway_with_spools_has_probes_and_a_budget():
    """As a gateway without: a node that drains takes one at a time, and a pod that opens a large spool has time."""
    text = chart.rendered(chart.case("kafka-spool"))
    gateway, _ = chart.of_kind(text, "StatefulSet")
    template = gateway["spec"]["template"]
    (container,) = template["spec"]["containers"]
    paths = {
        name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")
    }
    assert paths == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz?role=gateway",
    }
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 300
    chosen = [
        budget["spec"]["maxUnavailable"]
        for budget in chart.of_kind(text, "PodDisruptionBudget")
        if budget["spec"]["selector"]["matchLabels"].items()
        <= template["metadata"]["labels"].items()
    ]
    assert chosen == [1]


def test_names_that_yaml_reads_as_something_else_stay_text():
    """A Secret may be called 123, and a variable NO: the API server refuses numbers and booleans there."""
    text = chart.rendered_with(
        {
            "adminToken": {"existingSecret": "123", "key": "1"},
            "secretEnv": [{"name": "NO", "existingSecret": "1e3", "key": "true"}],
            "secretFiles": [{"name": "kafka", "existingSecret": "0123"}],
        }
    )
    (stateful,) = chart.of_kind(text, "StatefulSet")
    kubernetes_validate.validate(stateful, VERSIONS[0], strict=True)
    pod = stateful["spec"]["template"]["spec"]
    env = {each["name"]: each for each in pod["containers"][0]["env"]}
    assert env["NO"]["valueFrom"]["secretKeyRef"] == {"name": "1e3", "key": "true"}
    assert env["SKYBRIDGE_ADMIN_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "123", "key": "1"}
    assert "0123" in [each.get("secret", {}).get("secretName") for each in pod["volumes"]]


def test_pods_may_ask_a_dns_cache_of_their_node():
    """NodeLocal DNSCache listens at 169.254.20.10, which is kept from pods with the metadata services of clouds."""
    for values in ({}, {"networkPolicy": {"egress": [{"ports": [{"port": 9093}]}]}}):
        (policy,) = chart.of_kind(chart.rendered_with(values), "NetworkPolicy")
        assert {
            "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
        } in policy["spec"]["egress"]
