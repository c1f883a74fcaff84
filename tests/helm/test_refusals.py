"""Values that cannot be right are refused before anything reaches a cluster, with the cure."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

import chart

pytestmark = pytest.mark.usefixtures("helm_program")

SPLIT = yaml.safe_load(chart.case("kafka").read_text())
SPOOLING = yaml.safe_load(chart.case("kafka-spool").read_text())
ROUTES, BROKERS = SPOOLING["config"]["routes"], SPOOLING["config"]["brokers"]


def changed(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """``worker__replicas=13`` steps into a mapping, as the names of environment variables do."""
    values = copy.deepcopy(base)
    for name, value in changes.items():
        *steps, last = name.split("__")
        holder = values
        for step in steps:
            holder = holder.setdefault(step, {})
        holder[last] = value
    return values


EMBEDDED = {"main": {"kind": "embedded", "path": "./log"}}
LISTENING = {"log": {"kind": "embedded", "path": "./log", "kafka_listener": "127.0.0.1:9092"}}

REFUSED = [
    (changed(SPLIT, config__server=None), "server.events.access of the configuration is not set"),
    # SQLite and the embedded log have one owner
    (
        changed(SPLIT, config__store={"kind": "sqlite", "path": "./s.db"}),
        "SQLite is for one process",
    ),
    (changed(SPLIT, config__store=None), "SQLite is for one process"),
    (
        changed(SPLIT, config__brokers=EMBEDDED),
        "brokers.main is an embedded log, which has one owner",
    ),
    (
        {"gateway": {"autoscaling": {"enabled": True}}},
        "gateway.autoscaling.enabled: an embedded log",
    ),
    ({"worker": {"keda": {"enabled": True}}}, "worker.keda.enabled: an embedded log"),
    # each gateway has a spool of its own, on its volume
    *(
        (changed(SPOOLING, **more), "brokers.spool keeps spools, and .* use it too")
        for more in (
            {"config__routes": [*ROUTES, {"name": "log", "to": {"broker": "spool", "topic": "t"}}]},
            {
                "config__subscriptions": [
                    {"id": "a", "source": {"broker": "spool", "topics": ["t"]}}
                ]
            },
            {"config__subscriptions": [{"id": "a", "sink": {"broker": "spool", "topic": "t"}}]},
            {"config__operator_events": {"broker": "spool", "topic": "t"}},
            {"config__brokers__spool__kafka_listener": "127.0.0.1:9092"},
        )
    ),
    (
        changed(SPOOLING, config__brokers__spool__path="/tmp/spool"),
        "brokers.spool.path: /tmp/spool is not on the volume",
    ),
    (changed(SPOOLING, persistence={"size": "15G"}), "may take 16106127360 bytes, and .* 15G"),
    (
        changed(SPOOLING, tls={"admin": {"existingSecret": "tls"}}),
        "no certificate is for 127.0.0.1",
    ),
    (
        changed(
            SPOOLING, config__routes=[{**ROUTES[0], "spool": {"broker": "spool", "max": "much"}}]
        ),
        "spool.max of route orders with the volume, and cannot read",
    ),
    # what lies beside the volume is lost with the pod
    (
        {"config": {"store": {"kind": "sqlite", "path": "/tmp/store.db"}, "brokers": EMBEDDED}},
        "store.path: /tmp/store.db is not on the volume",
    ),
    (
        {"config": {"brokers": {"log": {"kind": "embedded", "path": "../elsewhere"}}}},
        "brokers.log.path: ../elsewhere is not on the volume",
    ),
    # a partition has one owner
    (changed(SPLIT, worker__replicas=13), "worker.replicas is 13, and .* at most 12 partitions"),
    (
        changed(SPLIT, worker={"replicas": 5, "partitions": 4}),
        "worker.replicas is 5, .* 4 partitions",
    ),
    (
        changed(SPLIT, worker__keda={"enabled": True, "maxReplicas": 13, "prometheus": "http://p"}),
        "worker.keda.maxReplicas is 13",
    ),
    # scaling that cannot work
    (changed(SPLIT, worker__keda={"enabled": True}), "worker.keda.prometheus is empty"),
    (
        changed(SPLIT, worker__keda={"enabled": True, "minReplicas": 9, "prometheus": "http://p"}),
        "worker.keda.minReplicas is above maxReplicas",
    ),
    (
        changed(SPLIT, gateway__autoscaling={"enabled": True, "minReplicas": 9}),
        "gateway.autoscaling.minReplicas is above",
    ),
    (
        changed(
            SPLIT,
            gateway={"autoscaling": {"enabled": True}, "resources": {"requests": {"cpu": None}}},
        ),
        "requests.cpu, which is not set",
    ),
    (
        changed(SPLIT, gateway__autoscaling={"enabled": True, "initialReplicas": 9}),
        "gateway.autoscaling.initialReplicas is 9, and not between",
    ),
    (
        changed(
            SPLIT, worker__keda={"enabled": True, "initialReplicas": 9, "prometheus": "http://p"}
        ),
        "worker.keda.initialReplicas is 9, and not between",
    ),
    # volumes
    (
        changed(SPLIT, persistence={"existingClaim": "data"}),
        "persistence.existingClaim: it is for the one pod",
    ),
    (
        {"persistence": {"existingClaim": "data", "whenDeleted": "Delete"}},
        "would delete it with the StatefulSet",
    ),
    (
        {"backup": {"enabled": True}, "persistence": {"accessMode": "ReadWriteOncePod"}},
        "no second pod can mount the volume",
    ),
    (changed(SPLIT, backup={"enabled": True}), "backup.enabled: the store of topology split"),
    *(
        ({"extraVolumes": [{"name": name, "emptyDir": {}}]}, f"extraVolumes: {name} is a name that")
        for name in ("config", "data", "secret-kafka", "tls-events")
    ),
    *(
        ({"extraVolumeMounts": [{"name": "x", "mountPath": path}]}, f"{path} would hide files")
        for path in ("/etc/skybridge/", "/tmp", "/var/lib/skybridge")
    ),
    # doors that lead nowhere
    ({"ingress": {"enabled": True}}, "ingress.hosts is empty"),
    ({"httpRoute": {"enabled": True}}, "httpRoute.parentRefs is empty"),
    (
        {"service": {"kafkaListener": {"enabled": True}}, "config": {"brokers": LISTENING}},
        "no broker has a kafka_listener that other pods can reach",
    ),
    (
        {"serviceMonitor": {"enabled": True}, "tls": {"admin": {"existingSecret": "tls"}}},
        "serviceMonitor.tlsConfig is empty",
    ),
    ({"serviceMonitor": {"enabled": True}}, "networkPolicy.adminFrom is empty"),
    # the configuration
    (
        {"config": {"version": 1}, "configFile": "version: 1"},
        "configFile and config are both given",
    ),
    ({"configFile": "a: [b"}, "configFile is no YAML mapping"),
    (
        {"config": {"brokers": EMBEDDED, "server": {"events": {"port": 8081}}}},
        "server.events.port and server.admin.port are both 8081",
    ),
    # what Kubernetes cannot ask or find
    *(
        (
            {"config": {"brokers": EMBEDDED, "server": {"events": {"access": "open"}} | server}},
            message,
        )
        for server, message in (
            ({"events": {"access": "open", "port": "${env:PORT}"}}, "events.port is ..env:PORT"),
            ({"admin": {"port": 0}}, "server.admin.port is 0"),
            (
                {"admin": {"tls": {"cert": "c", "key": "k", "client_ca": "a"}}},
                "tls.client_ca: the probes",
            ),
        )
    ),
    ({"pods": {"labels": {"app.kubernetes.io/component": "x"}}}, "component is the chart's own"),
    (
        {
            "service": {"kafkaListener": {"enabled": True}},
            "config": {
                "server": {"events": {"access": "open"}},
                "brokers": {
                    name: {"kind": "embedded", "path": name, "kafka_listener": f"0.0.0.0:{port}"}
                    for name, port in (("one", 9092), ("two", 9093))
                },
            },
        },
        "at the ports 9092, 9093, and the Service is for one",
    ),
    (
        {"config": {"brokers": EMBEDDED, "timeouts": {"drain": "${env:DRAIN}"}}},
        "cannot read .*Cure: write a duration",
    ),
    (
        {"prometheusRule": {"without": ["SkybridgeDwon"]}},
        "names SkybridgeDwon, which is not an alert",
    ),
    # by values.schema.json
    ({"replicas": 2}, "replicas'? (is )?not allowed"),
    ({"topology": "cluster"}, "topology.*.single., .split."),
    ({"worker": {"replicas": 0}}, "worker[./]replicas"),
    ({"worker": {"keda": {"minReplicas": 0}}}, "worker[./]keda[./]minReplicas"),
    ({"persistence": {"size": "ten"}}, "persistence[./]size"),
    ({"persistence": {"accessMode": "ReadWriteMany"}}, "persistence[./]accessMode"),
    ({"adminToken": {"existingSecret": ""}}, "adminToken[./]existingSecret"),
    ({"adminToken": {"token": "secret"}}, "token'? (is )?not allowed"),
    ({"ingress": {"path": "/"}}, "ingress[./]path"),
    ({"fullnameOverride": "shop.eu"}, "fullnameOverride"),
    ({"fullnameOverride": "1shop"}, "fullnameOverride"),
    ({"nameOverride": "shop.eu"}, "nameOverride"),
    ({"single": {"podManagementPolicy": "Serial"}}, "podManagementPolicy"),
    ({"backup": {"keep": 0}}, "backup[./]keep"),
    ({"extraVolumes": [{"emptyDir": {}}]}, "extraVolumes"),
    ({"podDisruptionBudget": {"maxUnavailable": 0}}, "podDisruptionBudget[./]maxUnavailable"),
]


@pytest.mark.parametrize(("values", "message"), REFUSED, ids=lambda each: str(each)[:40])
def test_what_cannot_be_right_is_refused_with_its_reason(values, message):
    """Issue 9: the chart refuses what cannot be right; the message names the setting."""
    with pytest.raises(chart.Refused, match=f"(?s){message}"):
        chart.rendered_with(values)


def test_every_fault_is_told_at_once():
    """House rule: not one at a time."""
    values = changed(SPLIT, config__brokers=EMBEDDED, config__store=None, ingress={"enabled": True})
    with pytest.raises(chart.Refused) as refused:
        chart.rendered_with(values)
    assert str(refused.value).count("Cure: ") == 3


def test_the_control_is_taken():
    """What all of these change is right by itself."""
    assert chart.rendered_with(SPLIT)
    assert chart.rendered_with(changed(SPOOLING, persistence={"size": "15Gi"}))
