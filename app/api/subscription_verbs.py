"""What can be done with a subscription beside changing it: pause, resume, send it a test event.

Each is a row in the store that whichever worker runs the subscription takes up within a second; in the
same process at once.
"""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict, Field

from app.api import bodies, views
from app.api.answers import Standing
from app.api.problems import Refused
from app.api.running import Entry, Here, Running, now_ms, store_of
from app.api.subscriptions import PATH, Id, entry_of
from app.errors import InvalidEvent
from app.event.value import CloudEvent, DataForm
from app.formats import json
from app.interfaces import Command
from app.interfaces.notify import ENABLED, PAUSED
from app.model.pull import Pull
from app.model.subscription import Subscription

TEST_TYPE = "dev.skybridge.subscription.test"
TAKEN_WITHIN = 5.0  # seconds for a worker to see a command, beyond the subscription's own time-out
TURN = 0.05
LARGEST_EVENT = 1 << 20

_EVENT_BODY = {
    "requestBody": {
        "description": "The event to send, in the JSON format; one of ours without it.",
        "content": {"application/cloudevents+json": {"schema": {"type": "object"}}},
    }
}


class PauseRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cause: Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")] = Field(
        "", description="why, for those who find it paused"
    )


class TestAnswer(BaseModel):
    """What the target said to a test event."""

    delivered: bool
    status: int | None = Field(description="null: no answer came")
    fault: str = Field(description="why none came: dns, connect, tls, timeout, blocked-address ...")
    detail: str
    duration_ms: float
    response: str = Field(description="the answer's body, clipped")
    event: str = Field(description="id of the event that was sent")


routes = APIRouter(prefix=PATH, tags=["subscriptions"])


@routes.post("/{id}:pause", operation_id="pause_subscription",
             responses=Refused.responses(404, 503))  # fmt: skip
async def pause(
    running: Here, id: Id, body: Annotated[PauseRequest | None, Body()] = None
) -> Standing:
    """Deliver nothing from now on; its place is kept, also through restarts. For those of the file
    too: it is an operator's act, and no configuration."""
    entry = await entry_of(running, id)
    cause = (body.cause if body else "") or "by the API"
    await store_of(running).halts.halt(entry.id, "paused", cause, now_ms(running))
    running.notify(PAUSED, entry.id, {"cause": cause})
    return await _standing(running, entry)


@routes.post("/{id}:resume", operation_id="resume_subscription",
             responses=Refused.responses(404, 409, 503))  # fmt: skip
async def resume(running: Here, id: Id) -> Standing:
    """Deliver again, after a pause or after a 410 of the target: at the event that came next."""
    entry = await entry_of(running, id)
    if entry.subscription is not None and entry.subscription.paused:
        raise Refused(
            409, "paused-by-document", "its document says paused: true: change that instead"
        )
    halts = store_of(running).halts
    halt = (await halts.all()).get(entry.id)
    await halts.allow(entry.id)
    if halt is not None:
        running.notify(ENABLED, entry.id, {"cause": f"was {halt.kind}: {halt.cause}"})
    return await _standing(running, entry)


async def _standing(running: Running, entry: Entry) -> Standing:
    await running.registry.nudge()
    return await views.standing(running, entry)


@routes.post(
    "/{id}:test",
    operation_id="test_subscription",
    responses=Refused.responses(400, 404, 409, 413, 415, 503, 504),
    openapi_extra=_EVENT_BODY,
)
async def test(running: Here, request: Request, id: Id) -> TestAnswer:
    """Send one event to its target now, past filters, lanes, pauses and rates, and say what the
    target answered. 504 when no worker took it in time."""
    entry = await entry_of(running, id)
    subscription = runnable(entry)
    if isinstance(subscription.sink, Pull):
        raise Refused(409, "not-called", "its events are pulled: there is no target to call")
    event = await _event(request) or _of_ours(running, entry)
    command = Command(
        subscription=entry.id,
        kind="test",
        body=json.write_event(event),
        asked_ms=now_ms(running),
    )
    number = await store_of(running).commands.ask(command)
    await running.registry.nudge()
    said = await _answer(running, number, subscription.timeout + TAKEN_WITHIN)
    return TestAnswer(**msgspec.json.decode(said), event=event.attributes["id"])


async def _event(request: Request) -> CloudEvent | None:
    body = await bodies.bounded(request, LARGEST_EVENT)
    if not body:
        return None
    bodies.demand_type(request, "application/cloudevents+json")
    event = json.read_event(body)
    if "id" not in event.attributes:
        raise InvalidEvent(())
    return event


def _of_ours(running: Running, entry: Entry) -> CloudEvent:
    moment = datetime.fromtimestamp(running.clock.now(), UTC)
    attributes = {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": f"/skybridge/{running.installation}",
        "type": TEST_TYPE,
        "subject": entry.id,
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
    }
    data = msgspec.json.encode({"subscription": entry.id})
    return CloudEvent(attributes, data, DataForm.JSON)


async def _answer(running: Running, command: int, within: float) -> bytes:
    """Looked for in the store: whoever runs the subscription may be another process."""
    commands = store_of(running).commands
    for _ in range(int(within / TURN)):
        found = await commands.get(command)
        if found is not None and found.answer is not None:
            return found.answer
        await asyncio.sleep(TURN)
    raise Refused(
        504,
        "no-worker",
        f"no worker has answered within {within:g} s: /status of the subscription says who runs it",
    )


def runnable(entry: Entry) -> Subscription:
    """Raises Refused for one that is kept and cannot run."""
    if entry.subscription is None or entry.faults:
        raise Refused(409, "broken", f"{entry.id} cannot run: {'; '.join(entry.faults)}")
    return entry.subscription
