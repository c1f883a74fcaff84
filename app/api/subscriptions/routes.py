"""``/v1/subscriptions``: create, read, replace, patch and delete subscriptions.

A document has the form of the configuration file. The answer of GET can be pasted into the file, and a
subscription of the file can be posted. The document does not contain the state of the subscription, which is
under ``/status``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from app.api.access.operations import CallerDep, OperationRouter, RedactionDep, router
from app.api.access.parts import BrokersDep, RegistryDep, SubscriptionsDep, WakeupsDep, uses
from app.api.asked.brokers import Brokers
from app.api.asked.registry import Registry, SubscriptionEntry
from app.api.asked.subscriptions import Subscriptions
from app.api.http import bodies
from app.api.http.preconditions import Conditions, IfMatch, IfNoneMatch
from app.api.http.problems import RequestRefused
from app.api.http.slices import Slices
from app.api.subscriptions.answers import Listed, Standing
from app.api.subscriptions.schemas import (
    ANSWER,
    ETAG,
    LINKS,
    LOCATION,
    PATCH_BODY,
    REQUEST_BODY,
    WARNING,
)
from app.api.subscriptions.standings import SubscriptionStatusReader
from app.api.subscriptions.start_positions import demand_held
from app.delivery.backoff import schedule_warning
from app.interfaces import Store
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionState
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters

PATH = "/v1/subscriptions"
BEGUN_WITHIN = 5.0  # seconds to wait for a new subscription to join its group before the answer


async def _standings(
    subscriptions: SubscriptionsDep,
    brokers: Annotated[Brokers, uses(Brokers)],
    store: Annotated[Store, uses(Store)],
    counters: Annotated[Counters, uses(Counters)],
    shown: RedactionDep,
) -> SubscriptionStatusReader:
    """Return a reader of subscription states for the caller."""
    return SubscriptionStatusReader(subscriptions, brokers.logs, store, counters, shown)


StandingsDep = Annotated[SubscriptionStatusReader, Depends(_standings)]
Id = Annotated[str, Path(description="id of the subscription")]
"""A path parameter: the id of a subscription."""


routes = router(PATH, tags=["subscriptions"])
"""The routes of subscriptions. They must be included after the routes of actions such as ``:pause``.
Otherwise a path ``ID:pause`` would match the route of one subscription."""


@routes.operation(
    "POST",
    "create_subscription",
    (400, 409, 413, 415, 422, 503),
    responses={201: {**ANSWER, "headers": {**ETAG, **LOCATION}, "links": LINKS}},
    status_code=201,
    response_class=JSONResponse,
    openapi_extra=REQUEST_BODY,
)
async def create(
    brokers: BrokersDep,
    registry: RegistryDep,
    subscriptions: SubscriptionsDep,
    wakeups: WakeupsDep,
    by: CallerDep,
    request: Request,
) -> Response:
    """Create a subscription with the id of the document or a generated one. If this process delivers, `start:
    latest` takes effect before the answer, except for a token with an owner, which writes many at once."""
    document = await bodies.read_object(request, registry.largest_document)
    within = 0.0 if by.owner else BEGUN_WITHIN
    entry = await create_entry(brokers, registry, subscriptions, wakeups, document, within)
    by.annotate_audit(target=entry.id)
    return document_answer(entry, entry.document, made_at=PATH)


@routes.operation("GET", "subscriptions", (503,), response_model=list[Listed])
async def subscriptions(
    registry: RegistryDep,
    subscriptions: SubscriptionsDep,
    standings: StandingsDep,
    broker: Annotated[
        str | None, Query(description="only subscriptions that read from this broker")
    ] = None,
    state: Annotated[
        SubscriptionState | None, Query(description="only subscriptions in this state")
    ] = None,
) -> Response:
    """Return all subscriptions of the file and of the API, each with its status."""
    every = await registry.entries()
    wanted = [
        (each, now)
        for each, now in zip(every, await subscriptions.states(every), strict=True)
        if broker in (None, _broker(each)) and state in (None, now.state)
    ]
    entries, states = [each for each, _ in wanted], [now for _, now in wanted]
    slices = Slices()
    found = await standings.all(entries, states, Listed, slices)
    return bodies.json_answer(await slices.rows(found, lambda each: each))


@routes.operation(
    "GET /{id}",
    "subscription",
    (404, 503),
    responses={
        200: {**ANSWER, "headers": ETAG},
        304: {"description": "Not Modified", "headers": ETAG},
    },
    response_class=JSONResponse,
)
async def subscription(
    registry: RegistryDep, id: Id, if_none_match: IfNoneMatch = None
) -> Response:
    """Return the document of a subscription, as in the file or as it was sent. A secret is replaced by a
    placeholder. If a client sends the placeholder back, the secret is unchanged."""
    entry = await entry_of(registry, id)
    if Conditions(if_none_match=if_none_match).unchanged(entry):
        return Response(status_code=304, headers={"etag": entry.etag})
    return document_answer(entry, entry.document)


@routes.operation("GET /{id}/status", "subscription_status", (404, 503))
async def status(registry: RegistryDep, standings: StandingsDep, id: Id) -> Standing:
    """Return the status of a subscription: state and cause, lag, unfinished messages, faults."""
    return await standings.one(await entry_of(registry, id))


@routes.operation(
    "PUT /{id}",
    "replace_subscription",
    (400, 404, 409, 412, 413, 415, 422, 428, 503),
    responses={
        200: {**ANSWER, "headers": {**ETAG, **WARNING}},
        201: {**ANSWER, "headers": {**ETAG, **LOCATION}},
    },
    response_class=JSONResponse,
    openapi_extra=REQUEST_BODY,
)
async def replace(
    brokers: BrokersDep,
    registry: RegistryDep,
    subscriptions: SubscriptionsDep,
    wakeups: WakeupsDep,
    request: Request,
    id: Id,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Replace the document (`If-Match`), or create a subscription with this id (`If-None-Match: *`)."""
    document = await bodies.read_object(request, registry.largest_document)
    entry = await registry.entry(id)
    conditions = Conditions(if_match, if_none_match)
    conditions.check(entry)
    if entry is None and if_none_match is not None:
        new = await create_entry(
            brokers,
            registry,
            subscriptions,
            wakeups,
            {**document, "id": _demand_same_id(document, id)},
        )
        return document_answer(new, new.document, made_at=PATH)
    return await _replace_document(
        brokers, registry, entry or await entry_of(registry, id), conditions, document
    )


@routes.operation(
    "PATCH /{id}",
    "patch_subscription",
    (400, 404, 409, 412, 413, 415, 422, 428, 503),
    responses={200: {**ANSWER, "headers": {**ETAG, **WARNING}}},
    response_class=JSONResponse,
    openapi_extra=PATCH_BODY,
)
async def patch(
    brokers: BrokersDep, registry: RegistryDep, request: Request, id: Id, if_match: IfMatch = None
) -> Response:
    """Change some settings by a JSON Merge Patch (RFC 7396). Each member of the patch replaces a member of
    the document, and null resets a member to its default."""
    change = await bodies.read_object(request, registry.largest_document, bodies.MERGE_PATCH)
    entry = await entry_of(registry, id)
    conditions = Conditions(if_match)
    conditions.check(entry)
    return await _replace_document(
        brokers, registry, entry, conditions, bodies.merge_patch(entry.document, change)
    )


@routes.operation(
    "DELETE /{id}",
    "delete_subscription",
    (404, 409, 412, 503),
    responses={200: ANSWER},
    response_class=JSONResponse,
)
async def delete(registry: RegistryDep, id: Id, if_match: IfMatch = None) -> Response:
    """Delete the subscription and its waiting events, and return its last document. Dead letters are kept.
    `If-Match` is optional."""
    entry = await entry_of(registry, id)
    Conditions(if_match).check(entry)
    await registry.remove(entry)
    return JSONResponse(dict(entry.document))


def allow(routes: OperationRouter, all_: str, one: str, *, patch: bool) -> None:
    """Add the two OPTIONS operations. ``all_`` is the operation id for the collection, and ``one`` that for
    one subscription."""
    of_one = f"GET, PUT, {'PATCH, ' if patch else ''}DELETE, OPTIONS"

    @routes.operation("OPTIONS", all_, status_code=204)
    async def allowed() -> Response:
        """Return the allowed methods, as the CloudEvents draft defines."""
        return Response(status_code=204, headers={"allow": "GET, POST, OPTIONS"})

    @routes.operation("OPTIONS /{id}", one, summary="Allowed", status_code=204)
    async def allowed_one(id: Id) -> Response:  # noqa: ARG001
        """Return the allowed methods, as the CloudEvents draft defines."""
        return Response(status_code=204, headers={"allow": of_one})


allow(routes, "subscriptions_allow", "subscription_allow", patch=True)


async def entry_of(registry: Registry, subscription: str) -> SubscriptionEntry:
    """Return the entry of a subscription. Raise Refused with 404 if it does not exist."""
    entry = await registry.entry(subscription)
    if entry is None:
        raise RequestRefused(
            404, "unknown-subscription", f"subscription {subscription} does not exist"
        )
    return entry


async def subscription_of(subscriptions: Subscriptions, name: str) -> Subscription:
    """Return a declared subscription, for a client that fetches its events. Raise Refused with 404 if it does
    not exist."""
    for each in await subscriptions.declared():
        if each.id == name:
            return each
    raise RequestRefused(404, "unknown-subscription", f"subscription {name} does not exist")


def document_answer(
    entry: SubscriptionEntry,
    shown: Mapping[str, Any],
    *,
    before: SubscriptionEntry | None = None,
    made_at: str = "",
) -> Response:
    """Return the answer with a document.

    Args:
        entry: The stored subscription.
        shown: The document to return, possibly in the form of the CloudEvents draft.
        before: The entry before the change, or None if nothing was changed.
        made_at: The path of the collection in which it was created, or "".
    """
    headers = {"etag": entry.etag, **_warning_header(before, entry)}
    if made_at:
        headers["location"] = f"{made_at}/{entry.id}"
    return JSONResponse(dict(shown), 201 if made_at else 200, headers)


def _warning_header(before: SubscriptionEntry | None, now: SubscriptionEntry) -> dict[str, str]:
    """Return a header that explains how a change affects waiting events, or no header. The document has no
    member for such a warning."""
    if before is None or before.subscription is None or now.subscription is None:
        return {}
    old, new = before.subscription.retry.schedule, now.subscription.retry.schedule
    warning = schedule_warning(now.id, old, new)
    return {"skybridge-warning": warning} if warning else {}


async def _replace_document(
    brokers: Brokers,
    registry: Registry,
    entry: SubscriptionEntry,
    conditions: Conditions,
    document: dict[str, Any],
) -> Response:
    """Replace the document of a subscription and return the answer. A subscription that was created through
    the API needs If-Match."""
    if entry.origin == "api":
        conditions.demand_if_match()
    await demand_held(brokers, document, entry.document)
    changed = await registry.change(entry, document)
    return document_answer(changed, changed.document, before=entry)


def _demand_same_id(document: dict[str, Any], name: str) -> str:
    """Return the id in the path. Raise Refused with 400 if the document has another id."""
    if document.get("id", name) != name:
        raise RequestRefused(
            400, "other-id", f"the id of the document is not {name}, as in the path"
        )
    return name


def _broker(entry: SubscriptionEntry) -> object:
    """Return the broker that the document names, or None."""
    source = entry.document.get("source")
    return source.get("broker") if isinstance(source, dict) else None


async def create_entry(
    brokers: Brokers,
    registry: Registry,
    subscriptions: Subscriptions,
    wakeups: Wakeups,
    document: dict[str, Any],
    within: float = BEGUN_WITHIN,
) -> SubscriptionEntry:
    """Store a new subscription and wait until it has joined its group, for at most ``within`` seconds. After
    that, its status shows its progress."""
    await demand_held(brokers, document)
    entry = await registry.make(document)

    async def state() -> str | None:
        (status,) = await subscriptions.states([entry])
        return None if status.state == "starting" else status.state

    if within:
        await wakeups.until(entry.id, state, within, within)
    return entry
