"""The role ``operator``: become the leader, keep subscriptions in step with objects, and report their state."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence

from app.config.model.operator import Operator
from app.errors import SkybridgeError
from app.interfaces import Clock
from app.kubernetes.admin import AdminApi
from app.kubernetes.client import KubernetesClient
from app.kubernetes.drain import Drain
from app.kubernetes.key_queue import Key
from app.kubernetes.known import KnownSubscriptions
from app.kubernetes.lease import Leadership
from app.kubernetes.namespace import Namespace
from app.kubernetes.reconciler import Reconciler
from app.kubernetes.reporter import Reporter
from app.kubernetes.settings import own_namespace
from app.telemetry.tasks import keep, stop_task

_EVERY = 5.0  # seconds between two readings of all subscriptions
_FEW = 20  # objects in work
_AGAIN = 1.0  # seconds until a first reading that failed is tried again
_SOON = 0.3  # seconds until a reading after a change, so that several changes share it

_log = logging.getLogger(__name__)


class OperatorRole:
    """One operator process."""

    def __init__(
        self,
        settings: Operator,
        client: KubernetesClient,
        admin: AdminApi,
        clock: Clock,
        most_bytes: int,
    ) -> None:
        """Take the parts. The spec of an object may have ``most_bytes`` as JSON."""
        self._settings = settings
        self._client = client
        self._admin = admin
        self._clock = clock
        self._most_bytes = most_bytes
        self._identity = (
            f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        )
        lease = settings.lease
        space = lease.namespace or own_namespace()
        self._name = f"{space}/{lease.name}"
        self._leadership = Leadership(
            client,
            clock,
            namespace=space,
            name=lease.name,
            identity=self._identity,
            seconds=lease.seconds,
        )
        self._term: _Term | None = None

    @property
    def leads(self) -> bool:
        """Return True if this process is the leader."""
        return self._leadership.leads.is_set()

    @property
    def causes(self) -> Sequence[str]:
        """Return why the operator is not ready. A process that waits for its turn is ready, if it could become the
        leader."""
        causes = [self._leadership.trouble] if self._leadership.trouble else []
        return causes if self._term is None else [*causes, *self._term.causes]

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the number of objects by the status of their condition ``Ready``."""
        return {} if self._term is None else self._term.reporter.ready_counts()

    async def run(self) -> None:
        """Run until the task is cancelled."""
        election = keep("kubernetes", self._leadership.run, "election")
        try:
            while True:
                await self._leadership.leads.wait()
                await self._lead()
        finally:
            await stop_task(election)
            await self._leadership.release()

    async def _lead(self) -> None:
        """Do the work of the leader until another process is the leader."""
        reporter = Reporter(self._client, self._clock, self._identity, self._name)
        self._term = _Term(
            self._settings,
            self._client,
            self._admin,
            self._clock,
            reporter,
            self._leadership.holds,
            self._name,
            self._most_bytes,
        )
        work = keep("kubernetes", self._term.run, "leader")
        try:
            await self._leadership.follows.wait()
        finally:
            await stop_task(work)
            self._term = None


class _Term:
    """The work of one time as the leader. It begins with what the API server and the admin API have now."""

    def __init__(
        self,
        settings: Operator,
        client: KubernetesClient,
        admin: AdminApi,
        clock: Clock,
        reporter: Reporter,
        holds: Callable[[], bool],
        name: str,
        most_bytes: int,
    ) -> None:
        self._clock = clock
        self._trouble = "the first reading of all subscriptions is not complete"
        self.reporter = reporter
        drain = Drain(client, clock, settings.drain_timeout, name)
        self._namespaces = {
            each.name: Namespace(client, each, self._changed, name, most_bytes)
            for each in settings.namespaces
        }
        self._known = KnownSubscriptions(admin)
        self._reconciler = Reconciler(
            admin, self._known, self._namespaces, reporter, drain, holds, most_bytes
        )

    @property
    def causes(self) -> Sequence[str]:
        """Return why the objects may be out of step."""
        troubles = [each for space in self._namespaces.values() for each in space.troubles]
        return [*([self._trouble] if self._trouble else []), *troubles]

    async def run(self) -> None:
        """Work until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._namespaces.values():
                group.create_task(each.run())
            group.create_task(self._reconciler.run())
            await self._begin()
            self._reconciler.begin()
            group.create_task(self._follow())

    async def _begin(self) -> None:
        """Wait for the first reading of all subscriptions. Until then, only deleted objects are looked at."""
        while True:
            try:
                await self._known.refresh()
            except SkybridgeError as error:
                self._report(error)
                await self._clock.sleep(_AGAIN)
            else:
                self._trouble = ""
                return

    async def _follow(self) -> None:
        """Read the state of all subscriptions again and again, and report it on the objects."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY):
                    await self.reporter.wanted.wait()
                await self._quiet()
            self.reporter.wanted.clear()
            try:
                await self._known.refresh()
                await self._reconciler.pause_orphans()
                await self._reconciler.report_health()
                self._trouble = ""
            except SkybridgeError as error:
                self._report(error)

    def _report(self, error: SkybridgeError) -> None:
        """Log an error of the admin API once, and report it as the cause of readiness."""
        if self._trouble != str(error):
            _log.warning("the subscriptions cannot be read: %s", error)
        self._trouble = str(error)

    async def _quiet(self) -> None:
        """Wait until few objects are in work, because a reading of all subscriptions takes long."""
        begun = self._clock.monotonic()
        await self._clock.sleep(_SOON)
        while self._reconciler.waiting > _FEW and self._clock.monotonic() - begun < _EVERY:
            await self._clock.sleep(_SOON)

    def _changed(self, key: Key) -> None:
        self._reconciler.add(key)
