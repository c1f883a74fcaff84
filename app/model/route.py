"""A route as a user writes it, in the file and over the API alike."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$"
Name = Annotated[str, Field(pattern=_NAME)]
AttributeName = Annotated[str, Field(pattern=r"^[a-z0-9]+$")]
AttributeMatch = Annotated[
    dict[AttributeName, Annotated[str, Field(min_length=1)]], Field(min_length=1)
]


class Strict(BaseModel):
    """Refuses what it does not know, so that a misspelt setting is an error and not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Filter(Strict):
    """One dialect with its argument (Subscriptions API, filters). All entries must match; compare is
    case-sensitive; an attribute that the event lacks does not match."""

    exact: AttributeMatch | None = Field(None, description="attribute has exactly this text")
    prefix: AttributeMatch | None = Field(None, description="attribute begins with this text")
    suffix: AttributeMatch | None = Field(None, description="attribute ends with this text")

    @model_validator(mode="after")
    def one_dialect(self) -> Filter:
        given = [self.exact, self.prefix, self.suffix]
        if sum(argument is not None for argument in given) != 1:
            raise ValueError("a filter has exactly one of exact, prefix, suffix")
        return self


class Target(Strict):
    """A place to publish to."""

    broker: Name = Field(description="a name under brokers")
    topic: Annotated[str, Field(min_length=1)] = Field(
        description="topic, or a template over attributes: orders.{type}; {{ and }} are braces"
    )


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
    """How the record key is made (Kafka binding 3.1). A mapper never touches the event (K10).

    ``from_request``  the sender's own key: header ``Skybridge-Key`` or query ``key`` (K7, default)
    ``partitionkey``  the Partitioning extension's attribute, as is (K9)
    ``attribute``     the attribute named by ``attribute``
    ``template``      ``template`` over attributes: ``{source}/{subject}``
    ``pointer``       the value at the JSON Pointer ``pointer`` in data
    ``hash``          a digest of the attributes named by ``attributes``
    ``none``          no key

    Any other name is an operator's own mapper, an entry point of the group ``skybridge.key_mappers``.
    """

    mapper: Annotated[Name, WithJsonSchema(_MAPPER_SCHEMA)] = Field(
        "from_request", description="where the record key comes from, or a mapper of your own"
    )
    attribute: AttributeName | None = Field(None, description="for mapper attribute: its name")
    template: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="for mapper template: text with {attribute} in it"
    )
    pointer: Annotated[str, Field(pattern=r"^(/([^~]|~[01])*)?$")] | None = Field(
        None, description="for mapper pointer: a JSON Pointer into the data, such as /order/id"
    )
    attributes: Annotated[tuple[AttributeName, ...], Field(min_length=1)] | None = Field(
        None, description="for mapper hash: the attributes that the digest is made of"
    )
    missing: Literal["none", "reject"] = Field(
        "none", description="an event that yields no key: goes without one, or is refused with 400"
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
                raise ValueError(f"mapper {self.mapper} needs {argument}")
        if self.mapper == "none" and self.missing == "reject":
            raise ValueError("mapper none with missing: reject would refuse every event")
        return self

    def _takes_no(self, argument: str) -> str:
        if self.mapper in BUILT_IN_MAPPERS:
            return f"mapper {self.mapper} takes no {argument}"
        return (
            f"mapper {self.mapper} is none of {', '.join(BUILT_IN_MAPPERS)}: it takes no {argument}"
        )


def _as_list(value: object) -> object:
    return [value] if isinstance(value, dict | Target) else value


class Route(Strict):
    """Where the events that match ``filters`` go. The first route that matches wins."""

    name: Name = Field(description="name of the route; /events/{name} sends to it directly")
    filters: tuple[Filter, ...] = Field((), description="all must match; none matches everything")
    to: Annotated[
        tuple[Target, ...],
        BeforeValidator(_as_list, json_schema_input_type=Target | tuple[Target, ...]),
        Field(min_length=1),
    ] = Field(description="one target or a list; 202 is answered when all of them have the event")
    content_mode: Literal["binary", "structured", "as_received"] = Field(
        "binary", description="how the event is written to the log"
    )
    specversion: Literal["as_received", "0.1", "0.2", "0.3", "1.0"] = Field(
        "as_received", description="the version of CloudEvents that the event is written in"
    )
    key: KeyPolicy = Field(KeyPolicy(), description="how the record key is made")
    empty_body: Literal["null", "empty"] = Field(
        "null", description="what an event without data becomes: no value (K13) or an empty value"
    )
