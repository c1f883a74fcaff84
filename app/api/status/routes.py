"""``/healthz``, ``/readyz``, ``/status`` and ``/metrics``."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request, Response
from fastapi.responses import PlainTextResponse

from app.api.access import guard
from app.api.access.operations import RedactionDep, router
from app.api.access.parts import CountersDep, Parts, uses
from app.api.asked import readiness as asked
from app.api.http.bodies import json_answer
from app.api.status import probes, views
from app.api.status.answers import Readiness, Status
from app.api.status.asked import AttentionSource, Measured

MeasuredDep = Annotated[Measured, uses(Measured)]
NeedsDep = Annotated[AttentionSource, uses(AttentionSource)]
ReadinessDep = Annotated[asked.ReadinessSource, uses(asked.ReadinessSource)]

routes = router(tags=["operators"])


@routes.operation("GET /healthz", "health", response_class=PlainTextResponse)
async def health() -> Response:
    """Answer 200 if the process runs and its event loop responds. No token is needed."""
    return _response(probes.ALIVE)


@routes.operation(
    "GET /readyz",
    "readiness",
    responses={
        503: {"model": Readiness, "description": "A role is not ready. The body has the causes."}
    },
    response_model=Readiness,
)
async def ready(
    readiness: ReadinessDep,
    needs: NeedsDep,
    request: Request,
    role: Annotated[
        Literal["gateway", "worker"] | None, Query(description="only the readiness of this role")
    ] = None,
) -> Response:
    """Return whether each role is ready, and why not. Without the scope `read`, the answer has no causes.

    With `role`, only this role counts. So a gateway stays in service while a subscription restarts.
    """
    return _response(
        await probes.answer_readiness(
            readiness,
            role,
            needs if guard.may_read(request.scope) else None,
        )
    )


@routes.operation("GET /status", "status", response_model=Status)
async def status(parts: Parts, shown: RedactionDep) -> Response:
    """Return the state of this process: roles, routes, brokers, subscriptions, counters."""
    return json_answer(await views.status(parts, shown))


@routes.operation("GET /metrics", "metrics", response_class=PlainTextResponse)
async def measure(counters: CountersDep, measured: MeasuredDep) -> Response:
    """Return the metrics as Prometheus text."""
    return _response(await probes.measure(counters, measured))


def _response(answer: probes.ProbeAnswer) -> Response:
    return Response(answer.body, answer.status, media_type=answer.media_type)
