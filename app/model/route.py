"""The settings of a route, equal in configuration file and API."""

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
        description="event format of documents: as received (JSON for events in binary mode), or this format"
    ),
]
SpecVersion = Annotated[
    Literal["as_received", "0.1", "0.2", "0.3", "1.0"],
    Field(description="CloudEvents version in which the event is written"),
]


class Strict(BaseModel):
    """A setting that refuses unknown members, so that a misspelt name is an error and not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Target(Strict):
    """A topic to which events are published."""

    broker: Name = Field(description="name of a broker under brokers")
    topic: Annotated[str, Field(min_length=1)] = Field(
        description="topic, or a template with attributes: orders.{type}; {{ and }} are braces"
    )

    @property
    def place(self) -> str:
        """Return the place on the broker as text for people."""
        return self.topic


class Exchange(Strict):
    """An exchange of RabbitMQ to which events are published. The broker's bindings choose the queues."""

    broker: Name = Field(description="name of a broker under brokers, of kind rabbitmq")
    exchange: str = Field(
        description="exchange, or a template with attributes; empty is the default exchange, whose "
        "routing key is the name of a queue"
    )
    routing_key: str = Field(
        "", description="routing key, or a template with attributes: orders.{type}"
    )

    @property
    def place(self) -> str:
        """Return the place on the broker as text for people."""
        return f"{self.exchange}:{self.routing_key}"


def _as_number(value: object) -> object:
    """Convert "0" and "1" to int, because ``${...}`` yields text."""
    return int(value) if value in ("0", "1") else value


def _target_form(value: object) -> str:
    """Return the tag of a target's form. A tag is never the name of a setting, so that errors distinguish them."""
    if isinstance(value, dict):
        return "at exchange" if "exchange" in value or "routing_key" in value else "at topic"
    return "at exchange" if isinstance(value, Exchange) else "at topic"


RouteTarget = Annotated[
    Annotated[Target, Tag("at topic")] | Annotated[Exchange, Tag("at exchange")],
    Discriminator(_target_form),
]
"""A target ``{broker, topic}``, or on RabbitMQ also ``{broker, exchange, routing_key}``."""


DataPointer = Annotated[str, Field(pattern=r"^(/([^~]|~[01])*)?$")]
"""A JSON Pointer (RFC 6901) into the data of an event. Empty text means all of the data."""

BUILT_IN_MAPPERS = (
    "from_request", "partitionkey", "attribute", "template", "pointer", "hash", "none",
)  # fmt: skip
_MAPPER_SCHEMA = {
    "anyOf": [
        {"enum": list(BUILT_IN_MAPPERS), "type": "string"},
        {"pattern": _NAME, "type": "string"},
    ]
}  # editors offer the built-in mappers


class KeyPolicy(Strict):
    """The computation of the record key (Kafka binding 3.1). A mapper never changes the event.

    ``from_request``  the sender's own key, from the header ``Skybridge-Key`` or the query ``key`` (default)
    ``partitionkey``  the attribute of the Partitioning extension; an empty value gives no key
    ``attribute``     the attribute that ``attribute`` names
    ``template``      the text of ``template``, with attributes in it: ``{source}/{subject}``
    ``pointer``       the value at the JSON Pointer ``pointer`` in the data
    ``hash``          a digest of the attributes that ``attributes`` names
    ``none``          no key

    Any other name is an operator's own mapper, an entry point of the group ``skybridge.key_mappers``.
    """

    mapper: Annotated[Name, WithJsonSchema(_MAPPER_SCHEMA)] = Field(
        "from_request", description="source of the record key, or the name of your own mapper"
    )
    attribute: AttributeName | None = Field(
        None, description="for mapper attribute: name of the attribute"
    )
    template: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="for mapper template: a text with attributes in braces, such as {source}"
    )
    pointer: DataPointer | None = Field(
        None, description="for mapper pointer: a JSON Pointer into the data, such as /order/id"
    )
    attributes: Annotated[tuple[AttributeName, ...], Field(min_length=1)] | None = Field(
        None, description="for mapper hash: the attributes in the digest"
    )
    missing: Literal["none", "from_request", "reject"] = Field(
        "none",
        description="an event without a key: none publishes it so, from_request takes the sender's own key if there is one, reject answers 400",
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
                "The mapper none gives no event a key, so missing: reject would refuse every event. Cure: Remove missing, or choose another mapper."
            )
        if self.mapper in {"none", "from_request"} and self.missing == "from_request":
            raise ValueError(
                f"The mapper {self.mapper} leaves missing: from_request without an effect of its own. Cure: Remove missing, or set mapper: from_request alone."
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
    """The route that takes an event with invalid data."""

    route: Name = Field(description="route that takes the event; its filters are not evaluated")


class DataSchema(Strict):
    """A JSON Schema (2020-12) for the data of events, from files on this machine."""

    file: Path | None = Field(None, description="file of the schema for every event of the route")
    dataschema: Annotated[dict[str, Path], Field(min_length=1)] | None = Field(
        None,
        description="schema files by the event's dataschema; an event with another dataschema, or without, is invalid",
    )
    on_invalid: Literal["reject", "count"] | OtherRoute = Field(
        "reject",
        description="what happens to an event whose data does not match: reject (422 with every fault), count (published and "
        "counted), or {route: NAME}",
    )

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the schema files."""
        return tuple((self.dataschema or {}).values()) if self.file is None else (self.file,)

    @model_validator(mode="after")
    def one_source(self) -> DataSchema:
        if (self.file is None) == (self.dataschema is None):
            raise ValueError(
                "The schema needs exactly one of file and dataschema. Cure: Set one of the two settings, and remove the other."
            )
        return self


class Deduplicate(Strict):
    """The window in which a repeated event (same producer, source, id and data) is stored once and answered 202."""

    window: Annotated[Duration, Field(ge=1, le=7 * 86_400)] = Field(
        600.0, description="time for which an event is remembered, from 1s to 7d"
    )
    max_entries: Annotated[Count, Field(ge=1, le=10_000_000)] = Field(
        1_000_000,
        description="most events that are remembered, the newest ones; each takes about 0.2 kB of memory",
    )


def _as_list(value: object) -> object:
    return [value] if isinstance(value, dict | Target | Exchange) else value


class Route(Strict):
    """The targets of the events that match ``filters``. The first matching route takes the event."""

    model_config = ConfigDict(serialize_by_alias=True)

    name: Name = Field(description="name of the route; /events/{name} sends to it directly")
    filters: tuple[Filter, ...] = Field(
        (), description="conditions that must all hold; an empty list matches every event"
    )
    to: Annotated[
        tuple[RouteTarget, ...],
        BeforeValidator(_as_list, json_schema_input_type=RouteTarget | tuple[RouteTarget, ...]),
        Field(min_length=1),
    ] = Field(
        description="one target or a list of targets; the answer 202 is sent when all of them have stored the event"
    )
    content_mode: Literal["binary", "structured", "as_received"] = Field(
        "binary", description="content mode of the record"
    )
    format: FormatName = "as_received"
    specversion: SpecVersion = "as_received"
    key: KeyPolicy = Field(KeyPolicy(), description="computation of the record key")
    empty_body: Literal["null", "empty"] | None = Field(
        None,
        description="record value of an event without data: no value (null), or an empty one; the "
        "default follows the broker's binding, which on Kafka and the embedded log "
        "is no value",
    )
    data_schema: DataSchema | None = Field(
        None,
        alias="schema",
        description="JSON Schema for the data of each event; absent: data is not checked",
    )
    deduplicate: Deduplicate | None = Field(
        None,
        description="store a repeated event once; absent: store every event. The embedded log "
        "remembers events across a restart; for other brokers they are remembered in memory",
    )
    spool: Spool | None = Field(
        None,
        description="store events on an embedded log while the target's broker is unavailable; absent: such events "
        "are answered 503",
    )
    durability: Literal["full", "relaxed"] = Field(
        "full",
        description="relaxed: on Kafka, answer 202 before all in-sync replicas have the event; such a "
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
                "The settings acks: 1 and acks: 0 may lose events that were answered 202. "
                "Cure: Add durability: relaxed, or remove acks."
            )
        return self

    @property
    def acknowledgements(self) -> Acknowledgements:
        """Return the number of replicas that must have an event before the answer 202."""
        if self.durability == "full":
            return "all"
        return 1 if self.acks is None else self.acks


def routes_taking(routes: Iterable[Route], name: str) -> list[Route]:
    """Return the route of this name, and the route that takes the data which its schema refuses."""
    known = {route.name: route for route in routes}
    found = known.get(name)
    schema = None if found is None else found.data_schema
    other = None if schema is None else schema.on_invalid
    taker = known.get(other.route) if isinstance(other, OtherRoute) else None
    return [each for each in (found, taker) if each is not None]


def log_of(route: Route, target: Target | Exchange) -> LogName:
    """Return the log through which a route publishes to a target, without its spool."""
    return LogName(target.broker, route.acknowledgements)
