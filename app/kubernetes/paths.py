"""Paths of the API server."""

from __future__ import annotations

from app.kubernetes.names import GROUP, PLURAL, VERSION


def subscriptions(namespace: str) -> str:
    """Return the path of the Subscriptions of a namespace."""
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"


def subscription(namespace: str, name: str, part: str = "") -> str:
    """Return the path of one Subscription, or of a part such as ``/status``."""
    return f"{subscriptions(namespace)}/{name}{part}"


def core(namespace: str, plural: str) -> str:
    """Return the path of the Secrets, Services or Events of a namespace."""
    return f"/api/v1/namespaces/{namespace}/{plural}"


def leases(namespace: str) -> str:
    """Return the path of the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
