"""The operations of pull subscriptions, with the names of Event Grid: receive, acknowledge, release, reject,
renew."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast

import msgspec
from fastapi import Depends, Path, Request, Response
from pydantic import BaseModel, ValidationError

from app.api.access.callers import caller_of
from app.api.access.operations import router
from app.api.access.parts import BrokersDep, ClockDep, CountersDep, SubscriptionsDep
from app.api.asked.subscriptions import Subscriptions
from app.api.http import bodies
from app.api.http.problems import RequestRefused
from app.api.http.slices import Slices
from app.api.pull.answers import Failed, Fates, Receive, ReceivedEvents, Reject, Release, Tokens
from app.api.pull.receive import LockedEvent, PullCaller, PullReceiver, trace_receive
from app.api.subscriptions.routes import subscription_of
from app.api.topics import messages
from app.api.topics.messages import json_of
from app.errors import BrokerError
from app.model.pull import HANDED_OUT, Pull, PullSettings
from app.model.subscription import Subscription
from app.telemetry.traces import trace_headers

LARGEST = 1 << 20  # bytes of a request's body
LOST = (
    "lock-lost",
    "the lock has expired, the event is finished, or the token is unknown",
)

_encode = msgspec.json.Encoder().encode

Name = Annotated[str, Path(description="id of the subscription")]
Asked = TypeVar("Asked", bound=BaseModel)
Handler = TypeVar("Handler", bound=Callable[..., Any])


routes = router("/v1/subscriptions", tags=["pull"])


async def _hands(request: Request) -> PullReceiver:
    return cast("PullReceiver", request.app.state.hands)


Hands = Annotated[PullReceiver, Depends(_hands)]
"""A handler parameter: the receiver of this process."""


def _action(verb: str, kind: type[BaseModel], **described: Any) -> Callable[[Handler], Handler]:
    """Return a decorator that adds an operation of a subscription. ``kind`` describes the body for OpenAPI
    only; handlers read bodies themselves, within a limit."""
    content = {bodies.JSON: {"schema": kind.model_json_schema()}}
    return routes.post(
        f"/{{name}}:{verb}",
        operation_id=verb,
        responses=RequestRefused.responses(400, 404, 409, 413, 415, 422, 503),
        openapi_extra={"requestBody": {"required": kind is not Receive, "content": content}},
        **described,
    )


@_action("receive", Receive, response_model=ReceivedEvents)
async def receive(
    subscriptions: SubscriptionsDep,
    brokers: BrokersDep,
    counters: CountersDep,
    clock: ClockDep,
    hands: Hands,
    request: Request,
    name: Name,
) -> Response:
    """Return waiting events, each locked for this consumer. Only the oldest event of each key is returned.
    The next one follows when it is acknowledged, rejected or a dead letter."""
    asked = await _read_request(request, Receive)
    subscription, settings = await _pull_subscription(subscriptions, name)
    _demand_running(subscriptions, subscription)
    began = clock.now()
    async with _caller(request) as caller:
        handed = await hands.receive(
            subscription, settings, asked.max_events, asked.max_wait, caller
        )
    kind = brokers.kinds[subscription.source.broker]
    if handed:
        counters.add("attempts", name, HANDED_OUT, by=len(handed))
        trace_receive(request.headers, subscription, kind, handed, began)
    events = await Slices().rows(handed, lambda each: msgspec.Raw(_received_json(each, kind)))
    return bodies.json_answer({"events": events, "lock": settings.lock})


@_action("acknowledge", Tokens)
async def acknowledge(
    subscriptions: SubscriptionsDep, hands: Hands, request: Request, name: Name
) -> Fates:
    """Acknowledge events. They are finished."""
    asked = await _read_request(request, Tokens)
    await _pull_subscription(subscriptions, name)
    return _results(await hands.acknowledge(name, _unique_tokens(asked)))


@_action("release", Release)
async def release(
    subscriptions: SubscriptionsDep, hands: Hands, request: Request, name: Name
) -> Fates:
    """Give events back. They can be received again after the delay."""
    asked = await _read_request(request, Release)
    await _pull_subscription(subscriptions, name)
    return _results(await hands.release(name, _unique_tokens(asked), asked.delay))


@_action("reject", Reject)
async def reject(
    subscriptions: SubscriptionsDep, hands: Hands, request: Request, name: Name
) -> Fates:
    """Reject events. They become dead letters with the cause `rejected`."""
    asked = await _read_request(request, Reject)
    subscription, _ = await _pull_subscription(subscriptions, name)
    tokens = _unique_tokens(asked)
    detail = asked.reason or "rejected by its consumer"
    try:
        return _results(await hands.reject(subscription, tokens, detail))
    except BrokerError as error:
        failed = "dead-letter-topic", f"the copy of the dead letter is not stored: {error}"
        return _results(dict.fromkeys(tokens, False), failed)


@_action("renew", Tokens)
async def renew(
    subscriptions: SubscriptionsDep, hands: Hands, request: Request, name: Name
) -> Fates:
    """Extend the locks of events to their full length from now."""
    asked = await _read_request(request, Tokens)
    _, settings = await _pull_subscription(subscriptions, name)
    return _results(await hands.renew(name, _unique_tokens(asked), settings.lock))


async def _read_request(request: Request, kind: type[Asked]) -> Asked:
    """Return the body as a model of ``kind``. A missing body of ``receive`` means its defaults."""
    if kind is Receive and not _has_body(request):
        return kind()
    given = await bodies.read_object(request, LARGEST)
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise RequestRefused(422, "bad-request", "; ".join(faults)) from None


def _has_body(request: Request) -> bool:
    given = request.headers
    return "transfer-encoding" in given or given.get("content-length", "0") != "0"


async def _pull_subscription(
    subscriptions: Subscriptions, name: str
) -> tuple[Subscription, PullSettings]:
    """Return a pull subscription and its settings. Raise Refused with 409 if the subscription has another
    sink."""
    subscription = await subscription_of(subscriptions, name)
    if not isinstance(subscription.sink, Pull):
        raise RequestRefused(
            409,
            "not-pulled",
            f"subscription {name} delivers its events to {subscription.sink_text}. Only one with"
            " sink: {pull: {}} has a pull queue. To watch its events, read /v1/subscriptions/"
            f"{name}/events",
        )
    return subscription, subscription.sink.pull


def _demand_running(subscriptions: Subscriptions, subscription: Subscription) -> None:
    """Raise Refused with 409 if the subscription is paused. Events that are locked already can still be
    finished."""
    halt = subscriptions.halts().get(subscription.id)
    cause = halt.cause if halt else "by its configuration" if subscription.paused else None
    if cause is not None:
        detail = f"{subscription.id} is paused: {cause}"
        raise RequestRefused(409, "paused", detail)


@contextlib.asynccontextmanager
async def _caller(request: Request) -> AsyncIterator[PullCaller]:
    """Yield the client, and mark it as gone when its connection is lost, so that no events are locked for it."""
    known = caller_of(request.scope)
    caller = PullCaller("" if known is None else known.name)

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        caller.gone.set()

    watching = asyncio.create_task(watch(), name="caller")
    try:
        yield caller
    finally:
        watching.cancel()


def _received_json(handed: LockedEvent, kind: str) -> bytes:
    """Return the JSON of ``answers.Received`` for a locked event."""
    row, decoded = handed
    about = {"lock_token": row.token, "delivery_count": row.deliveries}
    properties = _encode(about | trace_headers(row.message.record.headers))
    document = json_of(decoded)
    if document is not None:
        return b'{"event":%b,"broker_properties":%b}' % (document, properties)
    record = messages.to_json(row.message, kind)
    return b'{"event":null,"broker_properties":%b,"record":%b}' % (properties, record)


def _unique_tokens(asked: Tokens) -> Sequence[str]:
    """Return the tokens without repetitions."""
    return list(dict.fromkeys(asked.tokens))


def _results(done: Mapping[str, bool], why: tuple[str, str] = LOST) -> Fates:
    """Return the answer for the results by token. ``why`` is the code and detail of each failure."""
    code, detail = why
    return Fates(
        succeeded=[token for token, well in done.items() if well],
        failed=[
            Failed(token=token, code=code, detail=detail)
            for token, well in done.items()
            if not well
        ],
    )
