"""The operator in the chart: which rights it has, where it finds what it needs, and when its hooks run."""

from __future__ import annotations

import copy
import functools
import io
import json
import runpy
from email.message import Message
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml

import chart
from app.kubernetes import names
from pages import CHECKOUT

pytestmark = pytest.mark.usefixtures("helm_program")

CASE = chart.case("kafka-operator")
VALUES = yaml.safe_load(CASE.read_text())
NAME = "bridge-skybridge-operator"
PROGRAM = chart.CHART / "files" / "kubernetes.py"
RIGHT = f"shops:{NAME}"


def rights(role: dict[str, Any]) -> dict[tuple[str, str, str], set[str]]:
    """Return the verbs of a Role by group, resource and name of the object; "" for any object."""
    return {
        (group, resource, name): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def roles(text: str) -> dict[tuple[str, str], dict[tuple[str, str, str], set[str]]]:
    """Return the rights of all Roles by namespace and name."""
    found = chart.of_kind(text, "Role")
    return {
        (each["metadata"]["namespace"], each["metadata"]["name"]): rights(each) for each in found
    }


def environ(text: str, workload: str) -> dict[str, Any]:
    """Return the variables of a Deployment or StatefulSet: values, and references to Secrets."""
    (found,) = (
        each
        for each in chart.documents(text)
        if each["kind"] in {"Deployment", "StatefulSet"} and each["metadata"]["name"] == workload
    )
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_the_rights_are_those_of_the_listed_namespaces():
    """Secrets are read in the listed namespaces alone, by a Role in each of them (issue 46)."""
    found = roles(chart.rendered(CASE))
    assert {*found} == {
        ("shops", NAME),
        ("team-billing", RIGHT),
        ("team-stock", RIGHT),
    }
    for namespace in ("team-billing", "team-stock"):
        assert found[namespace, RIGHT] == {
            ("", "secrets", ""): {"list", "watch"},
            ("", "services", ""): {"list", "watch"},
            ("", "events", ""): {"create", "patch"},
        }
    assert ("", "secrets", "") not in found["shops", NAME]


def test_in_the_whole_cluster_the_operator_has_rights_on_subscriptions_alone():
    """A deleted namespace takes its Roles with it, and the finalizers in it have to go all the same."""
    text = chart.rendered(CASE)
    (role,) = (each for each in chart.of_kind(text, "ClusterRole") if not _is_hook(each))
    assert rights(role) == {
        (names.GROUP, names.PLURAL, ""): {"get", "list", "watch", "patch"},
        (names.GROUP, f"{names.PLURAL}/status", ""): {"patch"},
    }
    (binding,) = (each for each in chart.of_kind(text, "ClusterRoleBinding") if not _is_hook(each))
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == RIGHT, "no other release's"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": "shops"}]


def _is_hook(item: dict[str, Any]) -> bool:
    return "helm.sh/hook" in item["metadata"].get("annotations", {})


def test_the_right_to_install_the_definition_ends_with_its_hook():
    """It names one definition, and no Secret."""
    text = chart.rendered(CASE)
    for kind in ("ClusterRole", "ClusterRoleBinding"):
        (found,) = filter(_is_hook, chart.of_kind(text, kind))
        policy = found["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        assert policy == "before-hook-creation,hook-succeeded"
    (role,) = filter(_is_hook, chart.of_kind(text, "ClusterRole"))
    definitions = ("apiextensions.k8s.io", "customresourcedefinitions")
    assert rights(role) == {
        (*definitions, ""): {"create"},
        (*definitions, f"{names.PLURAL}.{names.GROUP}"): {"get", "patch"},
    }
    by_hand = chart.rendered(chart.case("single-operator"))
    assert not [*filter(_is_hook, chart.of_kind(by_hand, "ClusterRole"))]


def test_every_binding_leads_from_the_operator_to_a_role_of_its_namespace():
    """A binding to a Role that is not there gives no right, and says nothing."""
    text = chart.rendered(CASE)
    bindings = chart.of_kind(text, "RoleBinding")
    assert {(each["metadata"]["namespace"], each["roleRef"]["name"]) for each in bindings} == {
        *roles(text)
    }
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": "shops"}
    assert [each["subjects"] for each in bindings] == [[account]] * len(bindings)


def test_the_operator_gets_the_listed_namespaces_with_the_names_of_the_configuration():
    """The values speak camelCase, the configuration does not."""
    found = environ(chart.rendered(CASE), NAME)
    assert json.loads(found["SKYBRIDGE_OPERATOR__NAMESPACES"]) == [
        {
            "name": "team-billing",
            "topics": ["orders*", "invoices"],
            "reply_routes": ["everything"],
            "hosts": ["*.team-billing.svc"],
            "subscriptions": 50,
        },
        {
            "name": "team-stock",
            "topics": ["stock"],
            "reply_routes": [],
            "hosts": ["hooks.example.com"],
        },
    ]
    (role,) = (
        each
        for each in chart.of_kind(chart.rendered(CASE), "Role")
        if each["metadata"]["name"] == NAME
    )
    lease = found["SKYBRIDGE_OPERATOR__LEASE__NAME"]
    assert rights(role)["coordination.k8s.io", "leases", lease] == {"get", "update"}


def test_another_name_of_the_release_keeps_its_objects():
    """The Lease is how objects name their operator. A new one would find them in other hands, and pause all (issue 46)."""
    text = chart.rendered_with({**VALUES, "fullnameOverride": "renamed"})
    lease = environ(text, "renamed-operator")["SKYBRIDGE_OPERATOR__LEASE__NAME"]
    assert lease == environ(chart.rendered(CASE), NAME)["SKYBRIDGE_OPERATOR__LEASE__NAME"]
    (role,) = (
        each
        for each in chart.of_kind(text, "Role")
        if "renamed-" in str(each["metadata"]["name"]) and each["metadata"]["namespace"] == "shops"
    )
    assert ("coordination.k8s.io", "leases", lease) in rights(role)
    (job,) = (
        each for each in chart.of_kind(text, "Job") if each["metadata"]["name"].endswith("-end")
    )
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"][1:5] == ["--deployment", "renamed-operator", "--lease", lease]


def test_the_token_of_the_operator_is_one_of_the_admin_api():
    """The same Secret on both sides, beside the token of Prometheus."""
    text = chart.rendered(CASE)
    gateway, operator = environ(text, "bridge-skybridge-gateway"), environ(text, NAME)
    setting = "SKYBRIDGE_SERVER__ADMIN__TOKENS__1__"  # 0 is that of Prometheus
    assert gateway[f"{setting}OWNER"] == names.OWNER
    token = gateway[f"{setting}TOKEN"]
    assert token == operator["SKYBRIDGE_OPERATOR__ADMIN__TOKEN"]
    assert token == {"secretKeyRef": {"name": "shop-operator", "key": "kubernetes"}}


def test_the_operator_has_no_secret_of_brokers_store_and_targets():
    """It reads none of their sections; with the Secrets of teams in its reach, it is worth an attack."""
    text = chart.rendered(CASE)
    assert "DSN" in environ(text, "bridge-skybridge-gateway")
    assert "DSN" not in environ(text, NAME)
    (pod,) = (
        each for each in chart.of_kind(text, "Deployment") if each["metadata"]["name"] == NAME
    )
    assert not [each for each in pod["spec"]["template"]["spec"]["volumes"] if "secret" in each]
    values = copy.deepcopy(VALUES)
    token = {"name": "team", "token": "${env:DSN}", "scopes": ["read"]}
    values["config"]["server"]["admin"] = {"tokens": [token]}
    assert "DSN" in environ(chart.rendered_with(values), NAME)


def test_the_operator_asks_pods_that_serve_the_admin_api():
    """It has no address of its own, and leads to ready pods that know how deliveries go: a gateway says ``elsewhere``."""
    text = chart.rendered(CASE)
    url = environ(text, NAME)["SKYBRIDGE_OPERATOR__ADMIN__URL"]
    host, _, port = url.removeprefix("http://").partition(":")
    (service,) = (
        each for each in chart.of_kind(text, "Service") if each["metadata"]["name"] == host
    )
    assert service["spec"]["selector"]["app.kubernetes.io/component"] == "worker"
    assert "publishNotReadyAddresses" not in service["spec"]
    assert [each["port"] for each in service["spec"]["ports"]] == [int(port)]


def test_the_definition_is_installed_after_the_check_and_before_the_pods():
    """Helm never upgrades crds/; a refused configuration changes no definition."""
    jobs = {
        each["metadata"]["name"]: each["metadata"]
        for each in chart.of_kind(chart.rendered(CASE), "Job")
    }
    weights = {
        name: int(each["annotations"].get("helm.sh/hook-weight", 0)) for name, each in jobs.items()
    }
    assert weights["bridge-skybridge-check"] < weights["bridge-skybridge-definition"] < 0
    hook = jobs["bridge-skybridge-definition"]["annotations"]["helm.sh/hook"]
    assert hook == "pre-install,pre-upgrade"
    assert not (chart.CHART / "crds").exists()


def test_the_hook_installs_the_generated_definition_with_the_version_of_the_chart():
    """By the version an older release of the same cluster knows that it has to leave it."""
    (found,) = (
        each
        for each in chart.of_kind(chart.rendered(CASE), "ConfigMap")
        if each["metadata"]["name"] == "bridge-skybridge-definition"
    )
    definition = json.loads(found["data"]["definition.json"])
    metadata = definition["metadata"]
    version = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())["appVersion"]
    assert metadata.pop("annotations") == {f"{names.GROUP}/version": version}
    assert definition == yaml.safe_load(chart.DEFINITION.read_text())


def test_before_an_uninstallation_the_finalizer_is_taken_from_all_namespaces():
    """By the account of the operator, whose rights are there until then."""
    (job,) = (
        each
        for each in chart.of_kind(chart.rendered(CASE), "Job")
        if each["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    )
    pod = job["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == NAME
    (container,) = pod["containers"]
    assert container["args"][:5] == ["end", "--deployment", NAME, "--lease", NAME]
    assert container["args"][-2:] == ["team-billing", "team-stock"]


def test_the_program_of_the_hooks_names_what_the_operator_names():
    """It has no package beside it from which it could import them."""
    program = runpy.run_path(str(PROGRAM))
    assert program["GROUP"] == names.GROUP
    assert program["FINALIZER"] == names.DRAIN_FINALIZER
    assert f"apis/{{GROUP}}/{names.VERSION}/{names.PLURAL}" in PROGRAM.read_text()


class Tenants:
    """An API server with objects of tenants, of which some change all the time. A list has two of them at a time."""

    namespace = "shops"

    def __init__(self, program: dict[str, Any]) -> None:
        self.refusals = {"busy": [409, 422], "denied": [403]}
        self.sent: list[tuple[str, Any]] = []
        self.items = functools.partial(program["Api"].items, self)
        self.objects = {
            name: {
                "metadata": {
                    "name": name,
                    "namespace": "team",
                    "finalizers": ["example.com/other", names.DRAIN_FINALIZER],
                },
                "status": {"operator": f"shops/{NAME}"},
            }
            for name in ("busy", "denied", "quiet")
        }

    def ask(self, path: str, method: str = "GET", body: Any = None, kind: str = "") -> Any:
        name = path.removesuffix("/status").rpartition("/")[2]
        if method == "PATCH":
            if status := next(iter(self.refusals.get(name, [])), None):
                self.refusals[name].remove(status)
                raise HTTPError(path, status, "refused", Message(), io.BytesIO())
            self.sent.append((name, body))
        if "limit=" not in path:
            return self.objects.get(name)
        if "/pods" in path:
            return {"items": []}
        found = [*self.objects.values()]
        begin = int(path.partition("continue=")[2] or 0)
        more = str(begin + 2) if begin + 2 < len(found) else ""
        return {"items": found[begin : begin + 2], "metadata": {"continue": more}}


def test_no_tenant_prevents_the_end_of_the_operator(capsys):
    """By an object that changes all the time, or by very large ones: a list has a part of them at a time (issue 46)."""
    program = runpy.run_path(str(PROGRAM))
    tenants = Tenants(program)
    assert not program["end"](tenants, NAME, NAME, "app=none", ["team"]), "one is refused"
    assert "403" in (out := capsys.readouterr().out)
    assert "2 Subscriptions are released" in out
    place = {"path": "/metadata/finalizers/1"}
    steps = [{"op": "test", **place, "value": names.DRAIN_FINALIZER}, {"op": "remove", **place}]
    released = [steps, {"status": {"operator": None}}]
    assert [body for name, body in tenants.sent if name == "quiet"] == released
    assert [body for name, body in tenants.sent if name == "busy"] == released
    assert program["end"](tenants, NAME, NAME, "app=none", ["team"])
    deep = b'{"spec": ' + b"[" * 9_000 + b"]" * 9_000 + b"}"
    assert len(program["parsed"](deep)["spec"]) == 1, "the API server accepts such an object"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"namespaces": []}, "operator.namespaces is empty"),
        ({"namespaces": [{"name": "a"}, {"name": "a"}]}, "operator.namespaces has a twice"),
        ({"namespaces": [{"name": "a", "topics": ["x" * 130_000]}]}, "has 13.* bytes as JSON"),
        ({"namespaces": [{"name": "Team"}]}, "operator.namespaces.0.name|does not match pattern"),
    ],
)
def test_values_that_cannot_be_right_are_refused(change, said):
    """With the cure, before anything reaches the cluster."""
    values = copy.deepcopy(VALUES)
    values["operator"] |= change
    with pytest.raises(chart.Refused, match=said):
        chart.rendered_with(values)


def test_the_list_of_namespaces_is_in_the_values_alone():
    """From the configuration the chart could make no Role."""
    values = copy.deepcopy(VALUES)
    values["config"]["operator"] = {"namespaces": [{"name": "team-billing"}]}
    with pytest.raises(chart.Refused, match=r"operator is in the configuration"):
        chart.rendered_with(values)


def test_the_operator_knows_the_authority_of_the_admin_listener():
    """Of the Secrets in files, its pod has that of the authority alone."""
    case = chart.case("single-operator")
    assert environ(chart.rendered(case), NAME)["SKYBRIDGE_OPERATOR__ADMIN__CA"]
    (pod,) = chart.of_kind(chart.rendered(case), "Deployment")
    volumes = [each["name"] for each in pod["spec"]["template"]["spec"]["volumes"]]
    assert "secret-authority" in volumes
    assert "secret-other" not in volumes
    values = yaml.safe_load(case.read_text())
    del values["operator"]["adminCA"]
    with pytest.raises(chart.Refused, match=r"operator.adminCA is empty"):
        chart.rendered_with(values)


def test_the_notes_say_which_secret_pods_wait_for():
    """All pods read it, and not the operator alone."""
    assert "Secret shop-operator, key kubernetes. Pods wait" in chart.notes(VALUES)
    assert "The token of the operator" not in chart.notes({})


def test_the_guide_has_the_way_by_hand():
    """For who applies the definition himself, and for who ends a finalizer."""
    guide = (CHECKOUT / "docs" / "guides" / "deploy.md").read_text()
    assert (
        "kubectl apply --server-side --filename helm/skybridge/files/subscriptions.crd.yaml"
        in guide
    )
