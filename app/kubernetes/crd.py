"""The definition of the kind Subscription for Kubernetes, made from the model of the configuration.

``make chart`` writes it into the chart. A subscription of an object has the names of the configuration file. Three
names exist in an object alone: ``sink.service``, ``secretRef`` and ``onDelete``. The id is made of namespace and name.
"""

from __future__ import annotations

from typing import Any

import yaml

from app.kubernetes import rules
from app.kubernetes.names import GROUP, KIND, PLURAL, VERSION
from app.kubernetes.structural import Node, Structural, secret_reference
from app.model.duration import with_bounds
from app.model.subscription import Subscription

_NOT_IN_OBJECTS = (
    "id",
    "tls",
)  # the id is made of names; files of the workers are the installation's
_MOST_TOPICS, _LONGEST_TOPIC, _LONGEST_URL = 256, 249, 2048  # bounds of the cost of rules
_RULES = "x-kubernetes-validations"
_PORT: Node = {"type": "integer", "minimum": 1, "maximum": 65535}
_LABEL: Node = {"type": "string", "maxLength": 63, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"}


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "singular": KIND.lower()},
            "versions": [_version()],
        },
    }  # fmt: skip


def _version() -> Node:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": _columns(),
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "A subscription of Skybridge: which events it selects, and its target.",
                "required": ["spec"],
                _RULES: rules.of_object(),
                "properties": {"spec": spec(), "status": _status()},
            }
        },
    }


def spec() -> Node:
    """Return the schema of ``spec``."""
    model = with_bounds(Subscription.model_json_schema())
    convert = Structural(model["$defs"]).convert
    properties = {
        name: convert(node)
        for name, node in model["properties"].items()
        if name not in (*_NOT_IN_OBJECTS, "sink")
    }
    properties["sink"] = _sink(convert(model["$defs"]["PullSettings"]))
    properties["onDelete"] = {
        "type": "string",
        "enum": ["keep", "drain"],
        "description": "keep: the subscription of a deleted object is paused, and goes on if the object is created again; "
        "drain: the object stays until its events are delivered, or until operator.drain_timeout; then the subscription "
        "is deleted",
    }
    topics = properties["source"]["properties"]["topics"]
    topics |= {"maxItems": _MOST_TOPICS, "x-kubernetes-list-type": "set"}
    topics["items"]["maxLength"] = _LONGEST_TOPIC
    properties["dead_letter"]["properties"]["topic"]["maxLength"] = _LONGEST_TOPIC
    return {
        "type": "object",
        "properties": dict(sorted(properties.items())),
        "required": ["sink", "source"],
        _RULES: rules.of_spec(),
    }


def _sink(pull: Node) -> Node:
    """Return the schema of ``sink``, which is always a mapping in an object."""
    text: Node = {"type": "string", "maxLength": _LONGEST_TOPIC}
    return {
        "type": "object",
        "description": "the target: a Service of the namespace, a URL, a topic, an exchange, or a pull queue",
        "properties": {
            "service": _service(),
            "url": {
                "type": "string",
                "maxLength": _LONGEST_URL,
                "pattern": "^https?://[^/?#]",
                "description": "URL to which events are posted",
            },
            "secretRef": {
                **secret_reference("secretRef"),
                "description": "URL to which events are posted, as a key of a Secret, because it is a secret",
            },
            "broker": {**text, "description": "name of the broker of topic or exchange"},
            "topic": {**text, "minLength": 1, "description": "topic to which events are copied"},
            "exchange": {**text, "description": "exchange of RabbitMQ"},
            "routing_key": {**text, "description": "routing key, or a template with attributes"},
            "pull": {**pull, "description": "a queue from which consumers fetch events"},
        },
        _RULES: rules.of_sink(),
    }


def _service() -> Node:
    return {
        "type": "object",
        "description": "a Service in the namespace of the object",
        "properties": {
            "name": {**_LABEL, "description": "name of the Service"},
            "port": {**_PORT, "description": "port of the Service; by default 80, with tls 443"},
            "path": {
                "type": "string",
                "maxLength": _LONGEST_URL,
                "pattern": "^/[^#]*$",
                "description": "path of the request, by default /",
            },
            "tls": {"type": "boolean", "description": "send by https"},
        },
        "required": ["name"],
    }


def _status() -> Node:
    text: Node = {"type": "string"}
    condition: Node = {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": text,
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": text,
            "message": text,
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64"},
        },
    }
    return {
        "type": "object",
        "properties": {
            "id": {**text, "description": "id of the subscription"},
            "operator": {**text, "description": "operator that has the object: the namespace and the name of its Lease"},
            "state": {**text, "description": "state of the subscription, as the admin API reports it"},
            "lag": {"type": "integer", "format": "int64", "description": "unfinished events"},
            "deadLetters": {"type": "integer", "format": "int64", "description": "dead letters"},
            "observedGeneration": {"type": "integer", "format": "int64"},
            "conditions": {
                "type": "array",
                "items": condition,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        },
    }  # fmt: skip


def _columns() -> list[Node]:
    def of(condition: str, what: str) -> str:
        return f'.status.conditions[?(@.type=="{condition}")].{what}'

    return [
        {"name": "Ready", "type": "string", "jsonPath": of("Ready", "status")},
        {"name": "State", "type": "string", "jsonPath": ".status.state"},
        {"name": "Lag", "type": "integer", "jsonPath": ".status.lag"},
        {"name": "Dead letters", "type": "integer", "jsonPath": ".status.deadLetters"},
        {"name": "Reason", "type": "string", "jsonPath": of("Ready", "reason"), "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def as_yaml() -> str:
    """Return the definition as a YAML document."""
    text: str = yaml.safe_dump(definition(), sort_keys=False, width=110)
    return f"# Written by make chart from the model of the configuration.\n{text}"
