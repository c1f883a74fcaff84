"""The admin application: one router a resource, one guard in front of all."""

from __future__ import annotations

import asyncio
import copy
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse

from app import __version__
from app.api import (
    access,
    answers,
    attempts,
    audit,
    configuring,
    dead_letters,
    docs_page,
    draft_subscriptions,
    event_stream,
    explain,
    find,
    history,
    logins,
    metrics,
    openapi_document,
    parameters,
    parked,
    problems,
    produce,
    pull,
    records,
    replays,
    subscription_verbs,
    subscriptions,
    topics,
    views,
)
from app.api.audit_trail import Outcomes, Trail
from app.api.callers import Access
from app.api.operations import To, router
from app.api.pull_receive import HandingOut
from app.api.running import Here, Running

DESCRIPTION = (
    "Two listeners. The events listener accepts CloudEvents at `/events`. The admin "
    "listener, on loopback unless it has a token, answers everything else."
)

routes = router(tags=["operators"])


@routes.operation("GET /healthz", "health", response_class=PlainTextResponse)
async def health() -> str:
    """The process runs and its event loop answers. Needs no token."""
    return "ok\n"


@routes.operation(
    "GET /readyz",
    "readiness",
    responses={503: {"model": answers.Readiness, "description": "Not ready: the causes."}},
    response_model=answers.Readiness,
    response_model_exclude_none=True,
)
async def ready(
    running: Here,
    request: Request,
    response: Response,
    role: Annotated[
        Literal["gateway", "worker"] | None, Query(description="readiness of only this role")
    ] = None,
) -> answers.Readiness:
    """Whether each role is ready, and if not, why. Without the scope `read` only the status is
    answered.

    With `role`, a restarting subscription does not take a gateway out of service."""
    found = await views.readiness(running, role)
    response.status_code = 200 if found.ready else 503
    return found if access.may_look(request.scope) else answers.Readiness(ready=found.ready)


@routes.operation("GET /status", "status")
async def status(running: Here, shown: To) -> answers.Status:
    """Everything at a glance: roles, routes, brokers, subscriptions, counters."""
    return await views.status(running, shown)


@routes.operation("GET /metrics", "metrics", response_class=PlainTextResponse)
async def measure(running: Here) -> Response:
    """Prometheus text."""
    text = metrics.render(await views.snapshot(running))
    return Response(text, media_type=metrics.CONTENT_TYPE)


def create_app(
    running: Running,
    *,
    allowed: Access,
    stopped: asyncio.Event,
    recorder: history.Recorder | None = None,
) -> access.TokenGuard:
    """``stopped`` ends streams that would otherwise go on for ever. ``recorder``: one that somebody runs."""
    app = describe(running, stopped)
    app.state.recorder = recorder or history.Recorder(running, stopped)
    app.state.guard = guard = access.TokenGuard(Outcomes(app, app.state.trail), allowed)
    return guard


def describe(running: Running, stopped: asyncio.Event) -> FastAPI:
    """The application without its guard."""
    app = FastAPI(
        title="Skybridge",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # the ones FastAPI brings load their script from another host
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(parameters.known_only)],
    )
    app.state.running, app.state.stopped = running, stopped
    app.state.trail = Trail(running)
    app.state.hands = HandingOut(running, stopped)
    problems.install(app)
    app.include_router(routes)
    for each in (
        logins,
        history,
        records,
        produce,
        topics,
        pull,
        event_stream,
        subscription_verbs,
        replays,
        subscriptions,
        draft_subscriptions,
        dead_letters,
        parked,
        attempts,
        audit,
        explain,
        find,
        configuring,
    ):  # topics after records, and subscriptions after their verbs: their paths take in the others
        app.include_router(each.routes)
    app.include_router(_self_description(app))
    return app


def skeleton() -> FastAPI:
    """The application of no service, for its description alone."""
    return describe(cast("Running", None), asyncio.Event())


def document(app: FastAPI) -> dict[str, Any]:
    """OpenAPI 3.1 of both listeners."""
    return openapi_document.with_events(openapi_document.complete(copy.deepcopy(app.openapi())))


def _self_description(app: FastAPI) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/openapi.json")
    async def openapi() -> dict[str, Any]:
        return document(app)

    @router.get("/docs", response_class=HTMLResponse)
    async def docs() -> str:
        return docs_page.render(document(app))

    return router
