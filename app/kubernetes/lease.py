"""The leader among several operator processes, by a Lease of Kubernetes.

Only the resource version of the Lease decides, and the clock of this process: the times of another machine are never
compared with it.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

from app.errors import SkybridgeError
from app.interfaces import Clock
from app.kubernetes import paths
from app.kubernetes.client import CONFLICT, NOT_FOUND, KubernetesClient, KubernetesRefused

_RENEWALS = 5  # in the time after which another process takes the place

_log = logging.getLogger(__name__)


class Leadership:
    """The attempt of one process to be the leader.

    Attributes:
        leads: Set while this process is the leader.
        follows: Set while it is not.
        trouble: Why the Lease can neither be read nor written, or "".
    """

    def __init__(
        self,
        client: KubernetesClient,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        identity: str,
        seconds: float,
    ) -> None:
        self.leads = asyncio.Event()
        self.follows = asyncio.Event()
        self.follows.set()
        self.trouble = ""
        self._client = client
        self._clock = clock
        self._list = paths.leases(namespace)
        self._name = name
        self._identity = identity
        self._seconds = seconds
        self._seen: tuple[str, float] = (
            "",
            0.0,
        )  # version of the Lease, and when it was first seen
        self._renewed = 0.0

    async def run(self) -> None:
        """Become the leader when the place is free, and renew the Lease, until the task is cancelled."""
        while True:
            await self.turn()
            await self._clock.sleep(self._seconds / _RENEWALS)

    async def turn(self) -> bool:
        """Renew the Lease or take it, once. Return True if this process is the leader."""
        begun = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._seconds / 2):
                won = await self._try()
            self._renewed = begun if won else self._renewed
            self._change(leads=won)
            self.trouble = ""
        except (SkybridgeError, TimeoutError) as error:
            self._report(f"the Lease {self._name} cannot be renewed: {error or 'no answer'}")
        if not self.holds():
            self._change(leads=False)
        return self.leads.is_set()

    def holds(self) -> bool:
        """Return True if no other process can be the leader now."""
        since = self._clock.monotonic() - self._renewed
        return self.leads.is_set() and since < self._seconds * 2 / 3

    async def release(self) -> None:
        """Free the place, so that another process need not wait."""
        if not self.leads.is_set():
            return
        self._change(leads=False)
        try:
            lease = await self._client.get(f"{self._list}/{self._name}")
            if lease["spec"].get("holderIdentity") == self._identity:
                await self._write(lease, "")
        except SkybridgeError as error:
            _log.warning("the Lease %s could not be released: %s", self._name, error)

    async def _try(self) -> bool:
        """Return True if this process is the leader now."""
        try:
            lease = await self._client.get(f"{self._list}/{self._name}")
        except KubernetesRefused as refused:
            if refused.status != NOT_FOUND:
                raise
            return await self._take(None)
        holder = lease["spec"].get("holderIdentity") or ""
        if holder in {"", self._identity} or self._expired(lease):
            return await self._take(lease)
        return False

    def _expired(self, lease: Any) -> bool:
        """Return True if the Lease was not renewed for its time, as this process has observed."""
        version, now = lease["metadata"]["resourceVersion"], self._clock.monotonic()
        if version != self._seen[0]:
            self._seen = version, now
        lasts = float(lease["spec"].get("leaseDurationSeconds") or self._seconds)
        return now - self._seen[1] >= lasts

    async def _take(self, lease: Any) -> bool:
        """Write this process into the Lease. Return False if another process was faster."""
        try:
            await self._write(lease, self._identity)
        except KubernetesRefused as refused:
            if refused.status != CONFLICT:
                raise
            return False
        return True

    async def _write(self, lease: Any, holder: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": int(self._seconds),
            "renewTime": now,
        }
        if lease is None:
            named = {"name": self._name}
            kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            await self._client.create(self._list, {**kind, "metadata": named, "spec": spec})
            return
        changed = {**lease, "spec": {**lease["spec"], **spec}}
        await self._client.replace(f"{self._list}/{self._name}", changed)

    def _report(self, trouble: str) -> None:
        """Log a trouble once. Readiness names it, because no other process may be the leader either."""
        if trouble != self.trouble:
            _log.warning("%s", trouble)
        self.trouble = trouble

    def _change(self, *, leads: bool) -> None:
        if leads == self.leads.is_set():
            return
        _log.info("this process is %s the leader", "now" if leads else "no longer")
        (self.leads.set if leads else self.leads.clear)()
        (self.follows.clear if leads else self.follows.set)()
