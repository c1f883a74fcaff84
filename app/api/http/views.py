"""The shapes that answers of several resources share, as OpenAPI shows them."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, Field

from app.model.scopes import Scope


class View(BaseModel):
    """An answer whose members are those of a value inside, but for a few that are given."""

    @classmethod
    def members(cls, value: object, **given: object) -> dict[str, Any]:
        """Return the members of ``value`` that the answer has too, and those that are ``given``."""
        own = {name: getattr(value, name) for name in cls.model_fields if hasattr(value, name)}
        return own | given

    @classmethod
    def of(cls, value: object, **given: object) -> Self:
        """Return the answer made of ``value``, validated. Values inside it become answers too."""
        return cls.model_validate(cls.members(value, **given), from_attributes=True)


class FaultView(BaseModel):
    """One fault of an event."""

    code: str
    detail: str
    at: str = Field(
        "", description="place of the fault: a header, a JSON Pointer, a query parameter"
    )
    rule: str = Field("", description="the broken clause")
    index: int | None = Field(None, description="index of the event in a batch")


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str = Field(examples=["urn:skybridge:problem:unknown-topic"])
    title: str
    status: int
    detail: str = ""
    faults: list[FaultView] = Field([], description="all faults of an invalid event")
    scope: Scope | None = Field(None, description="the scope that the token lacks")


class HealthView(BaseModel):
    healthy: bool
    cause: str = ""
