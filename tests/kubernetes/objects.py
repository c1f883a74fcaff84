"""The objects that a scenario needs beside the chart: a namespace, the pod of the load, volumes,
and Services that lead to Kafka and PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import verifier

Object = Mapping[str, Any]

RESTRICTED = {
    "runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip
CONTAINED = {
    "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}  # fmt: skip
CLASS = "skybridge-laboratory"
PORTS = {"kafka": 9092, "postgresql": 5432}


def namespace(name: str) -> Object:
    """Return a namespace in which the API server demands the standard ``restricted``."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def secret(space: str, name: str, **values: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _named(space, name),
        "stringData": values,
    }


def load(space: str, image: str, policy: str) -> list[Object]:
    """Return the pod of the load, its programs, and the Service by which deliveries reach it."""
    programs = {
        each.name: each.read_text()
        for each in (Path(__file__).with_name("pod_load.py"), Path(verifier.__file__))
    }
    container = {
        "name": "load",
        "image": image,
        "imagePullPolicy": policy,
        "command": ["python", "/programs/pod_load.py"],
        "readinessProbe": {"tcpSocket": {"port": 9001}, "periodSeconds": 1},
        "securityContext": CONTAINED,
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "programs", "mountPath": "/programs"}],
    }
    spec = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": RESTRICTED,
        "containers": [container],
        "volumes": [{"name": "programs", "configMap": {"name": "load"}}],
    }
    labels = {"app": "load"}
    ports = [{"name": "hook", "port": 9000}, {"name": "control", "port": 9001}]
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named(space, "load"), "data": programs},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**_named(space, "load"), "labels": labels}, "spec": spec},
        service(space, "load", ports, labels),
    ]  # fmt: skip


def service(space: str, name: str, ports: list[Object], selector: Object | None = None) -> Object:
    spec = {"ports": ports, **({"selector": selector} if selector else {})}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _named(space, name), "spec": spec}


def beside(space: str, name: str, address: str, port: int, target: int = 0) -> list[Object]:
    """Return a Service, and its endpoint that is no pod: a server beside the cluster."""
    labels = {"kubernetes.io/service-name": name}
    endpoint = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**_named(space, f"{name}-1"), "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": target or port}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
    return [service(space, name, [{"port": port, "targetPort": target or port}]), endpoint]


def storage_class() -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip


def volume(name: str, node: str, path: Path) -> Object:
    """Return a volume in a folder of a node, which stays on that node."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "100Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": CLASS,
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def _named(space: str, name: str) -> Object:
    return {"namespace": space, "name": name}
