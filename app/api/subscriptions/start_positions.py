"""The start position of a new subscription, compared with what its topics hold at that moment.

A subscription whose start is outside of its log stops when it begins, so a caller gets the refusal instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from app.api.asked.brokers import Brokers
from app.errors import BrokerError, Fault, SenderError
from app.model.position import not_held
from app.model.start import Start
from app.model.subscription import Source

WITHIN = 2.0  # seconds to ask the broker; without an answer the position may be right


async def demand_held(
    brokers: Brokers, document: Mapping[str, Any], before: Mapping[str, Any] | None = None
) -> None:
    """Raise SenderError (422) for a start position that the log does not hold. A position that ``before`` has too is not
    looked at: it is used only at the first start. All other faults of the document are left to the registry."""
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
                "Not a valid subscription",
                status=422,
                code="invalid-subscription",
                faults=faults,
            )


_DECIDING = ("start", "source")


async def _faults(brokers: Brokers, source: Source, positions: Mapping[int, str]) -> list[Fault]:
    try:
        async with asyncio.timeout(WITHIN):
            metadata = await brokers.logs[source.broker].metadata(source.topics)
    except (BrokerError, TimeoutError):
        return []
    kind = brokers.kinds[source.broker]
    return [
        _fault(number, reason)
        for topic in metadata.topics
        for number, reason in not_held(kind, positions, topic)
    ]


def _fault(number: int, reason: str) -> Fault:
    cure = "name a position that is held, a time, earliest or latest"
    return Fault(
        "unfit-setting", f"start.position.{number}: {reason}; {cure}", f"/start/position/{number}"
    )
