"""What of the routes can run, and how: all that cannot is told before anything is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from app.errors import SetupError
from app.model.route import BUILT_IN_MAPPERS, Exchange, Route, Target
from app.pipeline.predicate import reasons
from app.pipeline.reroute.texts import pieces
from app.pipeline.reroute.writing import why_exact
from app.pipeline.settings import KafkaPlace, Reroute
from app.routing.plan import Router, writing_of


class Step(msgspec.Struct, frozen=True):
    """One route. ``exactly``: why all of its records go the exact way; empty: only those in doubt do."""

    route: Route
    exactly: tuple[str, ...] = ()

    def __str__(self) -> str:
        places = ", ".join(f"{each.broker}:{each.place}" for each in self.route.to)
        way = f"exactly, for {'; '.join(self.exactly)}" if self.exactly else "natively"
        return f"{self.route.name} -> {places}, {way}"


class Plan(msgspec.Struct, frozen=True):
    """A job that can run, route for route. ``notes``: what is otherwise than in the gateway."""

    job: Reroute
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()


def plan_of(job: Reroute) -> Plan:
    """Raises SetupError that lists everything that stands in the way."""
    faults = [*_faults(job)]
    if faults:
        raise SetupError(
            "these routes cannot run as a job: " + "; ".join(faults),
            setting="routes",
            cure="change them, or give the job a configuration file of its own",
        )
    Router(job.routes)  # SetupError for a template that is wrong
    steps = tuple(Step(route, tuple(_exactly(route))) for route in job.routes)
    return Plan(job, steps, tuple(_notes(job)))


def _faults(job: Reroute) -> Iterator[str]:
    if not job.topics:
        yield "no topic is named to read from"
    if not job.routes:
        yield "the configuration has no route"
    if job.rejects is not None and job.rejects in job.topics:
        yield f"the rejects go to {job.rejects}, which the job reads"
    for n, route in enumerate(job.routes):
        yield from map(str, reasons(route.filters, path=f"routes[{n}].filters"))
        if route.key.mapper not in BUILT_IN_MAPPERS:
            yield f"routes[{n}].key.mapper: {route.key.mapper} is code of your own, which no cluster has"
        yield from (f"routes[{n}].{each}" for each in _of_the_gateway(route))
        for place, target in enumerate(route.to):
            for fault in _target_faults(job, target):
                yield f"routes[{n}].to[{place}]: {fault}"


def _of_the_gateway(route: Route) -> Iterator[str]:
    settings = {"schema": route.data_schema, "deduplicate": route.deduplicate}
    for name, setting in settings.items():
        if setting is not None:
            yield f"{name}: only the gateway does that, and a job reads what a log has taken already"


def _target_faults(job: Reroute, target: Target | Exchange) -> Iterator[str]:
    place = job.places.get(target.broker)
    if isinstance(target, Exchange) or place is None:
        yield f"{target.broker} is no Kafka, and no embedded log with a Kafka listener"
    elif _same(place, job.source):
        for topic in job.topics:
            if _may_be(target.topic, topic):
                may = "is" if target.topic == topic else f"may be {topic},"
                yield f"{target.topic} {may} a topic that the job reads: its records would go round"


def _same(one: KafkaPlace, other: KafkaPlace) -> bool:
    return one.broker == other.broker or one.bootstrap_servers == other.bootstrap_servers


def _may_be(template: str, topic: str) -> bool:
    """Whether there are attributes that make this topic of a template."""
    found = (".+" if place % 2 else re.escape(text) for place, text in enumerate(pieces(template)))
    return re.fullmatch("".join(found), topic) is not None


def _exactly(route: Route) -> Iterator[str]:
    if route.key.mapper == "pointer":
        yield "its key is looked up in the data"
    if why := why_exact(writing_of(route)):
        yield why


def _notes(job: Reroute) -> Iterator[str]:
    relaxed = [route.name for route in job.routes if route.durability == "relaxed"]
    if relaxed:
        yield f"durability relaxed is not followed: all replicas have every record ({', '.join(relaxed)})"


def brokers_of(steps: Sequence[Step], places: Mapping[str, KafkaPlace]) -> list[KafkaPlace]:
    """Those that are written to, each once."""
    names = dict.fromkeys(target.broker for step in steps for target in step.route.to)
    return [places[name] for name in names]
