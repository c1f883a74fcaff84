"""``/v1/history``: how much came and went in the last hour, and what comes and goes now, for charts."""

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
from app.api.access.parts import uses
from app.api.asked.process import Process
from app.api.http.bodies import json_answer
from app.api.http.problems import Refused
from app.api.status.recorder import EVERY, Recorder
from app.api.topics.records import RECONNECT_MS, streamed

ProcessDep = Annotated[Process, uses(Process)]

routes = router("/v1/history", tags=["operators"])


class ProcessView(BaseModel):
    """Whose numbers they are: rates are this process's alone, what stands in logs and store is of all."""

    installation: str
    role: str = Field(description="gateway, worker, or both with a comma between them")
    host: str
    pid: int


class Point(BaseModel):
    """Rates are events a second since the point before. Null: nobody can say, or nothing happened that could
    be measured."""

    at: float = Field(description="when, in seconds since the epoch")
    received: float = Field(description="events accepted")
    published: float = Field(description="events stored by a broker")
    refused: float = Field(description="events refused")
    delivered: float = Field(description="deliveries that a target took")
    failed: float = Field(description="attempts that failed")
    lag: int | None = Field(description="records that subscriptions have not finished")
    parked: int | None = Field(description="parked events in the store")
    dead_letters: int | None = Field(description="dead letters in the store")
    publish_p50_ms: float | None = Field(description="half of all publishes took less")
    publish_p99_ms: float | None = Field(description="99 of 100 publishes took less")
    loop_lag_ms: float = Field(description="longest delay of the process's event loop")
    rss_bytes: int | None = Field(description="memory of the process")


class History(BaseModel):
    process: ProcessView
    every: int = Field(description="seconds between points")
    points: list[Point] = Field(description="the oldest first")


@routes.get("", operation_id="history", response_model=History)
async def history(process: ProcessDep, request: Request) -> Response:
    """Points of the last hour, since the start of this process at most."""
    points = list(_recorder(request).points)
    return json_answer(
        {"process": process_of(process).model_dump(), "every": EVERY, "points": points}
    )


@routes.get(
    "/live",
    operation_id="history_live",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {}},
            "description": "A point a second, as in history.",
        },
        **Refused.responses(403),
    },
)
async def live(
    request: Request,
    on: Annotated[bool, Query(alias="follow", description="false: end behind the first")] = True,
) -> StreamingResponse:
    """A point every second as server-sent events; `data` is a point of history over that second. The stream
    ends with the service."""
    return streamed(_blocks(_recorder(request), on))


async def _blocks(recorder: Recorder, on: bool) -> AsyncGenerator[bytes, None]:
    yield b"retry: %d\n\n" % RECONNECT_MS
    async with contextlib.aclosing(recorder.follow()) as points:
        async for point in points:
            yield b"data: %s\n\n" % msgspec.json.encode(point)
            if not on:
                return


def _recorder(request: Request) -> Recorder:
    return cast("Recorder", request.app.state.recorder)


def process_of(process: Process) -> ProcessView:
    return ProcessView(
        installation=process.installation,
        role=",".join(process.roles),
        host=socket.gethostname(),
        pid=os.getpid(),
    )
