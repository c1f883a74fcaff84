"""Checks of subscriptions: sources that exist and are fed, keys that give an order, no circles."""

from __future__ import annotations

from app.config.lint.reach import feeds, may_both_match, may_have_no_key
from app.config.lint.report import Report
from app.config.load.finding import Path
from app.config.model.brokers import RabbitBroker
from app.model.position import impossible
from app.model.route import Exchange, Route, Target
from app.model.start import Start
from app.model.subscription import Subscription
from app.routing.places import QUEUE, is_place
from app.routing.templates import not_a_spool


def check_subscriptions(report: Report) -> None:
    subscriptions = report.config.subscriptions
    report.duplicates("subscriptions", "id", [each.id for each in subscriptions])
    for n, subscription in enumerate(subscriptions):
        _source(report, n, subscription)
        _start(report, n, subscription)
        _shared_queues(report, n, subscription)
        _dead_letters(report, n, subscription)
        _order(report, n, subscription)


def _source(report: Report, n: int, subscription: Subscription) -> None:
    at: Path = ("subscriptions", n, "source")
    known = report.broker((*at, "broker"), subscription.source.broker)
    for m, topic in enumerate(subscription.source.topics):
        if not is_place(topic, _kind(report, subscription.source.broker)):
            report.error(
                (*at, "topics", m),
                "is not a topic name",
                f"1 to 249 of a-z A-Z 0-9 . _ -{not_a_spool(topic)}",
            )
        elif known and not topic.startswith(QUEUE) and not _fed(report, subscription, topic):
            report.warning(
                (*at, "topics", m),
                f"no route can feed {subscription.id!r} from topic {topic!r} of "
                f"{subscription.source.broker!r}{_why(report, subscription, topic)}",
                "add a route to it, or correct broker, topic or filters",
            )


def _kind(report: Report, broker: str) -> str:
    settings = report.config.brokers.get(broker)
    return "embedded" if settings is None else settings.kind


def _fed(report: Report, subscription: Subscription, topic: str) -> bool:
    """By a route, by a mirror, or by others, where the broker is not ours alone."""
    if report.written_by_others(subscription.source.broker):
        return True
    told = report.config.operator_events
    if told is not None and (told.broker, told.topic) == (subscription.source.broker, topic):
        return True
    return bool(_feeding(report, subscription, topic)) or any(
        isinstance(other.sink, Target | Exchange)
        and other.sink.broker == subscription.source.broker
        and feeds(other.sink, other.filters, topic)
        and may_both_match(other.filters, subscription.filters)
        for other in report.config.subscriptions
    )


def _feeding(report: Report, subscription: Subscription, topic: str) -> list[Route]:
    """The routes that write to the topic events that the subscription may want."""
    return [
        route
        for route in _writing(report, subscription, topic)
        if may_both_match(route.filters, subscription.filters)
    ]


def _writing(report: Report, subscription: Subscription, topic: str) -> list[Route]:
    return [
        route
        for route in report.config.routes
        if any(
            target.broker == subscription.source.broker and feeds(target, route.filters, topic)
            for target in route.to
        )
    ]


def _why(report: Report, subscription: Subscription, topic: str) -> str:
    if _writing(report, subscription, topic):
        return ": its filters match none of the events of that topic"
    return ""


def _start(report: Report, n: int, subscription: Subscription) -> None:
    """A queue has no past: what is in it is what there is. A stream has one."""
    settings = report.config.brokers.get(subscription.source.broker)
    if not isinstance(settings, RabbitBroker) or settings.queue_type == "stream":
        _positions(report, n, subscription)
    elif not isinstance(subscription.start, str):
        report.error(
            ("subscriptions", n, "start"),
            "a RabbitMQ queue begins with its present messages: it has neither positions nor times",
            "write latest or earliest, or set queue_type: stream on the broker",
        )


def _positions(report: Report, n: int, subscription: Subscription) -> None:
    start, kind = subscription.start, _kind(report, subscription.source.broker)
    for number, text in (start.position or {}).items() if isinstance(start, Start) else ():
        if reason := impossible(kind, number, text):
            report.error(
                ("subscriptions", n, "start", "position", number),
                reason,
                "name a position that the log holds, a time, earliest or latest",
            )


def _shared_queues(report: Report, n: int, subscription: Subscription) -> None:
    """On RabbitMQ groups that share queues share their messages too."""
    source = subscription.source
    settings = report.config.brokers.get(source.broker)
    if not isinstance(settings, RabbitBroker) or settings.queue_type == "stream":
        return
    for m, topic in enumerate(source.topics):
        if "{group}" in settings.queue and not topic.startswith(QUEUE):
            continue
        for earlier in report.config.subscriptions[:n]:
            if earlier.source.broker == source.broker and topic in earlier.source.topics:
                report.warning(
                    ("subscriptions", n, "source", "topics", m),
                    f"{subscription.id!r} shares the queues of {topic!r} with {earlier.id!r}: each "
                    "event goes to one of the two",
                    _queues_apart(source.broker, topic),
                )
                break


def _queues_apart(broker: str, topic: str) -> str:
    """No template gives another name to a queue that others made."""
    if topic.startswith(QUEUE):
        return "bind a queue for each of them"
    return f'write {{group}} into brokers.{broker}.queue: "{{topic}}.{{group}}.{{partition}}"'


def _dead_letters(report: Report, n: int, subscription: Subscription) -> None:
    letters = subscription.dead_letter
    if letters is None:
        return
    at: Path = ("subscriptions", n, "dead_letter")
    report.broker((*at, "broker"), letters.broker)
    if not is_place(letters.topic, _kind(report, letters.broker)):
        report.error(
            (*at, "topic"),
            "is not a topic name",
            "write a plain name: a record that is no CloudEvent has no attributes for a template",
        )
    if letters.broker == subscription.source.broker and letters.topic in subscription.source.topics:
        report.error(
            (*at, "topic"),
            "is a source of the same subscription: dead letters would loop for ever",
            "name another topic",
        )


def _order(report: Report, n: int, subscription: Subscription) -> None:
    """Rule 3: without a key there is no order."""
    if subscription.ordering == "none" or subscription.order_by is not None:
        return
    routes = {
        route.name: route
        for topic in subscription.source.topics
        for route in _feeding(report, subscription, topic)
        if may_have_no_key(route.key)
    }
    if routes:
        names = ", ".join(repr(name) for name in routes)
        report.warning(
            ("subscriptions", n),
            f"{subscription.id!r} keeps order per key, but events of {names} may have no key",
            "give the route a key with missing: reject, set order_by, or ordering: none",
        )
