"""The FastAPI application of the admin listener: one router for each resource."""

from __future__ import annotations

import asyncio
import copy
import functools
from collections.abc import Sequence
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Response
from fastapi.responses import HTMLResponse
from starlette.routing import BaseRoute

from app import __version__
from app.api.access import audit, logins
from app.api.alerts import routes as alerts
from app.api.deliveries import attempts, dead_letters, parked
from app.api.explain import routes as explain
from app.api.find import routes as find
from app.api.http import parameters, problem_handlers
from app.api.http.bodies import JSON
from app.api.http.given import ServiceParts
from app.api.http.slices import OnceInThread
from app.api.openapi import docs_page
from app.api.openapi.document import complete, with_events
from app.api.pull import routes as pull
from app.api.status import configuration, history
from app.api.status import routes as status
from app.api.subscriptions import draft, event_stream, replays, retry, verbs
from app.api.subscriptions import routes as subscriptions
from app.api.topics import produce, records
from app.api.topics import routes as topics

DESCRIPTION = (
    "Two listeners. The events listener accepts CloudEvents at `/events`. The admin "
    "listener, on loopback unless it has a token, answers everything else."
)


def create_application(given: ServiceParts, stopped: asyncio.Event) -> FastAPI:
    """Create the FastAPI application, without the access guard in front of it.

    Args:
        given: The parts of the running service that handlers use.
        stopped: An event that ends all streams when the service stops.
    """
    app = FastAPI(
        title="Skybridge",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # FastAPI's own pages load their script from another host
        redoc_url=None,
        openapi_url=None,
    )
    app.state.given, app.state.stopped = given, stopped
    problem_handlers.install(app)
    app.router.routes.extend(_operations())
    app.include_router(
        _self_description(app), dependencies=[Depends(parameters.demand_known_parameters)]
    )
    _match_once(app)
    return app


def _match_once(app: FastAPI) -> None:
    """Request a path that no route has, so that FastAPI analyses the parameters of all routes now. The
    analysis takes a second. Here it runs in the thread that creates the application, so the first request
    does not wait."""
    scope = {"type": "http", "method": "GET", "path": "/\0", "root_path": "", "headers": []}
    for route in app.routes:
        route.matches(scope)


@functools.cache
def _operations() -> Sequence[BaseRoute]:
    """Return the routes of all resources. FastAPI takes long to analyse their parameters, so they are created
    once for all applications. They hold no state of a service."""
    router = APIRouter(dependencies=[Depends(parameters.demand_known_parameters)])
    for each in (
        status,
        logins,
        history,
        records,
        produce,
        topics,
        pull,
        event_stream,
        verbs,
        retry,
        replays,
        subscriptions,
        draft,
        dead_letters,
        parked,
        attempts,
        audit,
        alerts,
        explain,
        find,
        configuration,
    ):  # topics after records, subscriptions after their verbs: their paths match the paths of those too
        router.include_router(each.routes)
    router.include_router(history.subscription_routes)
    return router.routes


def skeleton() -> FastAPI:
    """Create an application without a service. It serves only to make the OpenAPI document."""
    return create_application(ServiceParts(), asyncio.Event())


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the admin listener and the events listener."""
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
    """Return the OpenAPI document as JSON and its HTML page. Creating them takes a second."""
    described = document(app)
    return msgspec.json.encode(described), docs_page.render(described).encode()
