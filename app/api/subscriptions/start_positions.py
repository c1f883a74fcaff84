"""Check the start position of a new subscription against the positions that its topics have now.

A subscription whose start position is not in its log would stop at once. The caller gets an error instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from app.api.asked.brokers import Brokers
from app.errors import BrokerError, Fault, SenderError
from app.model.position import positions_not_held
from app.model.start import Start
from app.model.subscription import Source

WITHIN = 2.0  # seconds to wait for the broker; without an answer, the position is accepted


async def demand_held(
    brokers: Brokers, document: Mapping[str, Any], before: Mapping[str, Any] | None = None
) -> None:
    """Raise SenderError with 422 if the log does not have the start position of the document.

    A position that the document ``before`` also has is not checked, because it is used only at the first
    start. Other faults of the document are left to the registry.
    """
    if before is not None and all(before.get(each) == document.get(each) for each in _DECIDING):
        return
    try:
        start = Start.model_validate(document.get("start"))
        source = Source.model_validate(document.get("source"))
    except ValidationError:
        return
    if start.position and source.broker in brokers.logs:
        faults = await _faults(brokers, source, start.position)
        if faults:
            raise SenderError(
                "The subscription is not valid",
                status=422,
                code="invalid-subscription",
                faults=faults,
            )


_DECIDING = ("start", "source")


async def _faults(brokers: Brokers, source: Source, positions: Mapping[int, str]) -> list[Fault]:
    """Return a fault for each position that its partition does not have."""
    try:
        async with asyncio.timeout(WITHIN):
            metadata = await brokers.logs[source.broker].metadata(source.topics)
    except (BrokerError, TimeoutError):
        return []
    kind = brokers.kinds[source.broker]
    return [
        _fault(number, reason)
        for topic in metadata.topics
        for number, reason in positions_not_held(kind, positions, topic)
    ]


def _fault(number: int, reason: str) -> Fault:
    cure = "Cure: name an existing position, a time, earliest or latest"
    return Fault(
        "unfit-setting", f"start.position.{number}: {reason}. {cure}", f"/start/position/{number}"
    )
