"""The names that Kubernetes knows Skybridge by: group, kind, labels, finalizer."""

from __future__ import annotations

GROUP = "skybridge.example.org"  # until the project owns a domain
VERSION = "v1alpha1"
KIND = "Subscription"
PLURAL = "subscriptions"
API_VERSION = f"{GROUP}/{VERSION}"

SECRET_LABEL, SECRET_USE = f"{GROUP}/use", "subscription"
"""The label of a Secret that subscriptions of its namespace may use, and the value of the label."""
DRAIN_FINALIZER = f"{GROUP}/drain"
"""The finalizer of an object with ``onDelete: drain``: it is deleted after its subscription has delivered."""
OWNER = "kubernetes"
"""The owner of a subscription that an object declares, as the admin API shows it."""


def subscription_id(namespace: str, name: str) -> str:
    """Return the id of the subscription of an object. Two objects never share an id, because the name of a
    namespace has no dot."""
    return f"{namespace}.{name}"
