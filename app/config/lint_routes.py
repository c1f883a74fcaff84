"""Checks of routes: targets that exist, templates that can be made, rules that can be reached."""

from __future__ import annotations

from app.config.brokers import KafkaBroker
from app.config.finding import Path, did_you_mean
from app.config.key_mappers import known_mappers, load_key_mappers
from app.config.reach import shadows
from app.config.report import Report
from app.errors import SetupError
from app.model.route import Route
from app.routing.keys import compile_key
from app.routing.templates import compile_topic, placeholders


def check_routes(report: Report) -> None:
    routes = report.config.routes
    report.duplicates("routes", "name", [route.name for route in routes])
    if not routes:
        report.warning(("routes",), "there is none: every event is answered 422", "add a route")
    for n, route in enumerate(routes):
        _targets(report, n, route)
        _key(report, n, route)
        _reachable(report, n, route)
    _topics_exist(report)


def _targets(report: Report, n: int, route: Route) -> None:
    for m, target in enumerate(route.to):
        path = target_path(report, n, m)
        report.broker((*path, "broker"), target.broker)
        try:
            compile_topic(target.topic)
        except SetupError as error:
            report.refused((*path, "topic"), error)
        if target in route.to[:m]:
            report.error(path, "is named twice", "keep one")


def target_path(report: Report, n: int, m: int) -> Path:
    """``to`` may be written as one target or as a list of them."""
    return report.loaded.written(("routes", n, "to", m)) or ("routes", n, "to")


def _key(report: Report, n: int, route: Route) -> None:
    """Own mappers are loaded, so that one that cannot be is found before the start."""
    path: Path = ("routes", n, "key")
    known = known_mappers(route.key.mapper)
    if route.key.mapper not in known:
        message = f"there is no key mapper {route.key.mapper!r}"
        report.error((*path, "mapper"), message, did_you_mean(route.key.mapper, known))
        return
    try:
        compile_key(route.key, own=load_key_mappers([route]))
    except SetupError as error:
        report.refused((*path, error.setting.rpartition(".")[2]), error)


def _reachable(report: Report, n: int, route: Route) -> None:
    for m, earlier in enumerate(report.config.routes[:n]):
        if shadows(earlier.filters, route.filters):
            report.warning(
                ("routes", n),
                f"route {route.name!r} never matches: {earlier.name!r} (routes[{m}]) takes its "
                f"events first; only /events/{route.name} reaches it",
                f"put it before {earlier.name!r}, or narrow that one's filters",
            )
            return


def _topics_exist(report: Report) -> None:
    """On a Kafka where we make no topics, somebody else must."""
    seen: set[tuple[str, str]] = set()
    for path, broker, topic in _topics(report):
        settings = report.config.brokers.get(broker)
        if not isinstance(settings, KafkaBroker) or settings.topics.create:
            continue
        if (broker, topic) not in seen:
            seen.add((broker, topic))
            what = "the topics of this template" if placeholders(topic) else f"topic {topic!r}"
            report.warning(
                path,
                f"{what} must exist on {broker!r}: nobody creates it",
                f"create it, or set brokers.{broker}.topics.create: true",
            )


def _topics(report: Report) -> list[tuple[Path, str, str]]:
    config = report.config
    found: list[tuple[Path, str, str]] = [
        ((*target_path(report, n, m), "topic"), target.broker, target.topic)
        for n, route in enumerate(config.routes)
        for m, target in enumerate(route.to)
    ]
    for n, subscription in enumerate(config.subscriptions):
        source, letters = subscription.source, subscription.dead_letter
        at: Path = ("subscriptions", n)
        found += [
            ((*at, "source", "topics", m), source.broker, topic)
            for m, topic in enumerate(source.topics)
        ]
        if letters is not None:
            found.append(((*at, "dead_letter", "topic"), letters.broker, letters.topic))
    return found
