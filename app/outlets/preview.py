"""Show the request that a subscription would send for an event, with its secrets hidden."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from app.delivery.target_url import read_url
from app.errors import SetupError
from app.event.value import CloudEvent
from app.model.secret import HIDDEN
from app.model.subscription import Subscription
from app.outlets.compiled import Outlet, compile_outlet
from app.outlets.request import SPARE
from app.routing.hops import Preview, ShapedPreview


def compile_preview(subscriptions: Iterable[Subscription], max_body: int = sys.maxsize) -> Preview:
    """Compile the requests of the subscriptions. A request that cannot be compiled is not shown.

    Args:
        subscriptions: the subscriptions.
        max_body: most bytes of the body of an event; any number by default.
    """
    outlets: dict[str, Outlet] = {}
    for each in subscriptions:
        if each.request is None:
            continue
        try:
            outlets[each.id] = compile_outlet(
                each.request, each.webhook_url, lambda _secret: HIDDEN, max_body + SPARE
            )
        except (SetupError, ValueError):
            continue

    def preview(subscription: Subscription, event: CloudEvent) -> ShapedPreview | None:
        outlet = outlets.get(subscription.id)
        if outlet is None:
            return None
        made = outlet.shape(event)
        url = read_url(subscription.webhook_url)
        target = f"/{HIDDEN}" if subscription.hides_sink else made.target
        return ShapedPreview(
            made.method,
            f"{url.scheme}://{url.authority}{target}",
            made.message.headers,
            made.message.body.decode("utf-8", "replace"),
        )

    return preview
