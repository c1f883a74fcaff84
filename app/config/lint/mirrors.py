"""Checks of sinks that are topics: brokers that are there, places that can be, and no circles."""

from __future__ import annotations

from app.config.lint.reach import Ways, feeds, may_both_match
from app.config.lint.report import Report
from app.config.lint.routes import fits_broker
from app.config.load.finding import Path
from app.model.route import Exchange, Target
from app.model.subscription import Subscription
from app.routing.places import is_fixed

Hop = tuple[int, Subscription, Target]
"""A subscription, where it stands in the list, and the topic that it mirrors to."""


def check_mirrors(report: Report) -> None:
    hops: list[Hop] = []
    for n, subscription in enumerate(report.config.subscriptions):
        target = subscription.sink
        at: Path = ("subscriptions", n, "sink")
        if not isinstance(target, Target | Exchange) or not report.broker(
            (*at, "broker"), target.broker
        ):
            continue
        fits_broker(report, at, target)
        if isinstance(target, Target):
            hops.append((n, subscription, target))
    ways = Ways(hops, lambda hop, other: _leads_to(hop, other[1]))
    for number, hop in enumerate(hops):
        if not _own_source(report, hop):
            _circle(report, number, hop, ways)


def _own_source(report: Report, hop: Hop) -> bool:
    """A mirror into its own source would read what it writes for ever. What a template makes is looked
    at again for each event."""
    n, subscription, target = hop
    if not _leads_to(hop, subscription):
        return False
    at: Path = ("subscriptions", n, "sink", "topic")
    if is_fixed(target):
        report.error(
            at,
            "is a source of the same subscription: events would loop for ever",
            "name another topic",
        )
    else:
        report.warning(
            at,
            "can become a source of the same subscription: such events become dead letters",
            "write fixed text into the template, or filter by its attributes",
        )
    return True


def _circle(report: Report, number: int, start: Hop, ways: Ways[Hop]) -> None:
    """Two mirrors that feed each other, or more of them: told at the first of them in the file."""
    found = ways.home(number, _may_follow)
    way = next((each for each in found if len(each) > 1), None)
    if way is None or start[0] != min(n for n, _, _ in way):
        return
    names = " → ".join(repr(subscription.id) for _, subscription, _ in (*way, start))
    certain = all(is_fixed(target) for _, _, target in way)
    say = report.error if certain else report.warning
    say(
        ("subscriptions", start[0], "sink"),
        f"is a loop: {names}: an event would be copied for ever",
        "filter by an attribute that names the origin of an event, or remove one of them",
    )


def _leads_to(hop: Hop, reader: Subscription) -> bool:
    _, subscription, target = hop
    return target.broker == reader.source.broker and any(
        feeds(target, subscription.filters, topic) for topic in reader.source.topics
    )


def _may_follow(way: list[Hop], hop: Hop) -> bool:
    """Whether some event may pass the filters of all of them."""
    return all(may_both_match(earlier.filters, hop[1].filters) for _, earlier, _ in way)
