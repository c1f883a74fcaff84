"""How many events a subscription may have in one request, on the wire, and read ahead."""

from __future__ import annotations

from app.delivery.request_batching import BatchLimits
from app.model.pull import Pull
from app.model.subscription import Subscription

TRANSACTION = BatchLimits(500, 2**23, 0.0)  # of events that become rows of a queue together


def bounds_of(subscription: Subscription) -> BatchLimits | None:
    """Return the bounds of its requests of several events; None where each event goes alone."""
    if isinstance(subscription.sink, Pull):
        return TRANSACTION
    batch = subscription.batch
    return None if batch is None else BatchLimits(batch.max_events, batch.max_bytes, batch.max_wait)


def requests_in_flight(subscription: Subscription) -> int:
    """Return how many requests may be in flight at once."""
    return 1 if isinstance(subscription.sink, Pull) else subscription.concurrency


def read_ahead(subscription: Subscription) -> int:
    """Return how many events of a replay, or redriven rows, may be held at a time."""
    pulled = isinstance(subscription.sink, Pull)
    return TRANSACTION.events if pulled else 2 * subscription.concurrency


def lanes_in_flight(subscription: Subscription) -> int:
    """Return how many lanes may be in flight at once."""
    bounds = bounds_of(subscription)
    return requests_in_flight(subscription) * (1 if bounds is None else bounds.events)
