"""Bounds of a subscription: events in one request, requests in flight, and events read ahead."""

from __future__ import annotations

from app.delivery.request_batching import BatchLimits
from app.model.pull import Pull
from app.model.subscription import Subscription

TRANSACTION = BatchLimits(500, 2**23, 0.0)  # events that enter a pull queue in one transaction


def bounds_of(subscription: Subscription) -> BatchLimits | None:
    """Return the limits of requests with several events, or None if each event is sent alone."""
    if isinstance(subscription.sink, Pull):
        return TRANSACTION
    batch = subscription.batch
    return None if batch is None else BatchLimits(batch.max_events, batch.max_bytes, batch.max_wait)


def requests_in_flight(subscription: Subscription) -> int:
    """Return the number of requests that may be in flight at once."""
    return 1 if isinstance(subscription.sink, Pull) else subscription.concurrency


def read_ahead(subscription: Subscription) -> int:
    """Return the number of replayed events, or of redriven rows, that may be held at once."""
    pulled = isinstance(subscription.sink, Pull)
    return TRANSACTION.events if pulled else 2 * subscription.concurrency


def lanes_in_flight(subscription: Subscription) -> int:
    """Return the number of keys (lanes) that may have a request in flight at once."""
    bounds = bounds_of(subscription)
    return requests_in_flight(subscription) * (1 if bounds is None else bounds.events)
