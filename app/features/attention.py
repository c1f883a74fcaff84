"""Provide what needs a person in a running service, for readiness and for other components."""

from __future__ import annotations

from collections.abc import Sequence

from app.api.http.given import ServiceParts
from app.api.http.views import Attention


class AttentionReader:
    """A reader of everything that needs a person, from the same parts from which ``/status`` reads."""

    def __init__(self, given: ServiceParts) -> None:
        self._given = given

    async def attention(self) -> Sequence[Attention]:
        """Return what needs a person now, the gravest first."""
        from app.api.access.reach import ReachableParts  # noqa: PLC0415 - probes seldom need it
        from app.api.status.views import attention_of  # noqa: PLC0415

        return await attention_of(ReachableParts(self._given, None))
