"""Requests that wait until an issuer has told its keys: nobody knows by then who sends them."""

from __future__ import annotations

import asyncio
from typing import Any

from app.gateway.answers import HttpAnswer, not_found
from app.gateway.intakes import Intakes
from app.gateway.limits import ListenerLimits
from app.gateway.request import EventRequest, Pending
from app.gateway.resource import EventsPolicy, EventsResource
from app.telemetry import Counters


class Door:
    def judge_again(self, _: Pending) -> HttpAnswer:
        return not_found()


async def test_their_bodies_are_bounded_together() -> None:
    """Reliability G4: tokens of an unknown key may come as fast as the line is."""
    door: Any = Door()
    resource = EventsResource(
        door,
        EventsPolicy(
            intakes=Intakes((), Counters()), limits=ListenerLimits(receiving=10), door=door
        ),
        Counters(),
    )
    asking: Any = asyncio.get_running_loop().create_future()
    pending = Pending(asking, b"token", b"digest")
    answers: list[HttpAnswer] = []
    waiting = EventRequest([], {}, b"12345678", None, b"", None, pending, None)
    assert resource.post(waiting, answers.append) is None
    refused = resource.post(waiting, answers.append)
    assert refused is not None
    assert (refused.status, resource.receiving, answers) == (503, 8, [])
    asking.set_result(None)
    await asyncio.sleep(0)
    assert ([each.status for each in answers], resource.receiving) == ([404], 0)
