"""Shell. Events for the demo and for tests: example webhooks of GitHub, or generated events.

The generator is for machines without npm. It generates the orders of an imaginary shop. Each order
is placed, then paid, then sent, so the events of one customer must keep their order. The same seed
gives the same events.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from app.bindings.http import HttpMessage
from app.cli.feed import github, payloads
from app.errors import SetupError
from app.event.value import CloudEvent, DataForm

_STEPS = ("created", "paid", "packed", "shipped")
CUSTOMERS = 20
DISPUTED = 0.04  # share of payments that are disputed instead
SECRET = "a-secret-of-the-demo"  # noqa: S105 - signs public examples


class Feed(NamedTuple):
    """Events to send, with a description of their origin.

    ``webhooks`` has a signed webhook request for each event. If the events are sent as CloudEvents,
    ``webhooks`` is empty.
    """

    origin: str
    events: list[CloudEvent]
    webhooks: tuple[HttpMessage, ...] = ()


def github_feed(environ: Mapping[str, str], received: str) -> Feed:
    """Return an event for every example webhook of the npm package. ``received`` is an RFC 3339
    time.

    Raises:
        SetupError: If the package is not in the cache and npm cannot fetch it.
    """
    found = [
        (name, body, github.delivery_of(name, index, body))
        for index, (name, body) in enumerate(payloads.payloads(payloads.cache_folder(environ)))
    ]
    return Feed(
        f"{len(found)} GitHub webhook payloads of npm {payloads.PACKAGE}",
        [github.to_event(name, body, delivery=id_, received=received) for name, body, id_ in found],
        tuple([
            github.webhook(name, body, delivery=id_, secret=SECRET) for name, body, id_ in found
        ]),
    )  # fmt: skip


def load_feed(environ: Mapping[str, str], received: str, count: int) -> Feed:
    """Return GitHub's example webhooks. If their npm package cannot be fetched, return ``count``
    generated events.
    """
    try:
        return github_feed(environ, received)
    except SetupError as why:
        return generated_feed(count, received, f" ({why.args[0].rstrip('.')})")


def generated_feed(count: int, received: str, why: str = "") -> Feed:
    return Feed(f"{count} generated events{why}", orders(count, received=received))


def orders(count: int, *, received: str, seed: int = 329) -> list[CloudEvent]:
    """Return ``count`` generated events. ``received`` is the RFC 3339 time of each."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    feed = _steps(chance)
    return [_event(number, *next(feed), received=received) for number in range(count)]


def _steps(chance: random.Random) -> Iterator[tuple[int, int, str]]:
    """Yield customer, order and step, without end. The orders of different customers are mixed."""
    open_orders: list[tuple[int, int, int]] = []
    number = 0
    while True:
        if not open_orders or chance.random() < 1 / len(_STEPS):
            number += 1
            open_orders.append((chance.randrange(CUSTOMERS), number, 0))
        customer, order, step = open_orders.pop(chance.randrange(len(open_orders)))
        is_disputed = step == 1 and chance.random() < DISPUTED
        yield customer, order, "disputed" if is_disputed else _STEPS[step]
        if step + 1 < len(_STEPS):
            open_orders.append((customer, order, step + 1))


def _event(number: int, customer: int, order: int, step: str, *, received: str) -> CloudEvent:
    attributes = {
        "specversion": "1.0",
        "id": f"generated-{number:06}",
        "source": f"https://shop.example/customers/{customer}",
        "type": f"com.example.order.{step}",
        "subject": str(order),
        "time": received,
        "datacontenttype": "application/json",
        "partitionkey": f"customer-{customer}",
    }
    data = msgspec.json.encode({"order": order, "customer": customer, "step": step})
    return CloudEvent(attributes, data, DataForm.JSON)
