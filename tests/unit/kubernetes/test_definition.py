"""The kind Subscription is made from the model, and has the form that Kubernetes demands."""

import re

import yaml

import chart
from app.kubernetes import crd
from app.model.subscription import Subscription

_COMBINED = {"anyOf", "oneOf", "allOf", "$ref"}


def nodes(node, path=()):
    yield path, node
    for name, inner in node.get("properties", {}).items():
        yield from nodes(inner, (*path, name))
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            yield from nodes(node[name], (*path, name))


def test_the_chart_has_the_definition_of_the_model():
    assert chart.DEFINITION.read_text() == crd.as_yaml(), "make chart"


def test_every_node_is_structural():
    """MUST of Kubernetes: a node has a type, or is open, or is a number or text."""
    for path, node in nodes(crd.spec()):
        open_ = node.get("x-kubernetes-preserve-unknown-fields") or node.get(
            "x-kubernetes-int-or-string"
        )
        assert node.get("type") or open_, path
        assert not {*_COMBINED, "default"} & {*node}, path


def test_it_has_the_settings_of_the_model_and_no_secret():
    spec = crd.spec()
    assert {*spec["properties"]} == {*Subscription.model_fields} - {"id", "tls"} | {"onDelete"}
    for path, node in nodes(spec):
        assert node.get("format") != "password", path
        assert not {"secret", "token", "password", "client_secret"} & {
            *node.get("properties", ())
        }, path


def test_each_rule_names_settings_that_exist():
    for path, node in nodes(crd.spec()):
        for rule in node.get("x-kubernetes-validations", ()):
            for dotted in re.findall(r"self\.([\w.]+)", rule["rule"]):
                here = node
                for step in dotted.split("."):
                    if "properties" not in here:
                        break  # a method of the value
                    assert step in here["properties"], (path, dotted)
                    here = here["properties"][step]


def test_what_kubectl_shows():
    version = yaml.safe_load(crd.as_yaml())["spec"]["versions"][0]
    assert [each["name"] for each in version["additionalPrinterColumns"]] == [
        "Ready", "State", "Lag", "Dead letters", "Reason", "Age",
    ]  # fmt: skip
