"""The program of the chart's hooks, and the rights that the chart gives, against a real API server."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from api_server import ApiServer

import chart
from app.kubernetes.names import API_VERSION, DRAIN_FINALIZER, KIND

pytestmark = pytest.mark.nightly

SPACE, TENANTS = "shops", ("team-billing", "team-stock")
NAME, HOOK = "bridge-skybridge-operator", "bridge-skybridge-definition"
CRD = "subscriptions.skybridge.example.org"
PROGRAM = SimpleNamespace(**runpy.run_path(str(chart.CHART / "files" / "kubernetes.py")))
ACCOUNTS = f"system:serviceaccount:{SPACE}"
RIGHTS = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}


@pytest.fixture(scope="module")
def cluster(api: ApiServer) -> ApiServer:
    """Return the API server with what Helm installs in it, of rights and workloads."""
    for each in (SPACE, *TENANTS):
        api.add_namespace(each)
    wanted = {*RIGHTS, "Deployment"}
    documents = chart.documents(chart.rendered(chart.case("kafka-operator")))
    for each in documents:
        if each["kind"] in wanted:
            each["metadata"].setdefault("namespace", SPACE)
            api.cluster.apply(each)
    api.add_definition(definition("0.1.0"))
    api.wait_until_may(f"{ACCOUNTS}:{NAME}", "watch", CRD, "-n", TENANTS[1])
    api.wait_until_may(f"{ACCOUNTS}:{HOOK}", "create", "customresourcedefinitions")
    return api


def program(api: ApiServer, account: str, folder: Path) -> Any:
    """Return the program's client with the token of a service account."""
    token = api.cluster.kubectl("-n", SPACE, "create", "token", account)
    (folder / "token").write_text(token.strip())
    (folder / "namespace").write_text(SPACE)
    (folder / "ca.crt").write_bytes(Path(api.authority.path("ca.crt")).read_bytes())
    return PROGRAM.Api(api.url, folder)


def definition(version: str, **more: Any) -> dict[str, Any]:
    """Return the definition as a chart of this version has it."""
    made: dict[str, Any] = yaml.safe_load(chart.DEFINITION.read_text())
    made["metadata"]["annotations"] = {PROGRAM.VERSION: version, **more}
    return made


def annotations(api: ApiServer) -> dict[str, str]:
    (found,) = api.cluster.get("crd", CRD)
    return found["metadata"]["annotations"]


def test_a_definition_is_installed_and_upgraded_and_never_goes_back(cluster, tmp_path, capsys):
    """Several releases of different versions share it."""
    cluster.cluster.kubectl("delete", "crd", CRD, "--ignore-not-found", "--timeout=60s")
    hook = program(cluster, HOOK, tmp_path)
    PROGRAM.define(hook, definition("0.9.0"))
    cluster.cluster.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=60s")
    assert cluster.cluster.kubectl("-n", TENANTS[0], "get", "subscriptions") == ""
    PROGRAM.define(hook, definition("0.10.0", new="true"))
    assert annotations(cluster)["new"] == "true"
    PROGRAM.define(hook, definition("0.9.0"))
    assert annotations(cluster)[PROGRAM.VERSION] == "0.10.0"
    assert "which is newer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sink": {"pull": {}}, "headers": {"x-a": "b"}}, "headers is only for webhooks"),
        ({"sink": {"url": "https://a.example/", "pull": {}}}, "sink has exactly one of"),
        ({"sink": {"url": "https://u:p@a.example/"}}, "user name or password"),
        ({"batch": {"max_events": 10}, "format": "avro"}, "the format avro has no batches"),
        ({"request": {"body": {}}, "request_rate": 5}, "request_rate is only for CloudEvents"),
        ({"request": {"body": {}}, "handshake": "ask"}, "handshake is only for CloudEvents"),
        ({"request": {"body": {}}, "handshake": "off"}, ""),
        ({"headers": {"x-a": "b", "x-b": {"secretRef": {"name": "a", "key": "b"}}}}, ""),
    ],
)
def test_the_api_server_checks_the_rules_between_settings(cluster, change, message):
    """The rules are made from the model, and a real API server reads them (issue 46)."""
    cluster.add_definition(definition("1.0.0"))
    source = {"broker": "main", "topics": ["orders"]}
    metadata = {"name": "checked", "namespace": TENANTS[0]}
    spec = {"source": source, "sink": {"url": "https://a.example/"}, **change}
    found = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
    if message:
        with pytest.raises(RuntimeError, match=message):
            cluster.cluster.apply(found)
    else:
        cluster.cluster.apply(found)
        cluster.cluster.kubectl("-n", TENANTS[0], "delete", CRD, "checked")


def held(api: ApiServer, namespace: str) -> list[list[str]]:
    found = api.cluster.get("subscriptions", "-n", namespace)
    return [each["metadata"].get("finalizers", []) for each in found]


def test_the_end_releases_its_objects_and_leaves_those_of_others(cluster, tmp_path, capsys):
    """Also where a listed namespace is gone (issue 46)."""
    cluster.add_definition(definition("1.0.0"))
    spec = {
        "source": {"broker": "main", "topics": ["orders"]},
        "sink": {"url": "https://a.example/"},
    }
    others = [DRAIN_FINALIZER, "example.com/other"]
    for namespace, name, finalizers, operator in (
        (TENANTS[0], "billing", others, None),
        (TENANTS[1], "foreign", [DRAIN_FINALIZER], "shops/another"),
        (TENANTS[1], "own", [DRAIN_FINALIZER], f"{SPACE}/{NAME}"),
    ):
        metadata = {"name": name, "namespace": namespace, "finalizers": finalizers}
        cluster.cluster.apply(
            {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
        )
        if operator is not None:
            claim = json.dumps({"status": {"operator": operator}})
            words = ("patch", CRD, name, "--subresource=status", "--type=merge", "--patch", claim)
            cluster.cluster.kubectl("-n", namespace, *words)
    hook = program(cluster, NAME, tmp_path)
    assert PROGRAM.end(hook, NAME, NAME, "app=none", [TENANTS[0], "team-gone"])
    assert held(cluster, TENANTS[0]) == [["example.com/other"]]
    assert held(cluster, TENANTS[1]) == [[DRAIN_FINALIZER], []]
    foreign, own = cluster.cluster.get("subscriptions", "-n", TENANTS[1])
    assert foreign["status"]["operator"] == "shops/another"
    assert "operator" not in own["status"]
    (deployment,) = cluster.cluster.get("deployment", NAME, "-n", SPACE)
    assert deployment["spec"]["replicas"] == 0
    assert "2 Subscriptions" in capsys.readouterr().out
    free = '{"metadata": {"finalizers": null}}'
    for namespace, name in ((TENANTS[0], "billing"), (TENANTS[1], "foreign")):
        cluster.cluster.kubectl(
            "-n", namespace, "patch", CRD, name, "--type=merge", "--patch", free
        )


@pytest.mark.parametrize(
    ("words", "may"),
    [
        (("list", "secrets", "-n", TENANTS[0]), True),
        (("watch", CRD, "-n", TENANTS[1]), True),
        (("patch", CRD, "--subresource=status", "-n", TENANTS[1]), True),
        (("create", "events", "-n", TENANTS[0]), True),
        (("update", f"leases/{NAME}", "-n", SPACE), True),
        (("update", CRD, "-n", TENANTS[0]), False),
        (("get", "secrets", "-n", TENANTS[0]), False),
        (("list", "secrets", "-n", SPACE), False),
        (("list", "secrets", "-n", "kube-system"), False),
        (("list", "secrets", "--all-namespaces"), False),
        (("create", "secrets", "-n", TENANTS[0]), False),
        (("delete", CRD, "-n", TENANTS[0]), False),
        (("update", "leases/another", "-n", SPACE), False),
        (("patch", "customresourcedefinitions"), False),
        (("create", "pods", "-n", SPACE), False),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else str(each),
)
def test_the_account_of_the_operator_may_what_it_needs_and_no_more(cluster, words, may):
    """As the API server decides, by the Roles that the chart renders (issue 46)."""
    assert cluster.may(f"{ACCOUNTS}:{NAME}", *words) is may
