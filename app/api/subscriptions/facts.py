"""Read the facts about a subscription, from which verdicts follow, in its answer."""

from __future__ import annotations

from app.api.subscriptions.answers import ParkedOfSubscription, SubscriptionView
from app.delivery.subscription_verdicts import SubscriptionFacts


def facts_of(view: SubscriptionView) -> SubscriptionFacts:
    """Return the facts that an answer about a subscription has. A caller without the scope ``data`` gets
    verdicts without the answers of its target. Counts that the store did not report stay unknown."""
    queue, parked = view.queue, view.parked or ParkedOfSubscription()
    return SubscriptionFacts(
        id=view.id,
        state=view.state,
        cause=view.cause,
        last_error=view.last_error,
        broker=view.broker,
        broker_cause="" if view.broker_health.healthy else view.broker_health.cause,
        paused_for=view.paused_for,
        failures=view.failures,
        failing_for=view.failing_for,
        held=view.held,
        waiting=view.waiting,
        oldest=view.oldest or 0.0,
        lag=view.lag,
        lag_grew=view.lag_grew,
        lag_grows_for=view.lag_grows_for,
        queued=0 if queue is None else queue.waiting,
        queue_bound=None if queue is None else queue.most,
        queue_oldest=(queue and queue.oldest_seconds) or 0.0,
        parked=None if view.parked is None else parked.rows - parked.redriven,
        parked_keys=parked.keys,
        parked_keyless=parked.keyless,
        parked_oldest=parked.oldest_seconds or 0.0,
        letters=view.dead_letters,
    )
