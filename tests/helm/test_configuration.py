"""The one YAML file goes through the chart unchanged, and the service reads it in the pod it was made for."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import trustme
import yaml

import chart
from app.config.lint.checks import lint
from app.config.load.document import parse
from app.config.load.loader import load
from app.config.model.config import Timeouts
from app.config.model.schema import schema
from app.features.component import RELEASE
from app.kubernetes.settings import read_settings
from app.model.duration import seconds

pytestmark = pytest.mark.usefixtures("helm_program")

SECRETS = {"DSN": "postgresql://shop:secret@db/shop", "API_KEY": "the-key-of-the-till-and-spark"}
OPEN = "server: {events: {access: open}}\n"
PLACES = ("/var/lib/skybridge", "/etc/skybridge-secrets", "/etc/skybridge-tls")


def configured(text: str) -> str:
    maps = chart.of_kind(text, "ConfigMap")
    return next(each["data"]["skybridge.yaml"] for each in maps if "skybridge.yaml" in each["data"])


def every_key() -> dict[str, Any]:
    """A document that has each setting of the model once, with a value that YAML could spoil."""
    awkward = iter(
        ["yes", "0440", "1e3", "12:30", "${env:X}", "null", " a ", "#", "{{ .Values }}"] * 100
    )
    definitions = schema()["$defs"]

    def value(of: dict[str, Any], above: tuple[str, ...]) -> Any:
        if "$ref" in of:
            name = of["$ref"].rpartition("/")[2]
            return None if name in above else value(definitions[name], (*above, name))
        for choices in ("oneOf", "anyOf"):
            if choices in of:
                return [value(each, above) for each in of[choices]]
        if "properties" in of:
            return {name: value(each, above) for name, each in of["properties"].items()}
        if of.get("format") == "password":
            return "${env:X}"  # the chart takes no other
        if of.get("type") == "array":
            return [value(of["items"], above)] if "items" in of else []
        if of.get("type") == "object":
            return {"any-name.1": value(of.get("additionalProperties") or {}, above)}
        return {"integer": 16_777_217, "number": 0.1, "boolean": False}.get(
            of.get("type"), next(awkward)
        )

    document = value(schema(), ())
    return {
        **document,
        "server": {"events": {"access": "open"}},
        "timeouts": {},
        "brokers": {},
        "routes": [],
        "store": {"kind": "sqlite"},
        "all": document,
    }


def test_every_setting_of_the_configuration_passes_as_it_was_written():
    """No number becomes a float, no text a number, nothing is read as a template."""
    document = every_key()
    text = configured(chart.rendered_with({"config": document}))
    assert parse(text.encode()).root == document
    assert "16777217" in text
    assert "e+07" not in text


def test_the_text_of_a_file_passes_to_the_letter():
    """--set-file configFile=...: comments and all."""
    text = f"# ours\nversion: 1\n{OPEN}brokers: {{log: {{kind: embedded, path: ./log}}}} # kept\n"
    assert configured(chart.rendered_with({"configFile": text})).strip() == text.strip()


@pytest.mark.parametrize("case", chart.CASES, ids=lambda case: case.stem)
def test_the_service_takes_what_a_pod_gives_it(case, tmp_path):
    """Each process that the chart starts loads its configuration from the environment of its pod, without an
    error of ``skybridge check``; both listeners can be reached, and the admin listener has its token."""
    rendered = chart.rendered(case)
    for workload in ("StatefulSet", "Deployment"):
        for document in chart.of_kind(rendered, workload):
            pod = document["spec"]["template"]["spec"]["containers"][0]
            if pod["name"] != "skybridge":
                continue
            file, environ = _in(tmp_path, configured(rendered)), _environ(pod, tmp_path)
            if pod["args"][0] == "operator":  # it reads no Secrets of brokers and store
                server = read_settings(file, environ)[0].server
            else:
                loaded = load(file, environ)
                assert [str(each) for each in lint(loaded) if each.level == "error"] == []
                server = loaded.config.server
            assert server.events.host == server.admin.host in {"0.0.0.0", "::"}
            assert server.admin.token.get_secret_value() == "secret-of-the-token"
            ports = {port["name"]: port["containerPort"] for port in pod["ports"]}
            assert ports["admin"] == server.admin.port
            assert ports.get("events", server.events.port) == server.events.port


@functools.cache
def _pems() -> dict[str, bytes]:
    """What a mounted file holds, by the end of its name: one pair of one authority."""
    authority = trustme.CA()
    issued = authority.issue_cert("bridge.example")
    return {
        "ca.crt": authority.cert_pem.bytes(),
        ".crt": b"".join(each.bytes() for each in issued.cert_chain_pems),
        ".key": issued.private_key_pem.bytes(),
    }


def _mounted(name: str) -> bytes:
    pem = next((text for end, text in _pems().items() if name.endswith(end)), None)
    return pem or ("whsec_" + "c2VjcmV0" * 6 if "billing" in name else "secret").encode()


def _in(folder, text: str):
    """Paths of the pod stand for folders of the test, with a certificate or secret where one is named."""
    for place in PLACES:
        text = text.replace(place, f"{folder}{place}")
    for file in ("kafka/password", "kafka/ca.crt", "billing/secret", "rabbit/password"):
        kept = folder / "etc/skybridge-secrets" / file
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(_mounted(file))
    path = folder / "skybridge.yaml"
    path.write_text(text)
    return path


def _environ(pod: dict[str, Any], folder) -> dict[str, str]:
    found = {}
    for each in pod["env"]:
        if "value" in each:
            value = each["value"]
        elif "secretKeyRef" in each["valueFrom"]:
            key = each["valueFrom"]["secretKeyRef"]["key"]
            value = SECRETS.get(
                each["name"], f"secret-of-the-{'token' if key == 'bearer' else key}"
            )
        else:
            value = "bridge-skybridge-worker-0"
        if value.startswith("/etc/skybridge-tls"):
            value = f"{folder}{value}"
            (folder / value).parent.mkdir(parents=True, exist_ok=True)
            (folder / value).write_bytes(_mounted(value))
        found[each["name"]] = value
    return {"HOSTNAME": "bridge-0", **found}


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("kafka-monitored", ["prometheus"]),
        ("single-everything", ["dashboard", "prometheus"]),
        ("kafka", []),
    ],
)
def test_prometheus_has_a_token_that_reads_metrics_alone(case, names, tmp_path):
    """Beside the tokens of the configuration; the admin token, which may do everything, stays with operators."""
    rendered = chart.rendered(chart.case(case))
    kind = "StatefulSet" if case.startswith("single") else "Deployment"
    pod = chart.of_kind(rendered, kind)[0]["spec"]["template"]["spec"]["containers"][0]
    admin = load(_in(tmp_path, configured(rendered)), _environ(pod, tmp_path)).config.server.admin
    assert [each.name for each in admin.tokens] == names
    if not names:
        return
    assert admin.tokens[-1].scopes == ("metrics",)
    (monitor,) = chart.of_kind(rendered, "ServiceMonitor")
    sent = monitor["spec"]["endpoints"][0]["authorization"]["credentials"]
    by_name = {each["name"]: each for each in pod["env"]}
    number = len(names) - 1
    token = by_name[f"SKYBRIDGE_SERVER__ADMIN__TOKENS__{number}__TOKEN"]
    assert token["valueFrom"]["secretKeyRef"] == sent
    assert by_name["SKYBRIDGE_ADMIN_TOKEN"]["valueFrom"]["secretKeyRef"] != sent


def test_workers_of_a_stateful_set_are_static_members_of_their_groups(tmp_path):
    """Their names stay over a restart, so their partitions do; who has a name of its own keeps it."""
    rendered = chart.rendered(chart.case("pulsar-and-kafka"))
    worker = chart.of_kind(rendered, "StatefulSet")[0]["spec"]["template"]["spec"]["containers"][0]
    brokers = load(_in(tmp_path, configured(rendered)), _environ(worker, tmp_path)).config.brokers
    assert brokers["kafka.eu-1"].instance_id == "bridge-skybridge-worker-0"
    assert brokers["named"].instance_id == "bridge-0"


@pytest.mark.parametrize(
    ("timeouts", "pre_stop"),
    [
        ({}, 5),
        ({"drain": "1m30s"}, 0),
        ({"drain": 90.5, "not_ready": "2500ms"}, 10),
        ({"not_ready": 0}, 5),
    ],
    ids=str,
)
def test_a_pod_has_the_time_that_its_service_takes_to_leave(timeouts, pre_stop):
    """G6: exit within the grace time. The service bounds itself: not ready, then three steps of drain and
    release (runtime/processes); preStop comes before, the node's own dealings after it."""
    brokers = {"log": {"kind": "embedded", "path": "./log"}}
    server = {"events": {"access": "open"}}
    config = {"server": server, "brokers": brokers, "timeouts": timeouts}
    rendered = chart.rendered_with({"config": config, "preStopSeconds": pre_stop})
    spec = chart.of_kind(rendered, "StatefulSet")[0]["spec"]["template"]["spec"]
    wanted = {**Timeouts().model_dump(), **{name: seconds(each) for name, each in timeouts.items()}}
    takes = pre_stop + wanted["not_ready"] + 3 * (wanted["drain"] + RELEASE)
    assert takes < spec["terminationGracePeriodSeconds"] <= math.ceil(takes) + 10


def test_a_change_of_the_configuration_replaces_pods_unless_they_watch_it():
    """restartOnConfigChange."""
    one = {"configFile": f"version: 1\n{OPEN}brokers: {{log: {{kind: embedded, path: ./log}}}}\n"}
    other = {"configFile": one["configFile"] + "installation: other\n"}

    def template(values: Any) -> Any:
        return chart.of_kind(chart.rendered_with(values), "StatefulSet")[0]["spec"]["template"]

    assert template(one) != template(other)
    still = {"restartOnConfigChange": False}
    assert template({**one, **still}) == template({**other, **still})


def test_the_configuration_that_runs_without_any_has_no_fault(tmp_path):
    """files/skybridge.yaml."""
    text = (chart.CHART / "files/skybridge.yaml").read_text()
    assert yaml.safe_load(text)["brokers"]["log"]["path"].startswith("/var/lib/skybridge/")
    loaded = load(_in(tmp_path, text), {})
    assert [str(each) for each in lint(loaded) if each.level == "error"] == []
