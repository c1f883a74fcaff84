"""``POST /v1/subscriptions/{id}:retry``: try waiting events before they are due.

The request is a row in the store. Every worker that runs the subscription reads it, because each delivers some of
the keys, and adds its result to the row.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Body
from pydantic import BaseModel, ConfigDict, Field

from app.api.access.operations import router
from app.api.access.parts import RegistryDep, StoreDep, WakeupsDep
from app.api.asked.registry import SubscriptionEntry
from app.api.http.moments import now_ms
from app.api.http.problems import RequestRefused
from app.api.subscriptions.routes import PATH, Id, entry_of
from app.api.subscriptions.verbs import TAKEN_WITHIN, called_subscription
from app.interfaces import Command, Halt, RetryRequest, RetryResult, Store
from app.problems import ProblemCode
from app.sinks.pull_queue import Wakeups

SETTLED = 2.5  # seconds after which no other worker is expected to find something
LOOK = 0.1  # seconds between reads of the store, because several workers may answer

Selector = Annotated[str, Field(max_length=2048, pattern=r"^[^\x00]*$")]


class RetryDocument(BaseModel):
    """The waiting events to try now. Without `key` and `event`, all waiting events of the subscription.
    With both, both must match."""

    model_config = ConfigDict(extra="forbid")

    key: Selector | None = Field(None, description="only this record key, or value of `order_by`")
    event: Selector | None = Field(None, description="only the key of the event with this id")
    force: bool = Field(
        False, description="true to try before the end of a wait that the target asked for"
    )


class RetryAnswer(BaseModel):
    """The result of a request to try waiting events."""

    keys: int = Field(
        description="number of waiting keys that are due now; an event without a key counts as one"
    )
    probe: bool = Field(
        description="true if the endpoint was paused; it is probed now, and the keys follow its answer"
    )
    retry_after: float | None = Field(
        description="seconds that the endpoint still waits because the target asked for it (Retry-After); null if "
        "it does not. `force` ends this wait"
    )


routes = router(PATH, tags=["subscriptions"])


@routes.operation("POST /{id}:retry", "retry_subscription", (404, 409, 503, 504))
async def retry(
    registry: RegistryDep,
    store: StoreDep,
    wakeups: WakeupsDep,
    id: Id,
    body: Annotated[RetryDocument | None, Body()] = None,
) -> RetryAnswer:
    """Try waiting events now instead of at the end of their waits. A paused endpoint is probed at once.

    A try that fails takes no step of the retry schedule, and the event waits until the earlier time. 404 if no
    event of the key waits. 409 if the subscription is paused or disabled; `:resume` ends that.
    """
    entry = await entry_of(registry, id)
    _demand_delivering(entry, (await store.halts.all()).get(entry.id))
    document = body or RetryDocument.model_validate({})
    asked = RetryRequest(key=document.key, event=document.event, force=document.force)
    command = Command(
        subscription=entry.id,
        kind="retry",
        body=msgspec.json.encode(asked),
        asked_ms=now_ms(store.clock),
    )
    number = await store.commands.ask(command)
    await registry.nudge()
    result = await _result(store, wakeups, entry.id, number)
    if asked.selects and not result.found:
        what = f"event {asked.event}" if asked.key is None else f"key {asked.key}"
        raise RequestRefused(
            404,
            "not-waiting",
            f"{what} does not wait at {entry.id}. See skybridge parked and skybridge find",
        )
    return RetryAnswer(keys=result.keys, probe=result.probe, retry_after=result.retry_after)


def _demand_delivering(entry: SubscriptionEntry, halt: Halt | None) -> None:
    """Raise Refused with 409 if the subscription is paused, disabled, broken or a pull queue."""
    subscription = called_subscription(entry)
    if halt is not None:
        done: ProblemCode = "paused" if halt.kind == "paused" else "disabled"
        cure = f"Resume it with POST {PATH}/{entry.id}:resume"
        raise RequestRefused(409, done, f"{entry.id} is {done}, so nothing is tried. {cure}")
    if subscription.paused:
        raise RequestRefused(
            409,
            "paused-by-document",
            f"{entry.id} is paused by paused: true in its document, which :resume does not change. Change the"
            " document",
        )


async def _result(store: Store, wakeups: Wakeups, subscription: str, command: int) -> RetryResult:
    """Return the result as soon as a worker found something waiting, or as soon as none is expected to.

    Raises:
        RequestRefused: No worker answered in time (504).
    """

    async def answered() -> RetryResult | None:
        row = await store.commands.get(command)
        done = None if row is None else row.answer
        return None if done is None else msgspec.json.decode(done, type=RetryResult)

    async def found() -> RetryResult | None:
        result = await answered()
        return result if result is not None and result.found else None

    result = await wakeups.until(subscription, found, SETTLED, LOOK)
    result = result or await wakeups.until(subscription, answered, TAKEN_WITHIN - SETTLED, LOOK)
    if result is not None:
        return result
    raise RequestRefused(
        504,
        "no-worker",
        f"no worker answered within {TAKEN_WITHIN:g} s. See /status of the subscription for its state",
    )
