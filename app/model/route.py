"""A route as a user writes it, in the file and over the API alike."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from app.filters.model import AttributeName as AttributeName  # noqa: PLC0414 - part of the model
from app.filters.model import Filter as Filter  # noqa: PLC0414
from app.model.duration import Count, Duration
from app.model.log_name import Acknowledgements, LogName
from app.model.spool import Spool

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$"
Name = Annotated[str, Field(pattern=_NAME)]
FormatName = Annotated[
    Literal["as_received", "json", "protobuf", "avro"],
    Field(
        description="format of documents: as received (JSON for events in binary mode), or this one"
    ),
]
SpecVersion = Annotated[
    Literal["as_received", "0.1", "0.2", "0.3", "1.0"],
    Field(description="version of CloudEvents in which the event is written"),
]


class Strict(BaseModel):
    """Refuses what it does not know, so that a misspelt setting is an error and not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Target(Strict):
    """A topic to publish to."""

    broker: Name = Field(description="a name under brokers")
    topic: Annotated[str, Field(min_length=1)] = Field(
        description="topic, or a template over attributes: orders.{type}; {{ and }} are braces"
    )

    @property
    def place(self) -> str:
        """For a person: where that is on the broker."""
        return self.topic


class Exchange(Strict):
    """An exchange of RabbitMQ to publish to: the broker's bindings choose the queues."""

    broker: Name = Field(description="a name under brokers, of kind rabbitmq")
    exchange: str = Field(
        description="exchange, or a template over attributes; empty is the default exchange, whose "
        "routing key is the name of a queue"
    )
    routing_key: str = Field(
        "", description="routing key, or a template over attributes: orders.{type}"
    )

    @property
    def place(self) -> str:
        """For a person: where that is on the broker."""
        return f"{self.exchange}:{self.routing_key}"


def _as_number(value: object) -> object:
    """A reference gives text."""
    return int(value) if value in ("0", "1") else value


def _target_form(value: object) -> str:
    """No tag is the name of a setting: findings tell the two apart."""
    if isinstance(value, dict):
        return "at exchange" if "exchange" in value or "routing_key" in value else "at topic"
    return "at exchange" if isinstance(value, Exchange) else "at topic"


RouteTarget = Annotated[
    Annotated[Target, Tag("at topic")] | Annotated[Exchange, Tag("at exchange")],
    Discriminator(_target_form),
]
"""``{broker, topic}``, or on RabbitMQ also ``{broker, exchange, routing_key}``."""


DataPointer = Annotated[str, Field(pattern=r"^(/([^~]|~[01])*)?$")]
"""A JSON Pointer (RFC 6901) into the data of an event; empty: the whole of the data."""

BUILT_IN_MAPPERS = (
    "from_request", "partitionkey", "attribute", "template", "pointer", "hash", "none",
)  # fmt: skip
_MAPPER_SCHEMA = {
    "anyOf": [
        {"enum": list(BUILT_IN_MAPPERS), "type": "string"},
        {"pattern": _NAME, "type": "string"},
    ]
}  # editors offer the built-in ones


class KeyPolicy(Strict):
    """How the record key is computed (Kafka binding 3.1). A mapper never changes the event (K10).

    ``from_request``  the sender's own key: header ``Skybridge-Key`` or query ``key`` (K7, default)
    ``partitionkey``  the Partitioning extension's attribute, as is (K9); an empty one is none
    ``attribute``     the attribute named by ``attribute``
    ``template``      ``template`` over attributes: ``{source}/{subject}``
    ``pointer``       the value at the JSON Pointer ``pointer`` in data
    ``hash``          a digest of the attributes named by ``attributes``
    ``none``          no key

    Any other name is an operator's own mapper, an entry point of the group ``skybridge.key_mappers``.
    """

    mapper: Annotated[Name, WithJsonSchema(_MAPPER_SCHEMA)] = Field(
        "from_request", description="source of the record key, or the name of your own mapper"
    )
    attribute: AttributeName | None = Field(None, description="for mapper attribute: its name")
    template: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="for mapper template: text with {attribute} in it"
    )
    pointer: DataPointer | None = Field(
        None, description="for mapper pointer: a JSON Pointer into the data, such as /order/id"
    )
    attributes: Annotated[tuple[AttributeName, ...], Field(min_length=1)] | None = Field(
        None, description="for mapper hash: the attributes in the digest"
    )
    missing: Literal["none", "reject"] = Field(
        "none", description="an event without a key is sent without one, or refused with 400"
    )

    @model_validator(mode="after")
    def argument_fits(self) -> KeyPolicy:
        needs = {
            "attribute": "attribute",
            "template": "template",
            "pointer": "pointer",
            "hash": "attributes",
        }
        wanted = needs.get(self.mapper)
        for argument in needs.values():
            given = getattr(self, argument) is not None
            if given and argument != wanted:
                raise ValueError(self._takes_no(argument))
            if not given and argument == wanted:
                raise ValueError(
                    f"The mapper {self.mapper} needs {argument}. Cure: Set {argument}."
                )
        if self.mapper == "none" and self.missing == "reject":
            raise ValueError(
                "The mapper none with missing: reject refuses every event. Cure: Remove missing."
            )
        return self

    def _takes_no(self, argument: str) -> str:
        if self.mapper in BUILT_IN_MAPPERS:
            return f"The mapper {self.mapper} has no {argument}. Cure: Remove {argument}."
        return (
            f"The mapper {self.mapper} is not built in, so it has no {argument}. Cure: Remove {argument}, or use "
            f"one of {', '.join(BUILT_IN_MAPPERS)}."
        )


class OtherRoute(Strict):
    """A route that takes the event instead."""

    route: Name = Field(description="name of the route that takes it; its filters are not asked")


class DataSchema(Strict):
    """JSON Schema 2020-12 for the data of events, from files of this machine."""

    file: Path | None = Field(None, description="file of the schema for every event of the route")
    dataschema: Annotated[dict[str, Path], Field(min_length=1)] | None = Field(
        None,
        description="files by the event's dataschema; an event with another one, or without, is invalid",
    )
    on_invalid: Literal["reject", "count"] | OtherRoute = Field(
        "reject",
        description="an event whose data does not match: reject (422 with every fault), count (published and "
        "counted), or {route: NAME}",
    )

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple((self.dataschema or {}).values()) if self.file is None else (self.file,)

    @model_validator(mode="after")
    def one_source(self) -> DataSchema:
        if (self.file is None) == (self.dataschema is None):
            raise ValueError(
                "The schema needs either file or dataschema. Cure: Set one of the two."
            )
        return self


class Deduplicate(Strict):
    """An event is stored once within the window: what repeats its producer, source, id and data is answered 202
    with the receipt of the first."""

    window: Annotated[Duration, Field(ge=1, le=7 * 86_400)] = Field(
        600.0, description="time for which an event is remembered, from 1s to 7d"
    )
    max_entries: Annotated[Count, Field(ge=1, le=10_000_000)] = Field(
        1_000_000,
        description="events that are remembered at most, the newest; each takes about 0.2 kB of memory",
    )


def _as_list(value: object) -> object:
    return [value] if isinstance(value, dict | Target | Exchange) else value


class Route(Strict):
    """Targets of the events that match ``filters``. The first matching route wins."""

    model_config = ConfigDict(serialize_by_alias=True)

    name: Name = Field(description="name of the route; /events/{name} sends to it directly")
    filters: tuple[Filter, ...] = Field(
        (), description="all must match; an empty list matches everything"
    )
    to: Annotated[
        tuple[RouteTarget, ...],
        BeforeValidator(_as_list, json_schema_input_type=RouteTarget | tuple[RouteTarget, ...]),
        Field(min_length=1),
    ] = Field(
        description="one target or a list; the answer 202 is sent when all of them have the event"
    )
    content_mode: Literal["binary", "structured", "as_received"] = Field(
        "binary", description="how the event is written to the log"
    )
    format: FormatName = "as_received"
    specversion: SpecVersion = "as_received"
    key: KeyPolicy = Field(KeyPolicy(), description="how the record key is computed")
    empty_body: Literal["null", "empty"] | None = Field(
        None,
        description="value of the record of an event without data: none (null), or empty; the "
        "default follows the broker's binding, which on Kafka and the embedded log "
        "is none",
    )
    data_schema: DataSchema | None = Field(
        None,
        alias="schema",
        description="check the data of each event; absent: data is not looked at",
    )
    deduplicate: Deduplicate | None = Field(
        None,
        description="store a repeated event once; absent: every event is stored. The embedded log "
        "remembers through a restart, other brokers' events are remembered in memory",
    )
    spool: Spool | None = Field(
        None,
        description="keep events on an embedded log while the target's broker is away; absent: such events "
        "are answered 503",
    )
    durability: Literal["full", "relaxed"] = Field(
        "full",
        description="relaxed: on Kafka, 202 before all in-sync replicas have the event; such a "
        "route has no guarantee, and all routes to one topic must have the same "
        "setting",
    )
    acks: Annotated[Literal[1, 0], BeforeValidator(_as_number)] | None = Field(
        None,
        description="with durability relaxed: wait for the leader (1, the default), or for no "
        "broker (0)",
    )

    @model_validator(mode="after")
    def acks_are_relaxed(self) -> Route:
        if self.acks is not None and self.durability != "relaxed":
            raise ValueError(
                "The setting acks: 1 or 0 may lose events that were answered 202. "
                "Cure: Add durability: relaxed, or remove acks."
            )
        return self

    @property
    def acknowledgements(self) -> Acknowledgements:
        """How many replicas must have an event before 202."""
        if self.durability == "full":
            return "all"
        return 1 if self.acks is None else self.acks


def taking(routes: Iterable[Route], name: str) -> list[Route]:
    """The routes that may take an event sent to the one of that name: itself, and the one that takes what does not
    match its schema."""
    known = {route.name: route for route in routes}
    found = known.get(name)
    schema = None if found is None else found.data_schema
    other = None if schema is None else schema.on_invalid
    taker = known.get(other.route) if isinstance(other, OtherRoute) else None
    return [each for each in (found, taker) if each is not None]


def log_of(route: Route, target: Target | Exchange) -> LogName:
    """Return the log that a route publishes to a target with, without its spool."""
    return LogName(target.broker, route.acknowledgements)
