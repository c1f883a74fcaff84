"""Kafka and PostgreSQL as pods, for a cluster that is not of this machine. They keep no data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import objects
from cluster import Cluster

SPACE = "skybridge-lab-servers"
_DOMAIN = f"{SPACE}.svc.cluster.local"
_IMAGES = {"kafka": "docker.io/apache/kafka:4.3.1", "postgresql": "docker.io/library/postgres:17"}
_USER, _PASSWORD = "sky", "not-to-be-shown"
_ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    "postgresql": {
        "POSTGRES_USER": _USER,
        "POSTGRES_PASSWORD": _PASSWORD,
        "POSTGRES_DB": "postgres",
    },
    "kafka": {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://kafka.{_DOMAIN}:9092",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    },
}


class ClusterServers:
    """The servers of a cluster, in a namespace of their own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def dsn(self) -> str:
        return f"postgresql://{_USER}:{_PASSWORD}@postgresql.{_DOMAIN}:5432/postgres"

    def start(self) -> None:
        """Start both servers, and wait until their pods are ready."""
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        self._cluster.apply(space, *(each for name in _IMAGES for each in _server(name)))
        for name in _IMAGES:
            self._cluster.kubectl(
                "-n", SPACE, "rollout", "status", "deployment", name, "--timeout=300s"
            )

    def create_schema(self, name: str) -> None:
        """Create the schema that serves as the database of a scenario."""
        command = ("psql", "--username", _USER, "postgres", "--command", f"CREATE SCHEMA {name}")
        self._cluster.kubectl("-n", SPACE, "exec", "deployment/postgresql", "--", *command)

    def names(self, space: str) -> list[objects.Object]:
        """Return Services by which a namespace finds both servers."""
        return [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"namespace": space, "name": name},
                "spec": {"type": "ExternalName", "externalName": f"{name}.{_DOMAIN}"},
            }
            for name in _IMAGES
        ]

    def stop(self) -> None:
        self._cluster.kubectl("delete", "namespace", SPACE, "--wait=false")


def _server(name: str) -> list[objects.Object]:
    labels = {"app": name}
    port = objects.PORTS[name]
    environ = [{"name": key, "value": value} for key, value in _ENVIRONMENTS[name].items()]
    container: dict[str, Any] = {
        "name": name,
        "image": _IMAGES[name],
        "env": environ,
        "ports": [{"containerPort": port}],
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 2},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": SPACE, "name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"enableServiceLinks": False, "containers": [container]},
            },
        },
    }
    return [deployment, objects.service(SPACE, name, [{"port": port}], labels)]
