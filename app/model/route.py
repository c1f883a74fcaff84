"""A route as a user writes it, in the file and over the API alike."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$")]
AttributeName = Annotated[str, Field(pattern=r"^[a-z0-9]+$")]
AttributeMatch = Annotated[
    dict[AttributeName, Annotated[str, Field(min_length=1)]], Field(min_length=1)
]


class Strict(BaseModel):
    """Refuses what it does not know, so that a misspelt setting is an error and not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Filter(Strict):
    """One dialect with its argument (CloudEvents Subscriptions API: filters). All entries must match."""

    exact: AttributeMatch | None = None
    prefix: AttributeMatch | None = None
    suffix: AttributeMatch | None = None

    @model_validator(mode="after")
    def one_dialect(self) -> Filter:
        if len(self.model_fields_set) != 1:
            raise ValueError("a filter has exactly one of exact, prefix, suffix")
        return self


class Target(Strict):
    """A place to publish to. ``topic`` may be a template over attributes: ``orders.{type}``."""

    broker: Name
    topic: Annotated[str, Field(min_length=1)]


class KeyPolicy(Strict):
    """How the record key is made (Kafka binding 3.1). A mapper never touches the event (K10).

    ``from_request``  the sender's own key: header ``Skybridge-Key`` or query ``key`` (K7, default)
    ``partitionkey``  the Partitioning extension's attribute, as is (K9)
    ``attribute``     the attribute named by ``attribute``
    ``template``      ``template`` over attributes: ``{source}/{subject}``
    ``pointer``       the value at the JSON Pointer ``pointer`` in data
    ``hash``          a digest of the attributes named by ``attributes``
    ``none``          no key
    """

    mapper: Literal[
        "from_request", "partitionkey", "attribute", "template", "pointer", "hash", "none"
    ] = "from_request"
    attribute: AttributeName | None = None
    template: str | None = None
    pointer: Annotated[str, Field(pattern=r"^(/.*)?$")] | None = None
    attributes: tuple[AttributeName, ...] | None = None
    missing: Literal["none", "reject"] = "none"

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
                raise ValueError(f"mapper {self.mapper} takes no {argument}")
            if not given and argument == wanted:
                raise ValueError(f"mapper {self.mapper} needs {argument}")
        return self


class Route(Strict):
    """Where the events that match ``filters`` go. The first route that matches wins."""

    name: Name
    filters: tuple[Filter, ...] = ()
    to: tuple[Target, ...]
    content_mode: Literal["binary", "structured", "as_received"] = "binary"
    key: KeyPolicy = KeyPolicy()
    empty_body: Literal["null", "empty"] = Field(
        "null", description="what an event without data becomes: no value (K13) or an empty value"
    )

    @field_validator("to", mode="before")
    @classmethod
    def one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, dict | Target) else value

    @field_validator("to")
    @classmethod
    def at_least_one(cls, value: tuple[Target, ...]) -> tuple[Target, ...]:
        if not value:
            raise ValueError("a route needs at least one target")
        return value
