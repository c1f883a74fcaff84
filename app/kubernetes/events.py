"""Write Events about objects. An Event that comes again is counted, as Kubernetes does with its own.

Otherwise an endpoint that fails and recovers all the time would fill the store of the API server with Events.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import UTC, datetime
from typing import Any, NamedTuple

from app.interfaces import Clock
from app.kubernetes import paths
from app.kubernetes.client import NOT_FOUND, KubernetesClient, KubernetesRefused
from app.kubernetes.key_queue import Key
from app.kubernetes.names import API_VERSION, KIND

_EVERY = 60.0  # seconds between two writes of an Event that comes again
_LONGEST = 1024  # characters of a message, which is what Kubernetes allows

_log = logging.getLogger(__name__)


class _Series(NamedTuple):
    """An Event that this process has written: its name, how often it came, and the monotonic time of its last write."""

    name: str
    times: int
    written: float


class EventWriter:
    """The Events of one process. ``identity`` is the name of the process."""

    def __init__(self, client: KubernetesClient, clock: Clock, identity: str) -> None:
        self._client = client
        self._clock = clock
        self._identity = identity
        self._series: dict[Key, dict[tuple[str, str], _Series]] = {}  # by uid and reason

    def forget(self, key: Key) -> None:
        """Drop the Events of an object that is gone."""
        self._series.pop(key, None)

    async def write(self, item: Any, reason: str, message: str) -> None:
        """Write an Event, or count it if it comes again. One that the API server refuses is logged."""
        named, now = item["metadata"], self._clock.monotonic()
        of_object = self._series.setdefault((named["namespace"], named["name"]), {})
        known = of_object.get((named["uid"], reason))
        count = 1 if known is None else known.times + 1
        if known is not None and now - known.written < _EVERY:
            of_object[named["uid"], reason] = known._replace(times=count)  # for the next write
            return
        try:
            name = known and await self._repeat(named["namespace"], known.name, message, count)
            name = name or await self._create(item, reason, message)
        except KubernetesRefused as refused:
            _log.warning("the Event %s cannot be written: %s", reason, refused)
            return
        of_object[named["uid"], reason] = _Series(name, count, now)

    async def _repeat(self, namespace: str, name: str, message: str, count: int) -> str:
        """Count an Event. Return its name, or "" if Kubernetes has deleted it, as it does after an hour."""
        change = {"count": count, "lastTimestamp": self._now(), "message": message[:_LONGEST]}
        try:
            await self._client.patch(f"{paths.core(namespace, 'events')}/{name}", change)
        except KubernetesRefused as refused:
            if refused.status != NOT_FOUND:
                raise
            return ""
        return name

    async def _create(self, item: Any, reason: str, message: str) -> str:
        """Create an Event, and return its name."""
        named, at = item["metadata"], self._now()
        unique = hashlib.sha256(f"{named['uid']}{reason}{at}{self._identity}".encode()).hexdigest()
        name = f"{named['name']}.{unique[:16]}"
        reference = {each: named[each] for each in ("name", "namespace", "uid", "resourceVersion")}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": named["namespace"]},
            "involvedObject": {"apiVersion": API_VERSION, "kind": KIND, **reference},
            "reason": reason,
            "message": message[:_LONGEST],
            "type": "Normal" if reason == "Resumed" else "Warning",
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "source": {"component": "skybridge-operator"},
            "reportingComponent": "skybridge-operator",
            "reportingInstance": self._identity,
        }
        await self._client.create(paths.core(named["namespace"], "events"), event)
        return name

    def _now(self) -> str:
        return rfc3339(self._clock.now())


def rfc3339(seconds: float) -> str:
    """Return a time as Kubernetes writes it. ``seconds`` are those since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
