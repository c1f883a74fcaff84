"""Provide what needs a person in a running service, for readiness and for alerts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from app.api.http.given import ServiceParts
from app.api.status.answers import Status
from app.delivery.alert_plan import ProcessFindings
from app.delivery.service_verdicts import SILENT, ServiceFacts, verdicts
from app.errors import StoreUnavailable
from app.interfaces import Store
from app.model.operator_verdict import OperatorVerdict

if TYPE_CHECKING:
    from app.api.status.views import JudgedStatus


class AttentionReader:
    """A reader of everything that needs a person, from the same parts from which ``/status`` reads."""

    def __init__(self, given: ServiceParts) -> None:
        self._given = given
        self._last = ProcessFindings()

    async def attention(self) -> Sequence[OperatorVerdict]:
        """Return what needs a person now, the gravest first."""
        return (await self._judged()).verdicts

    async def findings(self) -> ProcessFindings:
        """Return what needs a person now, and the senders that have sent lately.

        If the store does not answer, nothing else is asked, because each question would wait for its time-out. The
        other findings are then those of the last call."""
        try:
            await self._given.of(Store).subscriptions.revision()
        except StoreUnavailable as error:
            return _with_store_away(self._last, str(error))
        self._last = await self._findings()
        return self._last

    async def _findings(self) -> ProcessFindings:
        judged = await self._judged()
        return ProcessFindings(tuple(judged.verdicts), tuple(_active(judged.status)))

    async def _judged(self) -> JudgedStatus:
        from app.api.access.limited_parts import ReachableParts  # noqa: PLC0415 - probes seldom need it
        from app.api.status.views import whole_status  # noqa: PLC0415

        return await whole_status(ReachableParts(self._given, None))


def _with_store_away(last: ProcessFindings, cause: str) -> ProcessFindings:
    """Return the last findings and the verdict on the store."""
    away = verdicts(ServiceFacts(store_cause=cause))
    others = [each for each in last.verdicts if each.name not in {one.name for one in away}]
    return ProcessFindings((*away, *others), last.active)


def _active(status: Status) -> Iterator[str]:
    for kind, views in (("producer", status.producers), ("intake", status.intakes)):
        for each in views:
            if each.last_event_seconds is not None and each.last_event_seconds < SILENT:
                yield f"{kind} {each.name}"
