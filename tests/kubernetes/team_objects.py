"""What a team has in its namespace: Subscriptions, and Secrets that these may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import objects
from place import Space
from release import Values, merged

from app.kubernetes.names import API_VERSION, KIND, PLURAL, SECRET_LABEL, SECRET_USE
from app.store.encryption import new_key
from waiting import wait_until

Spec = Mapping[str, Any]
KINDS = f"{PLURAL}.{API_VERSION.partition('/')[0]}"
_TOKEN = "token-of-the-operator"
_WITHIN = 120.0  # seconds


def declared(space: Space, values: Values, *others: Mapping[str, Any]) -> Values:
    """Return values with the operator, and without subscriptions in the configuration.

    The operator reads the namespace of the release, and the listed ones.
    """
    secrets = objects.secret(space.name, "skybridge-operator", operator=_TOKEN, store=new_key())
    space.site.cluster.apply(secrets)
    key = {"name": "STORE_KEY", "existingSecret": "skybridge-operator", "key": "store"}
    own = {"name": space.name, "topics": [space.name]}
    changes = {
        "secretEnv": [*values.get("secretEnv", []), key],
        "config": {
            "subscriptions": [],
            "store": {"encryption": {"key": "${env:STORE_KEY}"}},
            "webhooks": {"allow_private": ["*.svc"]},
        },
        "operator": {
            "enabled": True,
            "namespaces": [own, *others],
            "token": {"existingSecret": "skybridge-operator"},
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "384Mi"}},
        },
    }  # fmt: skip
    return merged(values, changes)


def secret(space: str, name: str, value: str, *, labelled: bool = True) -> objects.Object:
    """Return a Secret with one key, ``secret``, and with the label that subscriptions need."""
    made = dict(objects.secret(space, name, secret=value))
    labels = {SECRET_LABEL: SECRET_USE} if labelled else {}
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def hook(space: str, broker: str, **more: Any) -> Spec:
    """Return a spec that sends all events of the installation to the pod of the load."""
    return {
        "source": {"broker": broker, "topics": [space]},
        "start": "earliest",
        "sink": {"service": {"name": "load", "port": 9000, "path": "/hook"}},
        **more,
    }


def subscription(space: str, name: str, spec: Spec) -> objects.Object:
    """Return an object of kind Subscription."""
    metadata = {"namespace": space, "name": name}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def condition(found: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return a condition of an object that the operator has seen in its present form, or an empty one."""
    status = found.get("status", {})
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return {}
    return next((each for each in status.get("conditions", []) if each["type"] == kind), {})


def wait_ready(space: Space, name: str, within: float = _WITHIN) -> Mapping[str, Any]:
    """Wait until an object is in force as it is now, and return it."""
    return _wait(space, name, "True", within)


def wait_refused(space: Space, name: str) -> Mapping[str, Any]:
    """Wait until an object is refused as it is now, and return its condition."""
    return condition(_wait(space, name, "False", _WITHIN), "Ready")


def _wait(space: Space, name: str, status: str, within: float) -> Mapping[str, Any]:
    last: list[Mapping[str, Any]] = []

    def reached() -> Any:
        last[:] = space.get(KINDS, name)
        return last[0] if condition(last[0], "Ready").get("status") == status else None

    try:
        return wait_until(reached, name, within, turn=0.1)
    except TimeoutError as error:
        raise TimeoutError(f"{name} did not become Ready={status}: {last}") from error
