"""The end of an object with ``onDelete: drain``: a finalizer holds it until its subscription has delivered.

An object without ``onDelete: drain`` never has the finalizer. The wait has a limit, so that no namespace hangs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app.interfaces import Clock
from app.kubernetes import paths
from app.kubernetes.client import NOT_FOUND, KubernetesClient, KubernetesRefused
from app.kubernetes.names import DRAIN_FINALIZER, GROUP, PLURAL


class Drain:
    """The finalizers of objects. ``within`` is the most seconds that a deleted object waits. ``operator`` is the name by
    which objects show their operator in ``status.operator``."""

    def __init__(
        self, client: KubernetesClient, clock: Clock, within: float, operator: str = ""
    ) -> None:
        self._client = client
        self._clock = clock
        self._within = within
        self._operator = operator

    async def set_finalizer(self, item: Any, *, has_subscription: bool) -> None:
        """Add the finalizer to an object with ``onDelete: drain`` that has a subscription, and remove it from any other.
        A refused object has nothing to deliver, so nothing must wait for it."""
        has = DRAIN_FINALIZER in item["metadata"].get("finalizers", ())
        if (has_subscription and item["spec"].get("onDelete") == "drain") != has:
            await self._patch(item, add=not has)

    async def remove_finalizer(self, item: Any) -> None:
        """Remove the finalizer of an object. One that is gone already is no error."""
        if DRAIN_FINALIZER in item["metadata"].get("finalizers", ()):
            await self._patch(item, add=False)

    async def release(self, namespace: str, name: str) -> None:
        """Remove the finalizer and the operator from an object whose namespace is not listed any more. One that is
        gone is no error. One that another operator has by now is left to it."""
        path = paths.subscription(namespace, name)
        try:
            item = await self._client.get(path)
            if (item.get("status") or {}).get("operator") not in {None, self._operator}:
                return
            await self.remove_finalizer(item)
            await self._client.patch(f"{path}/status", {"status": {"operator": None}})
        except KubernetesRefused as refused:
            if refused.status != NOT_FOUND:
                raise

    def why_not_yet(self, item: Any, entry: Mapping[str, Any] | None, *, is_new: bool) -> str:
        """Return why the subscription of a deleted object has to stay, or "" if it may go.

        Args:
            item: The object.
            entry: The subscription as the admin API showed it, or None if that is unknown.
            is_new: Whether ``entry`` was read after the deletion.
        """
        health = None if entry is None else entry.get("health")
        if self.is_over(item):
            return ""
        if entry is None or not is_new or health is None or _is_uncounted(health):
            return "It is not known whether all events are delivered"
        is_done = health["lag"] + health["parked"]["rows"] == 0
        # no number, with which the status would be written each second
        return "" if is_done else "Not all events are delivered yet"

    def cure(self, item: Any) -> str:
        """Return how a person ends the wait."""
        named = item["metadata"]
        return (
            f"The wait ends by itself after {self._within:g} s. To end it now: kubectl patch {PLURAL}.{GROUP} "
            f'-n {named["namespace"]} {named["name"]} --type merge -p \'{{"metadata":{{"finalizers":null}}}}\''
        )

    def is_over(self, item: Any) -> bool:
        """Return True if a deleted object has waited as long as it may."""
        return self._waited(item) >= self._within

    def is_abandoned(self, item: Any) -> bool:
        """Return True if the operator of another installation should have released a deleted object long ago."""
        is_deleted = bool(item["metadata"].get("deletionTimestamp"))
        return is_deleted and self._waited(item) >= self._within * 2

    def _waited(self, item: Any) -> float:
        deleted = datetime.fromisoformat(item["metadata"]["deletionTimestamp"]).timestamp()
        return self._clock.now() - deleted

    async def _patch(self, item: Any, *, add: bool) -> None:
        """Write the finalizers of exactly this version of the object. Raise KubernetesRefused with 409 if it has a
        newer one."""
        named = item["metadata"]
        others = [each for each in named.get("finalizers", ()) if each != DRAIN_FINALIZER]
        finalizers = [*others, DRAIN_FINALIZER] if add else others
        change = {
            "metadata": {"finalizers": finalizers, "resourceVersion": named["resourceVersion"]}
        }
        try:
            await self._client.patch(paths.subscription(named["namespace"], named["name"]), change)
        except KubernetesRefused as refused:
            if refused.status != NOT_FOUND:
                raise


def _is_uncounted(health: Mapping[str, Any]) -> bool:
    """Return True if a log or the store did not report how many events are left."""
    return health["lag"] is None or health["parked"] is None
