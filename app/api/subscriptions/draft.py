"""``/subscriptions``: the CloudEvents Subscriptions API draft (0.1-wip), for clients that use it.

It has the same subscriptions as ``/v1/subscriptions``, in the form of the draft (``model.draft``). The draft
cannot express a topic or a pull queue as the sink, so such subscriptions are missing.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from app.api.access.operations import CallerDep, router
from app.api.access.parts import BrokersDep, RegistryDep, SubscriptionsDep, WakeupsDep
from app.api.asked.registry import Registry, SubscriptionEntry
from app.api.http import bodies
from app.api.http.bodies import json_answer
from app.api.http.preconditions import Conditions, IfMatch
from app.api.http.problems import RequestRefused
from app.api.http.slices import Slices
from app.api.subscriptions.routes import Id, allow, create_entry, document_answer, entry_of
from app.api.subscriptions.schemas import DRAFT_ANSWER, DRAFT_BODY, ETAG, LOCATION, WARNING
from app.api.subscriptions.start_positions import demand_held
from app.errors import SenderError
from app.model.draft import from_draft, to_draft

PATH = "/subscriptions"


routes = router(PATH, tags=["subscriptions (CloudEvents draft)"])


def _list_of(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI description of an answer that is a list. ``answer`` describes one item."""
    (media_type, content), *_ = answer["content"].items()
    schema = {"type": "array", "items": content["schema"]}
    return {
        "description": "The subscriptions in the form of the draft.",
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
    by: CallerDep,
    request: Request,
) -> Response:
    """Create a subscription. Its id is generated, and an id in the body is ignored."""
    document = await _document(registry, request)
    document.pop("id", None)
    entry = await create_entry(brokers, registry, subscriptions, wakeups, document)
    by.annotate_audit(target=entry.id)
    return document_answer(entry, _draft_of(entry), made_at=PATH)


@routes.operation(
    "GET",
    "draft_query",
    (503,),
    responses={200: _list_of(DRAFT_ANSWER)},
    response_class=JSONResponse,
)
async def query(registry: RegistryDep) -> Response:
    """Return all subscriptions that the draft can express."""
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
    """Return a subscription. Secrets are replaced by placeholders."""
    entry = await entry_of(registry, id)
    return document_answer(entry, _draft_of(entry))


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
    """Replace a subscription. `If-Match` is optional, because the draft has no ETags."""
    entry = await entry_of(registry, id)
    _draft_of(entry)
    Conditions(if_match).check(entry)
    document = await _document(registry, request)
    await demand_held(brokers, document, entry.document)
    changed = await registry.change(entry, document)
    return document_answer(changed, _draft_of(changed), before=entry)


@routes.operation(
    "DELETE /{id}",
    "draft_delete",
    (404, 409, 412, 503),
    responses={200: DRAFT_ANSWER},
    response_class=JSONResponse,
)
async def delete(registry: RegistryDep, id: Id, if_match: IfMatch = None) -> Response:
    """Delete a subscription and return its last object."""
    entry = await entry_of(registry, id)
    Conditions(if_match).check(entry)
    draft = _draft_of(entry)
    await registry.remove(entry)
    return JSONResponse(draft)


allow(routes, "draft_allow", "draft_allow_one", patch=False)


async def _document(registry: Registry, request: Request) -> dict[str, Any]:
    """Return the subscription in the body as a document. Raise SenderError with 422 if it has faults."""
    document, faults = from_draft(await bodies.read_object(request, registry.largest_document))
    if faults:
        raise SenderError(
            "The subscription cannot be stored",
            status=422,
            code="invalid-subscription",
            faults=faults,
        )
    return document


def _draft_of(entry: SubscriptionEntry) -> dict[str, Any]:
    """Return a subscription in the form of the CloudEvents draft. Raise Refused with 404 if the draft cannot
    express it."""
    draft = to_draft(entry.document)
    if draft is None:
        raise RequestRefused(
            404,
            "unknown-subscription",
            f"the sink of {entry.id} is not a URL, which the draft requires. See /v1/subscriptions",
        )
    return draft
