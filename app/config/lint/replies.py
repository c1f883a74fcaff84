"""Checks of replies: their routes exist, and no reply causes further replies in a loop."""

from __future__ import annotations

from collections.abc import Iterator

from app.config.lint.reach import FlowGraph, feeds
from app.config.lint.report import LintReport
from app.config.load.finding import Path, did_you_mean
from app.model.route import Exchange, Route, Target
from app.model.subscription import IGNORE, Subscription

Written = tuple[Target | Exchange, ...]
"""The targets that a subscription publishes to."""


def check_replies(report: LintReport) -> None:
    routes = {route.name: route for route in report.config.routes}
    if IGNORE in routes:
        n = list(routes).index(IGNORE)
        report.warning(
            ("routes", n, "name"),
            f"The route name {IGNORE} is reserved for subscriptions that do not publish replies. No subscription can publish replies by this route.",
            "Choose another name.",
        )
    subscriptions = report.config.subscriptions
    graph = FlowGraph(subscriptions, lambda one, other: _reads(other, tuple(_written(one, routes))))
    for n, subscription in enumerate(subscriptions):
        if subscription.reply == IGNORE:
            continue
        at: Path = ("subscriptions", n, "reply")
        if subscription.reply not in routes:
            report.error(
                at,
                f"The route {subscription.reply!r} does not exist.",
                did_you_mean(subscription.reply, routes),
            )
        else:
            _check_loop(report, at, next(graph.cycles_from(n), None))


def _check_loop(report: LintReport, at: Path, cycle: list[Subscription] | None) -> None:
    """Warn of replies that may cause each other in a loop. This is only a warning: the replies are
    unknown, so filters may prevent the loop.
    """
    if cycle is None:
        return
    names = " → ".join(repr(each.id) for each in (*cycle, cycle[0]))
    report.warning(
        at,
        f"The replies of these subscriptions may cause each other in a loop, until the limit on replies ends the loop: {names}.",
        "Publish the replies to a separate topic, or filter the events of these subscriptions by type.",
    )


def _written(subscription: Subscription, routes: dict[str, Route]) -> Iterator[Target | Exchange]:
    sink = subscription.sink
    if isinstance(sink, Target | Exchange):
        yield sink
    elif subscription.reply in routes:
        yield from routes[subscription.reply].to


def _reads(reader: Subscription, written: Written) -> bool:
    return any(
        place.broker == reader.source.broker and feeds(place, (), topic)
        for place in written
        for topic in reader.source.topics
    )
