"""Checks of replies: routes that are there, and answers that come back as questions."""

from __future__ import annotations

from collections.abc import Iterator

from app.config.lint.reach import Ways, feeds
from app.config.lint.report import Report
from app.config.load.finding import Path, did_you_mean
from app.model.route import Exchange, Route, Target
from app.model.subscription import IGNORE, Subscription

Written = tuple[Target | Exchange, ...]
"""The places that a subscription publishes to."""


def check_replies(report: Report) -> None:
    routes = {route.name: route for route in report.config.routes}
    if IGNORE in routes:
        n = list(routes).index(IGNORE)
        report.warning(
            ("routes", n, "name"), "no reply can name this route", f"a name other than {IGNORE}"
        )
    subscriptions = report.config.subscriptions
    ways = Ways(subscriptions, lambda one, other: _reads(other, tuple(_written(one, routes))))
    for n, subscription in enumerate(subscriptions):
        if subscription.reply == IGNORE:
            continue
        at: Path = ("subscriptions", n, "reply")
        if subscription.reply not in routes:
            report.error(
                at,
                f"there is no route {subscription.reply!r}",
                did_you_mean(subscription.reply, routes),
            )
        else:
            _circle(report, at, next(ways.home(n), None))


def _circle(report: Report, at: Path, way: list[Subscription] | None) -> None:
    """What a webhook answers is not known: its filters may keep its own answers from it."""
    if way is None:
        return
    names = " → ".join(repr(each.id) for each in (*way, way[0]))
    report.warning(
        at,
        f"answers may loop: {names}: the bound on replies ends the loop",
        "publish replies to a separate topic, or filter by type",
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
