"""Checks of routes: targets that exist, templates that can be made, rules that can be reached."""

from __future__ import annotations

from app.config.derived.key_mappers import known_mappers, load_key_mappers
from app.config.derived.route_resources import load_check
from app.config.lint.reach import Earlier, may_be_one_topic
from app.config.lint.report import Report
from app.config.load.finding import Path, did_you_mean
from app.config.model.brokers import KafkaBroker, PulsarBroker, RabbitBroker
from app.errors import SetupError
from app.model.route import BUILT_IN_MAPPERS, Exchange, OtherRoute, Route, Target
from app.routing.keys import compile_key
from app.routing.places import QUEUE, compile_place
from app.routing.templates import placeholders

_WITH_TOPICS = (KafkaBroker, RabbitBroker, PulsarBroker)


def check_routes(report: Report) -> None:
    routes = report.config.routes
    report.duplicates("routes", "name", [route.name for route in routes])
    if not routes:
        _nothing_comes_by_http(report)
    earlier = Earlier()
    for n, route in enumerate(routes):
        _targets(report, n, route)
        _key(report, n, route)
        _reachable(report, n, route, earlier)
        earlier.add(route.filters)
        _schema(report, n, route)
        _deduplicates(report, n, route)
    _topics_exist(report)
    _one_durability(report)


def _nothing_comes_by_http(report: Report) -> None:
    """A worker of what others write needs no route; a process that reads nothing of theirs needs one."""
    if not any(
        report.written_by_others(each.source.broker) for each in report.config.subscriptions
    ):
        report.warning(
            ("routes",),
            "no route is configured: events posted here are answered 422",
            "add a route",
        )


def _targets(report: Report, n: int, route: Route) -> None:
    for m, target in enumerate(route.to):
        path = target_path(report, n, m)
        if report.broker((*path, "broker"), target.broker):
            fits_broker(report, path, target)
            _relaxes_kafka(report, n, route, target)
        if target in route.to[:m]:
            report.error(path, "is named twice", "keep one")


def fits_broker(report: Report, path: Path, target: Target | Exchange) -> None:
    """Of a route or a mirror: whether the broker has such a place."""
    kind = report.config.brokers[target.broker].kind
    if isinstance(target, Exchange) and kind != "rabbitmq":
        report.error(
            (*path, "exchange"),
            f"{target.broker!r} is of kind {kind}, and only rabbitmq has exchanges",
            "name a topic, or a broker of kind rabbitmq",
        )
        return
    try:
        compile_place(target, kind)
    except SetupError as error:
        report.refused((*path, error.setting.rpartition(".")[2]), error)


def _relaxes_kafka(report: Report, n: int, route: Route, target: Target | Exchange) -> None:
    """Rule 1: the other logs have no lesser acknowledgement to offer."""
    kind = report.config.brokers[target.broker].kind
    if route.durability == "relaxed" and kind != "kafka":
        report.error(
            ("routes", n, "durability"),
            f"relaxed is only for Kafka, and {target.broker!r} is of kind {kind}",
            "leave durability out, or give that target its own route",
        )


def _one_durability(report: Report) -> None:
    """Rule 1: who reads a topic must know what its events are worth."""
    seen: dict[tuple[str, object], list[tuple[str, str]]] = {}  # by broker and acknowledgements
    for n, route in enumerate(report.config.routes):
        for m, target in enumerate(route.to):
            if not isinstance(target, Target):
                continue
            mine = (target.broker, route.acknowledgements)
            others = [
                name
                for (broker, acks), known in seen.items()
                if broker == target.broker and acks != route.acknowledgements
                for name, topic in known
                if may_be_one_topic(topic, target.topic)
            ]
            if others:
                report.error(
                    (*target_path(report, n, m), "topic"),
                    f"route {others[0]!r} publishes to this topic with another durability",
                    "set the same durability and acks on both routes, or name another topic",
                )
            seen.setdefault(mine, []).append((route.name, target.topic))


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
    if not report.looks and route.key.mapper not in BUILT_IN_MAPPERS:
        return  # a proposed configuration runs no code of ours
    try:
        compile_key(route.key, own=load_key_mappers([route]))
    except SetupError as error:
        report.refused((*path, error.setting.rpartition(".")[2]), error)


def _schema(report: Report, n: int, route: Route) -> None:
    """Schemas are compiled, so that one that cannot be is found before the start."""
    setting = route.data_schema
    if setting is None:
        return
    path: Path = ("routes", n, "schema")
    if report.looks:
        try:
            load_check(setting, "schema")
        except SetupError as error:
            report.refused((*path, *error.setting.split(".", 2)[1:]), error)
    if isinstance(setting.on_invalid, OtherRoute):
        _takes_invalid(report, (*path, "on_invalid", "route"), route, setting.on_invalid.route)


def _takes_invalid(report: Report, path: Path, route: Route, name: str) -> None:
    other = next((each for each in report.config.routes if each.name == name), None)
    if other is None:
        names = [each.name for each in report.config.routes if each is not route]
        report.error(path, f"there is no route {name!r}", did_you_mean(name, names))
    elif other.data_schema is not None:
        report.error(
            path,
            f"route {name!r} has a schema of its own",
            "name a route without a schema: it must take what does not match",
        )


def _deduplicates(report: Report, n: int, route: Route) -> None:
    if route.deduplicate is None:
        return
    for target in route.to:
        broker = report.config.brokers.get(target.broker)
        if broker is not None and broker.kind != "embedded":
            report.warning(
                ("routes", n, "deduplicate"),
                f"events on {target.broker!r} are remembered in the memory of each gateway: a restart "
                "forgets them, and another gateway does not know them",
                "publish to an embedded log first where a repeat must never be stored, or leave it so",
            )
            return


def _reachable(report: Report, n: int, route: Route, earlier: Earlier) -> None:
    m = earlier.shadow_of(route.filters)
    if m is not None:
        before = report.config.routes[m].name
        report.warning(
            ("routes", n),
            f"route {route.name!r} never matches: {before!r} (routes[{m}]) takes its "
            f"events first; only /events/{route.name} reaches it",
            f"put it before {before!r}, or narrow that one's filters",
        )


def _topics_exist(report: Report) -> None:
    """Where we make no topics, somebody else must."""
    seen: set[tuple[str, str]] = set()
    for path, broker, topic in _topics(report):
        settings = report.config.brokers.get(broker)
        if not isinstance(settings, _WITH_TOPICS) or settings.topics.create:
            continue
        if topic.startswith(QUEUE):
            continue  # somebody else's by its very name
        if (broker, topic) not in seen:
            seen.add((broker, topic))
            what = "the topics of this template" if placeholders(topic) else f"topic {topic!r}"
            report.warning(
                path,
                f"{what} must exist on {broker!r}: its creation is off",
                f"create it, or set brokers.{broker}.topics.create: true",
            )


def _topics(report: Report) -> list[tuple[Path, str, str]]:
    config = report.config
    found: list[tuple[Path, str, str]] = [
        ((*target_path(report, n, m), "topic"), target.broker, target.topic)
        for n, route in enumerate(config.routes)
        for m, target in enumerate(route.to)
        if isinstance(target, Target)
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
