"""The examples of the chart: each renders, Kubernetes takes it, and the service accepts its configuration."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import trustme
import yaml

import chart
from app.config.load.loader import load
from forked import completed
from pages import CHECKOUT

pytestmark = pytest.mark.usefixtures("helm_program")

EXAMPLES = sorted((chart.CHART / "examples").glob("*.yaml"))
GUIDE = CHECKOUT / "docs" / "guides" / "deploy.md"
DEFINED = {
    "ServiceMonitor",
    "PrometheusRule",
}  # tests/helm/test_renderings.py has their definitions
PLACES = ("/var/lib/skybridge", "/etc/skybridge-secrets", "/etc/corp")

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.stem)


def test_there_is_an_example_for_each_way_to_run_it():
    """Issue 42."""
    assert [each.stem for each in EXAMPLES] == [
        "air-gapped",
        "one-pod",
        "several-installations",
        "split-kafka-postgresql",
        "strimzi",
    ]
    guide = GUIDE.read_text()
    assert [each.name for each in EXAMPLES if f"examples/{each.name}" not in guide] == []


@every_example
def test_kubernetes_takes_an_example(example):
    for document in chart.documents(chart.render(example)):
        if document["kind"] not in DEFINED:
            kubernetes_validate.validate(document, "1.37", strict=True)


@every_example
def test_the_linter_accepts_an_example(example):
    words = ("lint", "--strict", "--quiet", str(chart.CHART), "--values", str(example))
    assert chart.helm(*words) == ""


@every_example
def test_the_configuration_of_an_example_passes_the_check_of_its_hook(example, tmp_path):
    """With the variables and arguments of the hook's pod, and a folder of the test for each of its volumes."""
    text = chart.render(example)
    (job,) = (
        each for each in chart.of_kind(text, "Job") if each["metadata"]["name"].endswith("-check")
    )
    check = next(
        each for each in job["spec"]["template"]["spec"]["containers"] if each["name"] == "check"
    )
    config = next(
        each["data"]["skybridge.yaml"]
        for each in chart.of_kind(text, "ConfigMap")
        if "skybridge.yaml" in each["data"]
    )
    for place in PLACES:
        config = config.replace(place, f"{tmp_path}{place}")
    _write_named_files(config)
    file = tmp_path / "skybridge.yaml"
    file.write_text(config)
    words = [str(file) if each.startswith("/etc/skybridge/") else each for each in check["args"]]
    done = completed(*words, cwd=tmp_path, env={**os.environ, **_environ(check)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert load(file, _environ(check)).config.installation
    assert "0 errors" in done.stderr


def _environ(container: dict[str, Any]) -> dict[str, str]:
    found = {
        each["name"]: each.get("value", f"token-of-{each['name']}") for each in container["env"]
    }
    return {
        name: text
        for name, text in found.items()
        if not name.startswith("SKYBRIDGE_SERVER__EVENTS__TLS")
    }


def _write_named_files(config: str) -> None:
    """Write what the Secrets and ConfigMaps of the example hold: an authority, a DSN, or a key."""
    authority = trustme.CA().cert_pem.bytes()
    for path in re.findall(r"/\S+?/etc/[\w./-]+\w", config):
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        dsn, key = b"postgresql://user:secret@db/shop", b"key-of-an-example-0123456789abcdef"
        file.write_bytes(authority if file.suffix == ".crt" else dsn if file.name == "dsn" else key)


@every_example
def test_every_secret_that_an_example_needs_is_made_by_its_first_lines(example):
    """Or by the product that the lines name. A pod waits for a Secret that is missing."""
    head = "".join(re.findall(r"(?m)^#.*\n", example.read_text()))
    made = set(re.findall(r"create (?:secret \S+|configmap) (\S+)", head))
    text = chart.render(example)
    wanted = set(re.findall(r"secretName: \"?([\w-]+)", text))
    wanted |= set(re.findall(r"secretKeyRef: {name: \"([\w-]+)\"", text))
    by_strimzi = {"skybridge", "events-cluster-ca-cert"} if example.stem == "strimzi" else set()
    assert wanted - made - by_strimzi == set()


@every_example
def test_the_commands_of_an_example_are_a_script(example):
    """As bash reads it."""
    lines = re.findall(r"(?m)^#   (.*)$", example.read_text())
    script = "\n".join(each for each in lines if not re.match(r"[A-Z][a-z ]|`", each))
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_installations_of_several_tenants_share_nothing_by_name():
    """With the options of the example's command."""
    example = chart.CHART / "examples" / "several-installations.yaml"
    command = re.search(r"(?s)helm install bridge.*?done", example.read_text())[0]
    options = re.findall(r'--set (\S+?)="([^"]+)"', command)
    configs = []
    for tenant in ("shop", "books"):
        words = [
            each
            for name, text in options
            for each in ("--set", f"{name}={text.replace('$tenant', tenant)}")
        ]
        text = chart.rendered_with(yaml.safe_load(example.read_text()), *words)
        (made,) = (
            yaml.safe_load(each["data"]["skybridge.yaml"])
            for each in chart.of_kind(text, "ConfigMap")
            if "skybridge.yaml" in each["data"] and "annotations" not in each["metadata"]
        )
        configs.append(made)
    first, second = configs
    for path in ("installation", "routes", "subscriptions"):
        assert first[path] != second[path]
    assert first["routes"][0]["to"]["topic"] in first["subscriptions"][0]["source"]["topics"]
