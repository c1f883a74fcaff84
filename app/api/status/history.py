"""``/v1/history``: rates and backlogs of the last hour and of every second, for charts."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncGenerator
from typing import Annotated, cast

import msgspec
from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from app.api.access.operations import router
from app.api.access.parts import RegistryDep, SubscriptionsDep, uses
from app.api.asked.process import Process
from app.api.http.bodies import json_answer
from app.api.http.problems import RequestRefused
from app.api.status.recorder import EVERY, Recorder
from app.api.subscriptions.routes import PATH, Id, entry_of
from app.api.topics.records import RECONNECT_MS, stream_response

ProcessDep = Annotated[Process, uses(Process)]

routes = router("/v1/history", tags=["operators"])
subscription_routes = router(PATH, tags=["subscriptions"])


class ProcessView(BaseModel):
    """The process that measured a history. Rates are of this process alone; backlogs in logs and in the store
    are of all processes."""

    installation: str = Field(description="name of the installation")
    role: str = Field(description="gateway, worker, or both with a comma between them")
    host: str = Field(description="name of the host")
    pid: int = Field(description="id of the process")


class Point(BaseModel):
    """The measurements at one time. Rates are events per second since the previous point. Null means that a
    value is unknown, or that there was nothing to measure."""

    at: float = Field(description="time of the point, in seconds since the epoch")
    received: float = Field(description="events accepted")
    published: float = Field(description="events stored by a broker")
    refused: float = Field(description="events refused")
    delivered: float = Field(description="successful deliveries")
    failed: float = Field(description="failed attempts")
    lag: int | None = Field(description="records that subscriptions have not finished")
    parked: int | None = Field(description="parked events in the store")
    dead_letters: int | None = Field(description="dead letters in the store")
    publish_p50_ms: float | None = Field(description="median duration of a publish in ms")
    publish_p99_ms: float | None = Field(
        description="99th percentile of the duration of a publish in ms"
    )
    loop_lag_ms: float = Field(description="longest delay of the process's event loop in ms")
    rss_bytes: int | None = Field(description="resident memory of the process in bytes")


class History(BaseModel):
    """The points of the last hour."""

    process: ProcessView = Field(description="the process that measured these points")
    every: int = Field(description="seconds between points")
    points: list[Point] = Field(description="the oldest first")


@routes.get("", operation_id="history", response_model=History)
async def history(process: ProcessDep, request: Request) -> Response:
    """Return the points of the last hour, or since the start of this process."""
    points = list(_recorder(request).points)
    return json_answer(
        {"process": process_of(process).model_dump(), "every": EVERY, "points": points}
    )


class SubscriptionPoint(BaseModel):
    """The counters of a subscription at one time. They count from the start of the process."""

    at: float = Field(description="time of the point, in seconds since the epoch")
    delivered: int = Field(description="events that this process delivered")
    answers: dict[str, int] = Field(
        description="attempts of this process by status of the answer, or by fault"
    )
    lag: int | None = Field(description="unfinished records at about this time; null if unknown")


class SubscriptionHistory(BaseModel):
    """The points of the last hour of one subscription."""

    every: int = Field(description="seconds between points")
    points: list[SubscriptionPoint] = Field(description="the oldest first")


@subscription_routes.operation("GET /{id}/history", "subscription_history", (404, 503))
async def of_subscription(
    registry: RegistryDep,
    subscriptions: SubscriptionsDep,
    request: Request,
    id: Id,
) -> SubscriptionHistory:
    """Return the points of a subscription for the last hour, or since the start of this process. With very many
    subscriptions the time is shorter."""
    (state,) = await subscriptions.states([await entry_of(registry, id)])
    kept = _recorder(request).subscriptions
    lags = {each.at: each.lag for each in kept.lags_of(state.group)}
    points = [
        SubscriptionPoint(
            at=each.at, delivered=each.delivered, answers=dict(each.answers), lag=lags.get(each.at)
        )
        for each in kept.of(id)
    ]
    return SubscriptionHistory(every=EVERY, points=points)


@routes.get(
    "/live",
    operation_id="history_live",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {}},
            "description": "A point every second, with the members of a point of history.",
        },
        **RequestRefused.responses(403),
    },
)
async def live(
    request: Request,
    on: Annotated[
        bool, Query(alias="follow", description="false to end after the first point")
    ] = True,
) -> StreamingResponse:
    """Stream a point every second as server-sent events. `data` is a point as in history, measured over that
    second. The stream ends with the service."""
    return stream_response(_blocks(_recorder(request), on))


async def _blocks(recorder: Recorder, on: bool) -> AsyncGenerator[bytes, None]:
    """Yield the points of the stream as server-sent events. With ``on`` false, the stream ends after the
    first point."""
    yield b"retry: %d\n\n" % RECONNECT_MS
    async with contextlib.aclosing(recorder.follow()) as points:
        async for point in points:
            yield b"data: %s\n\n" % msgspec.json.encode(point)
            if not on:
                return


def _recorder(request: Request) -> Recorder:
    return cast("Recorder", request.app.state.recorder)


def process_of(process: Process) -> ProcessView:
    """Return the part of the answer that identifies this process."""
    return ProcessView(
        installation=process.installation,
        role=",".join(process.roles),
        host=socket.gethostname(),
        pid=os.getpid(),
    )
