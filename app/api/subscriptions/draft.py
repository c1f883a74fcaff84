"""``/subscriptions``: the CloudEvents Subscriptions API draft (0.1-wip), for clients that speak it.

The same subscriptions as under ``/v1/subscriptions``, in the draft's words (``model.draft``). Those whose
sink is a topic, or that are pulled, have no such words and are not here.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from app.api.access.operations import By, router
from app.api.access.parts import BrokersDep, RegistryDep, SubscriptionsDep, WakeupsDep
from app.api.asked.registry import Entry, Registry
from app.api.http import bodies
from app.api.http.bodies import json_answer
from app.api.http.preconditions import Conditions, IfMatch
from app.api.http.problems import Refused
from app.api.http.slices import Slices
from app.api.subscriptions.routes import Id, allow, answered, entry_of, made
from app.api.subscriptions.schemas import DRAFT_ANSWER, DRAFT_BODY, ETAG, LOCATION, WARNING
from app.api.subscriptions.start_positions import demand_held
from app.errors import SenderError
from app.model.draft import from_draft, to_draft

PATH = "/subscriptions"


routes = router(PATH, tags=["subscriptions (CloudEvents draft)"])


def _list_of(answer: dict[str, Any]) -> dict[str, Any]:
    (media_type, content), *_ = answer["content"].items()
    schema = {"type": "array", "items": content["schema"]}
    return {
        "description": "In the terms of the draft.",
        "content": {media_type: {"schema": schema}},
    }


@routes.operation(
    "POST",
    "draft_create",
    (400, 409, 413, 415, 422, 503),
    responses={201: {**DRAFT_ANSWER, "headers": {**ETAG, **LOCATION}}},
    status_code=201,
    response_class=JSONResponse,
    openapi_extra=DRAFT_BODY,
)
async def create(
    brokers: BrokersDep,
    registry: RegistryDep,
    subscriptions: SubscriptionsDep,
    wakeups: WakeupsDep,
    by: By,
    request: Request,
) -> Response:
    """Create. The id is generated; an id in the body is ignored."""
    document = await _document(registry, request)
    document.pop("id", None)
    entry = await made(brokers, registry, subscriptions, wakeups, document)
    by.tell(target=entry.id)
    return answered(entry, _draft_of(entry), made_at=PATH)


@routes.operation(
    "GET",
    "draft_query",
    (503,),
    responses={200: _list_of(DRAFT_ANSWER)},
    response_class=JSONResponse,
)
async def query(registry: RegistryDep) -> Response:
    """Query all subscriptions that the draft can express."""
    found = (to_draft(each.document) for each in await registry.entries())
    rows = await Slices().rows((each for each in found if each is not None), lambda each: each)
    return json_answer(rows)


@routes.operation(
    "GET /{id}",
    "draft_retrieve",
    (404, 503),
    responses={200: {**DRAFT_ANSWER, "headers": ETAG}},
    response_class=JSONResponse,
)
async def retrieve(registry: RegistryDep, id: Id) -> Response:
    """Retrieve. Secrets are shown as placeholders."""
    entry = await entry_of(registry, id)
    return answered(entry, _draft_of(entry))


@routes.operation(
    "PUT /{id}",
    "draft_update",
    (400, 404, 409, 412, 413, 415, 422, 503),
    responses={200: {**DRAFT_ANSWER, "headers": {**ETAG, **WARNING}}},
    response_class=JSONResponse,
    openapi_extra=DRAFT_BODY,
)
async def update(
    brokers: BrokersDep,
    registry: RegistryDep,
    request: Request,
    id: Id,
    if_match: IfMatch = None,
) -> Response:
    """Update. The draft has no ETags; `If-Match` is optional."""
    entry = await entry_of(registry, id)
    _draft_of(entry)
    Conditions(if_match).check(entry)
    document = await _document(registry, request)
    await demand_held(brokers, document, entry.document)
    changed = await registry.change(entry, document)
    return answered(changed, _draft_of(changed), before=entry)


@routes.operation(
    "DELETE /{id}",
    "draft_delete",
    (404, 409, 412, 503),
    responses={200: DRAFT_ANSWER},
    response_class=JSONResponse,
)
async def delete(registry: RegistryDep, id: Id, if_match: IfMatch = None) -> Response:
    """Delete. Answers with the last object."""
    entry = await entry_of(registry, id)
    Conditions(if_match).check(entry)
    draft = _draft_of(entry)
    await registry.remove(entry)
    return JSONResponse(draft)


allow(routes, "draft_allow", "draft_allow_one", patch=False)


async def _document(registry: Registry, request: Request) -> dict[str, Any]:
    document, faults = from_draft(await bodies.read_object(request, registry.largest_document))
    if faults:
        raise SenderError(
            "The subscription cannot be stored",
            status=422,
            code="invalid-subscription",
            faults=faults,
        )
    return document


def _draft_of(entry: Entry) -> dict[str, Any]:
    draft = to_draft(entry.document)
    if draft is None:
        raise Refused(
            404,
            "unknown-subscription",
            f"{entry.id} has no URL as its sink: see /v1/subscriptions",
        )
    return draft
