"""The values of the chart with which the scenarios run, by topology."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from release import merged

Values = dict[str, Any]

SECRET, NEXT_SECRET = (f"whsec_{each * 8}" for each in ("bGFi", "bmV3"))
SMALL = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "384Mi"}}


WEBHOOKS = {"allow_private": ["*.svc.cluster.local"]}


def hook(space: str) -> str:
    """Return the address of the load, as the target of a subscription."""
    return f"http://load.{space}.svc.cluster.local:9000/hook"


def _config(space: str, brokers: Mapping[str, Any], store: Mapping[str, Any], log: str) -> Values:
    source = {"broker": log, "topics": [space]}  # every installation has a topic of its own
    return {
        "version": 1,
        "installation": space,
        "server": {"events": {"access": "open"}},
        "store": dict(store),
        "brokers": dict(brokers),
        "routes": [{"name": "everything", "to": {"broker": log, "topic": space}}],
        "subscriptions": [
            {"id": "hook", "source": source, "start": "earliest", "sink": hook(space)}
        ],
        "webhooks": WEBHOOKS,
    }


def single(space: str, image: str, pull: str) -> Values:
    """Return values for one pod with an embedded log and a SQLite store."""
    log = {"log": {"kind": "embedded", "path": "/var/lib/skybridge/log"}}
    store = {"kind": "sqlite", "path": "/var/lib/skybridge/store.db"}
    return {
        "image": image_values(image, pull),
        "config": _config(space, log, store, "log"),
        "single": {"resources": SMALL},
    }


def split(space: str, image: str, pull: str) -> Values:
    """Return values for two gateways and two workers on Kafka and PostgreSQL."""
    topics = {"create": True, "partitions": 8, "replication": 1}
    kafka = {"main": {"kind": "kafka", "bootstrap_servers": "kafka:9092", "topics": topics}}
    store = {"kind": "postgresql", "dsn": "${env:DSN}"}
    return {
        "topology": "split",
        "image": image_values(image, pull),
        "config": _config(space, kafka, store, "main"),
        "secretEnv": [{"name": "DSN", "existingSecret": "shop-postgresql", "key": "dsn"}],
        "gateway": {"replicas": 2, "resources": SMALL},
        "worker": {"replicas": 2, "resources": SMALL},
    }


def spool(space: str, image: str, pull: str) -> Values:
    """Return the values of ``split`` with a spool, for which each gateway has a volume."""
    values = split(space, image, pull)
    config = values["config"]
    brokers = {
        **config["brokers"],
        "spool": {"kind": "embedded", "path": "/var/lib/skybridge/spool"},
    }
    (route,) = config["routes"]
    routes = [{**route, "spool": {"broker": "spool", "when": "outage", "max": "1GiB"}}]
    changes = {"config": {"brokers": brokers, "routes": routes}, "persistence": {"size": "2Gi"}}
    return merged(values, changes)


def signed(values: Values, secret_file: str) -> Values:
    """Return values whose deliveries are signed with a secret from a file."""
    (subscription,) = values["config"]["subscriptions"]
    own = {**subscription, "signing": {"secret": f"${{file:{secret_file}}}"}}
    files = [{"name": "hook", "existingSecret": "shop-hook"}]
    return merged(values, {"config": {"subscriptions": [own]}, "secretFiles": files})


def image_values(image: str, pull: str) -> Values:
    repository, _, tag = image.rpartition(":")
    return {"repository": repository, "tag": tag, "pullPolicy": pull}
