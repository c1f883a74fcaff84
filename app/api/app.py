"""The admin application: one router a resource, one guard in front of all."""

from __future__ import annotations

import asyncio
import copy
import functools
from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from starlette.routing import BaseRoute

from app import __version__
from app.api import answers, views
from app.api.access import audit, guard, logins
from app.api.access.audit_trail import Trail
from app.api.access.operations import Here, To, router
from app.api.deliveries import attempts, dead_letters, parked
from app.api.explain import routes as explain
from app.api.find import routes as find
from app.api.http import parameters, problem_handlers
from app.api.http.bodies import JSON, json_answer
from app.api.http.slices import OnceInThread
from app.api.openapi import docs_page
from app.api.openapi.document import complete, with_events
from app.api.pull import routes as pull
from app.api.pull.receive import HandingOut
from app.api.running import Running
from app.api.status import configuration, history, probes
from app.api.subscriptions import draft, event_stream, replays, verbs
from app.api.subscriptions import routes as subscriptions
from app.api.topics import produce, records
from app.api.topics import routes as topics

DESCRIPTION = (
    "Two listeners. The events listener accepts CloudEvents at `/events`. The admin "
    "listener, on loopback unless it has a token, answers everything else."
)

routes = router(tags=["operators"])


@routes.operation("GET /healthz", "health", response_class=PlainTextResponse)
async def health() -> Response:
    """The process runs and its event loop answers. Needs no token."""
    return _response(probes.ALIVE)


@routes.operation(
    "GET /readyz",
    "readiness",
    responses={503: {"model": answers.Readiness, "description": "Not ready: the causes."}},
    response_model=answers.Readiness,
)
async def ready(
    running: Here,
    request: Request,
    role: Annotated[
        Literal["gateway", "worker"] | None, Query(description="readiness of only this role")
    ] = None,
) -> Response:
    """Whether each role is ready, and if not, why. Without the scope `read` only the status is
    answered.

    With `role`, a restarting subscription does not take a gateway out of service."""
    return _response(await probes.probed(running, role, looks=guard.may_look(request.scope)))


@routes.operation("GET /status", "status", response_model=answers.Status)
async def status(running: Here, shown: To) -> Response:
    """Everything at a glance: roles, routes, brokers, subscriptions, counters."""
    return json_answer(await views.status(running, shown))


@routes.operation("GET /metrics", "metrics", response_class=PlainTextResponse)
async def measure(running: Here) -> Response:
    """Prometheus text."""
    return _response(await probes.measure(running))


def _response(answer: probes.Answer) -> Response:
    return Response(answer.body, answer.status, media_type=answer.media_type)


def describe(running: Running, stopped: asyncio.Event, trail: Trail) -> FastAPI:
    """The application without its guard. ``stopped`` ends its streams."""
    app = FastAPI(
        title="Skybridge",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # the ones FastAPI brings load their script from another host
        redoc_url=None,
        openapi_url=None,
    )
    app.state.running, app.state.stopped = running, stopped
    app.state.trail = trail
    app.state.hands = HandingOut(running, stopped)
    problem_handlers.install(app)
    app.router.routes.extend(_operations())
    app.include_router(_self_description(app), dependencies=[Depends(parameters.known_only)])
    _match_once(app)
    return app


def _match_once(app: FastAPI) -> None:
    """Match a path that no route has. FastAPI looks at the parameters of all routes when it first matches a
    request, which takes a second: here that is done in the thread that makes the application."""
    scope = {"type": "http", "method": "GET", "path": "/\0", "root_path": "", "headers": []}
    for route in app.routes:
        route.matches(scope)


@functools.cache
def _operations() -> Sequence[BaseRoute]:
    """Those of every service: they hold nothing of one, and to look at their parameters takes longer than all
    else of an application."""
    router = APIRouter(dependencies=[Depends(parameters.known_only)])
    router.include_router(routes)
    for each in (
        logins,
        history,
        records,
        produce,
        topics,
        pull,
        event_stream,
        verbs,
        replays,
        subscriptions,
        draft,
        dead_letters,
        parked,
        attempts,
        audit,
        explain,
        find,
        configuration,
    ):  # topics after records, and subscriptions after their verbs: their paths take in the others
        router.include_router(each.routes)
    return router.routes


def skeleton() -> FastAPI:
    """The application of no service, for its description alone."""
    nobody = cast("Running", None)
    return describe(nobody, asyncio.Event(), Trail(nobody))


def document(app: FastAPI) -> dict[str, Any]:
    """OpenAPI 3.1 of both listeners."""
    return with_events(complete(copy.deepcopy(app.openapi())))


def _self_description(app: FastAPI) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    pages = OnceInThread(lambda: _pages(app))

    @router.get("/openapi.json")
    async def openapi() -> Response:
        return Response((await pages.value())[0], media_type=JSON)

    @router.get("/docs", response_class=HTMLResponse)
    async def docs() -> Response:
        return HTMLResponse((await pages.value())[1])

    return router


def _pages(app: FastAPI) -> tuple[bytes, bytes]:
    """Return the OpenAPI document and its page. To make them takes a second."""
    described = document(app)
    return msgspec.json.encode(described), docs_page.render(described).encode()
